/* mapped.c: weights in the system's page cache, mapped as they lie in the files. For measuring only: what the pages
 * take is the system's affair and in no budget, a page that is missing stops a kernel for the length of a read (other
 * systems measured a tenth of the speed of explicit reads), and a file cut short while mapped is a SIGBUS, not an
 * error. */
#include "weights/home.h"

bool th_mapped_load(Weights *ws, Err *err) {
    Gguf *g = ws->gguf;
    for (uint32_t i = 0; i < g->n_shards; i++) {
        if (g->files[i].size == 0) continue;
        ws->maps[i] = th_vm_map_file(g->files[i].fd, g->files[i].size, err);
        if (!ws->maps[i]) return th_err_prefix(err, "%s: ", g->files[i].path);
    }
    for (Weight *w = ws->first; w; w = w->next) {
        if (th_weight_is_bundle(w) || th_weight_is_vector(w)) continue;
        w->memory = (const char *)ws->maps[w->tensor->shard] + w->tensor->offset;
    }
    return true;
}

void th_mapped_close(Weights *ws) {
    if (!ws->maps) return;
    for (uint32_t i = 0; i < ws->gguf->n_shards; i++) {
        th_vm_unmap_file(ws->maps[i], ws->gguf->files[i].size);
        ws->maps[i] = NULL;
    }
}

static bool pin(Weights *ws, const Weight *w, int part, View *view, Err *err) {
    (void)ws, (void)err;
    return th_memory_pin(w, w->n_parts, part, view);
}

const HomeOps th_home_mapped = {.name = "mapped", .pin = pin, .unpin = th_memory_unpin, .ready = th_memory_ready};
