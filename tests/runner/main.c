/* main.c: `vectors KIND DIR [-v]` runs one set of expected results and ends with "N passed, N failed, N skipped". */
#include "runner/vectors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#pragma weak vectors_quants
#pragma weak vectors_gguf
#pragma weak vectors_tokenizers
#pragma weak vectors_logits
#pragma weak vectors_arch_logits
#pragma weak vectors_ops
#pragma weak vectors_mtp

__attribute__((format(printf, 2, 0))) static void say(const char *word, const char *format, va_list args) {
    printf("%s: ", word);
    vprintf(format, args);
    putchar('\n');
}

void tally_pass(Tally *t, const char *format, ...) {
    t->passed++;
    (void)format;
}

void tally_fail(Tally *t, const char *format, ...) {
    t->failed++;
    if (!t->verbose) return;
    va_list args;
    va_start(args, format);
    say("FAILED", format, args);
    va_end(args);
}

void tally_skip(Tally *t, const char *format, ...) {
    t->skipped++;
    va_list args;
    va_start(args, format);
    say("skipped", format, args);
    va_end(args);
}

int main(int argc, char **argv) {
    const struct {
        const char *name;
        VectorsFn *run;
    } kinds[] = {{"quants", vectors_quants},
                 {"gguf", vectors_gguf},
                 {"tokenizers", vectors_tokenizers},
                 {"logits", vectors_logits},
                 {"arch-logits", vectors_arch_logits},
                 {"ops", vectors_ops},
                 {"mtp", vectors_mtp},
                 {"chat-templates", NULL}, /* come with later commands */
                 {"tool-calls", NULL}};
    const char *kind = NULL, *dir = NULL;
    Tally t = {0};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-v"))
            t.verbose = true;
        else if (!kind)
            kind = argv[i];
        else
            dir = argv[i];
    }
    if (!kind || !dir) {
        fprintf(stderr, "usage: vectors KIND DIR [-v]\nkinds:");
        for (size_t i = 0; i < TH_COUNT(kinds); i++) fprintf(stderr, " %s", kinds[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    for (size_t i = 0; i < TH_COUNT(kinds); i++) {
        if (strcmp(kind, kinds[i].name) != 0) continue;
        if (!kinds[i].run) {
            printf("skipped: this build has no runner for %s\n0 passed, 0 failed, 1 skipped\n", kind);
            return 0;
        }
        if (!kinds[i].run(dir, &t)) {
            fprintf(stderr, "vectors: %s holds no %s set\n", dir, kind);
            return 2;
        }
        printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped);
        return t.failed ? 1 : 0;
    }
    fprintf(stderr, "vectors: there is no kind \"%s\"\n", kind);
    return 2;
}
