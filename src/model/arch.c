/* arch.c: finding an architecture by its name. The list is made by the Makefile from the files in arch/. */
#include "model/arch.h"

#include <string.h>

#define ARCH(name) extern const Arch th_arch_##name;
#include "arch_list.h"
#undef ARCH

static const Arch *const archs[] = {
#define ARCH(name) &th_arch_##name,
#include "arch_list.h"
#undef ARCH
};

const Arch *th_arch_find(Str name) {
    for (size_t i = 0; i < TH_COUNT(archs); i++)
        if (th_str_is(name, archs[i]->name)) return archs[i];
    return NULL;
}

void th_arch_names(char *out, size_t cap) {
    size_t used = 0;
    for (size_t i = 0; i < TH_COUNT(archs); i++) {
        size_t len = strlen(archs[i]->name), separator = i ? 2 : 0;
        if (used + separator + len + 1 > cap) break;
        memcpy(out + used, ", ", separator);
        memcpy(out + used + separator, archs[i]->name, len);
        used += separator + len;
    }
    if (cap) out[used] = '\0';
}
