/* arch.h: one architecture = one file in arch/ that defines th_arch_<name>: which numbers it reads and which blocks its
 * layers are made of. The folder is the registry (the Makefile lists it into arch_list.h). docs/ADD_A_MODEL.md. */
#ifndef THIMBLE_ARCH_H
#define THIMBLE_ARCH_H

#include "model/block.h"
#include "model/hparams.h"

struct Arch {
    const char *name;  /* general.architecture */
    int rope;          /* ROPE_* of op.h */
    /* Its own keys and defaults, after the common ones were read. NULL: none. */
    bool (*read)(Hparams *hp, const Gguf *g, Err *err);
    /* What layer il is made of. Pure. */
    void (*layer)(const Hparams *hp, int il, LayerSpec *out);
    const char *final_norm; /* NULL: "output_norm" */
    bool mtp;               /* its MTP blocks are layers of this kind and want the trunk's normed hidden state */
    bool scales_experts;    /* goes by expert_weights_scale; elsewhere the key means nothing (specification 5) */
    bool rope_factors;      /* honours rope_freqs and rope_factors_* tensors */
};

const Arch *th_arch_find(Str name); /* NULL: unknown */
void th_arch_names(char *out, size_t cap); /* comma-separated */

#endif
