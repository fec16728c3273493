/* state.c: one sequence's memory.
 *
 * The region begins with the table of layers; each layer's bytes follow at multiples of 64, as much as its mix block asks
 * for. Fresh memory is zero. What a rewind may do is each block's decision; going back to nothing is always possible. */
#include "model/state.h"

#include "model/model.h"
#include "os/vm.h"

static uint64_t layer_bytes(const Model *m, int il, int context, int batch) {
    const Layer *l = &m->layers[il];
    const Block *mix = l->spec.mix;
    return mix->state ? th_align_up(mix->state(l->mix, l, context, batch, m->options.cache_type), 64) : 0;
}

/* Exact sum; saturates instead of wrapping. */
static uint64_t raw_bytes(const Model *m, int context, int batch) {
    uint64_t bytes = th_align_up((uint64_t)m->hp.n_layer * sizeof(char *), 64);
    for (int il = 0; il < m->hp.n_layer; il++)
        if (!th_size_add(bytes, layer_bytes(m, il, context, batch), &bytes)) return UINT64_MAX / 4;
    return bytes;
}

uint64_t th_state_bytes(const Model *m, int context, int batch) {
    uint64_t bytes = raw_bytes(m, context, batch);
    return bytes > SIZE_MAX / 4 ? bytes : th_vm_rounded((size_t)bytes, false);
}

bool th_state_open(SeqState *s, const Model *m, Err *err) {
    *s = (SeqState){.model = m, .cache_type = m->options.cache_type, .context = m->context, .batch = m->batch};
    s->bytes = raw_bytes(m, m->context, m->batch);
    s->memory = th_vm_alloc(m->budget, MEM_KV, (size_t)s->bytes, false, err);
    if (!s->memory) {
        *s = (SeqState){0};
        return false;
    }
    s->layer = s->memory;
    char *at = (char *)s->memory + th_align_up((uint64_t)m->hp.n_layer * sizeof(char *), 64);
    for (int il = 0; il < m->hp.n_layer; il++) {
        uint64_t bytes = layer_bytes(m, il, m->context, m->batch);
        s->layer[il] = bytes ? at : NULL;
        at += bytes;
    }
    return true;
}

void th_state_close(SeqState *s, const Model *m) {
    if (s->memory) th_vm_free(m->budget, MEM_KV, s->memory, (size_t)s->bytes, false);
    *s = (SeqState){0};
}

bool th_state_rewind(SeqState *s, int length) {
    const Model *m = s->model;
    if (length < 0 || length > s->length) return false;
    if (length == s->length && s->high == s->length) return true;
    for (int il = 0; il < m->hp.n_layer; il++) {
        const Layer *l = &m->layers[il];
        const Block *mix = l->spec.mix;
        if (length > 0 && mix->can_rewind && !mix->can_rewind(l->mix, l, s, length)) return false;
    }
    if (length == 0) {
        for (int il = 0; il < m->hp.n_layer; il++) {
            const Layer *l = &m->layers[il];
            if (l->spec.mix->reset) l->spec.mix->reset(l->mix, l, s);
        }
        s->high = 0;
    }
    s->length = length;
    return true;
}
