/* checkpoint.c: which earlier memories a session keeps. Slots are few and large (megabytes), so everything is a plain
 * search over them; nothing here is on the path of a token but one comparison. */
#include "session/checkpoint.h"

#include <limits.h>

#include "os/vm.h"

enum { USUAL_STEP = 256 };

/* Passes of a prompt end at the steps. So that they stay as large as the batch allows (each pass may read the whole
 * model from flash), the first step is a multiple of the batch. */
static int first_step(int batch) { return batch * ((USUAL_STEP + batch - 1) / batch); }

bool th_checkpoints_open(Checkpoints *c, const Model *m, Err *err) {
    uint64_t stride = th_state_checkpoint_bytes(m);
    *c = (Checkpoints){.model = m, .first_step = first_step(m->batch)};
    c->step = c->first_step;
    if (m->checkpoints == 0 || stride == 0) return true;
    c->n = m->checkpoints;
    c->n_turns = (c->n + 2) / 3;
    c->stride = (size_t)stride;
    c->logits_at = (size_t)stride - (size_t)th_align_up((uint64_t)m->hp.n_vocab * sizeof(float), 64);
    c->bytes = stride * (uint64_t)c->n; /* in range: the plan was made with it */
    c->memory = th_vm_alloc(m->budget, MEM_KV, (size_t)c->bytes, false, err);
    if (!c->memory) *c = (Checkpoints){0};
    return c->memory != NULL;
}

void th_checkpoints_close(Checkpoints *c) {
    if (c->memory) th_vm_free(c->model->budget, MEM_KV, c->memory, (size_t)c->bytes, false);
    *c = (Checkpoints){0};
}

static int most_of(const Checkpoints *c, int kind) { return kind == CHECKPOINT_TURN ? c->n_turns : c->n - c->n_turns; }

static int count(const Checkpoints *c, int kind) {
    int n = 0;
    for (int i = 0; i < c->n; i++) n += (c->slot[i].kinds & kind) != 0;
    return n;
}

static int slot_at(const Checkpoints *c, int position) {
    for (int i = 0; i < c->n; i++)
        if (c->slot[i].position == position) return i;
    return -1;
}

static void drop(Checkpoint *slot, int kind) {
    slot->kinds &= ~kind;
    if (slot->kinds == 0) *slot = (Checkpoint){0};
}

int th_checkpoints_stop(const Checkpoints *c, int length) {
    if (most_of(c, CHECKPOINT_ALIGNED) == 0 || length > INT_MAX - c->step) return INT_MAX;
    return length - length % c->step + c->step;
}

/* Room for one more aligned checkpoint, by doubling the step; false: position is no multiple of what it became. */
static bool room_aligned(Checkpoints *c, int position) {
    int most = most_of(c, CHECKPOINT_ALIGNED);
    if (most == 0) return false;
    while (position % c->step == 0 && count(c, CHECKPOINT_ALIGNED) >= most) {
        if (c->step > INT_MAX / 2) return false;
        c->step *= 2;
        for (int i = 0; i < c->n; i++)
            if (c->slot[i].position % c->step != 0) drop(&c->slot[i], CHECKPOINT_ALIGNED);
    }
    return position % c->step == 0;
}

/* Room for one more turn: the lowest stays if there are three and more, the next lowest goes. */
static void room_turn(Checkpoints *c) {
    while (count(c, CHECKPOINT_TURN) >= c->n_turns) {
        int lowest = -1, next = -1;
        for (int i = 0; i < c->n; i++) {
            if (!(c->slot[i].kinds & CHECKPOINT_TURN)) continue;
            if (lowest < 0 || c->slot[i].position < c->slot[lowest].position)
                next = lowest, lowest = i;
            else if (next < 0 || c->slot[i].position < c->slot[next].position)
                next = i;
        }
        drop(&c->slot[c->n_turns >= 3 ? next : lowest], CHECKPOINT_TURN);
    }
}

/* The slot for position with the kinds it may have; -1: none of them. Each kind keeps to its share of the slots, so one
 * is free. */
static int place(Checkpoints *c, int position, int kinds) {
    if (c->n == 0 || position <= 0) return -1;
    int i = slot_at(c, position), have = i >= 0 ? c->slot[i].kinds : 0, add = 0;
    if (kinds & ~have & CHECKPOINT_ALIGNED && room_aligned(c, position)) add |= CHECKPOINT_ALIGNED;
    if (kinds & ~have & CHECKPOINT_TURN) {
        room_turn(c);
        add |= CHECKPOINT_TURN;
    }
    i = slot_at(c, position); /* making room may have freed it */
    if (i < 0 && add) i = slot_at(c, 0);
    if (i < 0) return -1;
    c->slot[i].position = position;
    c->slot[i].kinds |= add;
    return i;
}

void th_checkpoints_take(Checkpoints *c, const SeqState *state, int kinds, const float *logits) {
    int before = slot_at(c, state->length), i;
    bool had_logits = before >= 0 && c->slot[before].has_logits;
    i = place(c, state->length, kinds);
    if (i < 0) return;
    char *to = c->memory + (size_t)i * c->stride;
    if (i != before) th_state_save_recurrent(state, to); /* there already: it is the same */
    if (logits) memcpy(to + c->logits_at, logits, (size_t)c->model->hp.n_vocab * sizeof *logits);
    c->slot[i].has_logits = logits || (i == before && had_logits);
}

char *th_checkpoints_place(Checkpoints *c, int position, int kinds, bool has_logits) {
    int i = place(c, position, kinds);
    if (i < 0) return NULL;
    c->slot[i].has_logits = has_logits;
    return c->memory + (size_t)i * c->stride;
}

int th_checkpoints_find(const Checkpoints *c, const SeqState *state, int length) {
    int best = -1;
    for (int i = 0; i < c->n; i++) {
        int at = c->slot[i].position;
        if (at > 0 && at <= length && (best < 0 || at > c->slot[best].position) && th_state_can_load(state, at))
            best = i;
    }
    return best;
}

bool th_checkpoints_load(const Checkpoints *c, int i, SeqState *state) {
    return th_state_load_recurrent(state, th_checkpoints_memory(c, i), c->slot[i].position);
}

const float *th_checkpoints_logits(const Checkpoints *c, int i) {
    return c->slot[i].has_logits ? (const float *)(const void *)(th_checkpoints_memory(c, i) + c->logits_at) : NULL;
}

void th_checkpoints_cut(Checkpoints *c, int length) {
    for (int i = 0; i < c->n; i++)
        if (c->slot[i].position > length) c->slot[i] = (Checkpoint){0};
    while (c->step > c->first_step && count(c, CHECKPOINT_ALIGNED) == 0 && length < c->step) c->step /= 2;
}
