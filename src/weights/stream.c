/* stream.c: dense matrices that do not fit: their parts pass through a ring of slots, read ahead in running order.
 *
 *   order   p0 p1 p2 p3 p4 p5 ... (cyclic: the next pass begins where this one ends)
 *              ^cursor: last part asked for
 *   slots     [p1 pinned][p2 ready][p3 loading][p4 loading]
 *
 * A pass asks for every part in the order in which the weights were bound, so the readers run ahead of it by as many
 * slots as there are, over the end of a pass into the next one. A part that is not where the order says (a head used
 * several times, a pass without its head) makes the ring start over from there: correct, only slower. A slot is free,
 * loading or ready; a pinned one is never taken. */
#include "weights/home.h"


typedef enum RingState { RING_FREE, RING_LOADING, RING_READY } RingState;

typedef struct RingSlot {
    Read read;
    int position; /* in the order */
    RingState state;
    int pins;
    char *memory;
} RingSlot;

typedef struct StreamPart {
    const Weight *weight;
    int part;
    int slot; /* -1: not in the ring */
} StreamPart;

struct Stream {
    RingSlot *slot;
    StreamPart *order;
    char *memory;
    uint64_t bytes;
    int n_slots, n_order, cursor;
};

uint64_t th_stream_table_bytes(int ring_slots, int n_streamed) {
    return sizeof(Stream) + (uint64_t)ring_slots * sizeof(RingSlot) + (uint64_t)n_streamed * sizeof(StreamPart);
}

/* ---- the ring -------------------------------------------------------------------------------------------------- */

static int next_position(const Stream *s, int position) { return position + 1 < s->n_order ? position + 1 : 0; }

/* Steps from the cursor to a position, going forward. */
static int distance(const Stream *s, int position) {
    return position >= s->cursor ? position - s->cursor : position - s->cursor + s->n_order;
}

static void release_slot(Stream *s, RingSlot *slot) {
    s->order[slot->position].slot = -1;
    slot->state = RING_FREE;
}

/* Lets go of parts that will not be asked for within a ring's length. */
static void drop_stale(Weights *ws, Stream *s) {
    for (int i = 0; i < s->n_slots; i++) {
        RingSlot *slot = &s->slot[i];
        if (slot->state == RING_FREE || slot->pins || distance(s, slot->position) < s->n_slots) continue;
        if (slot->state == RING_READY || th_aio_done(ws->aio, &slot->read) || th_aio_cancel(ws->aio, &slot->read))
            release_slot(s, slot);
    }
}

static RingSlot *free_slot(Stream *s) {
    for (int i = 0; i < s->n_slots; i++)
        if (s->slot[i].state == RING_FREE) return &s->slot[i];
    return NULL;
}

static void start_read(Weights *ws, Stream *s, RingSlot *slot, int position, int priority) {
    StreamPart *p = &s->order[position];
    slot->position = position;
    slot->state = RING_LOADING;
    p->slot = (int)(slot - s->slot);
    slot->read = (Read){.file = p->weight->file,
                        .offset = th_part_offset(p->weight, p->part),
                        .bytes = th_part_bytes(p->weight, p->part),
                        .buffer = slot->memory,
                        .priority = priority};
    th_aio_submit(ws->aio, &slot->read);
}

/* Gives every free slot the next part that is not on its way yet. */
static void read_ahead(Weights *ws, Stream *s) {
    drop_stale(ws, s);
    int position = s->cursor;
    for (int steps = 1; steps < s->n_slots && steps < s->n_order; steps++) {
        position = next_position(s, position);
        if (s->order[position].slot >= 0) continue;
        RingSlot *slot = free_slot(s);
        if (!slot) return;
        start_read(ws, s, slot, position, AIO_AHEAD);
    }
}

/* A slot for a part that nobody read ahead: of what is there, the part that is farthest away goes. */
static RingSlot *take_slot(Weights *ws, Stream *s) {
    drop_stale(ws, s);
    RingSlot *slot = free_slot(s);
    if (slot) return slot;
    for (int i = 0; i < s->n_slots; i++) {
        RingSlot *x = &s->slot[i];
        if (!x->pins && (!slot || distance(s, x->position) > distance(s, slot->position))) slot = x;
    }
    if (!slot) return NULL;
    if (slot->state == RING_LOADING && !th_aio_cancel(ws->aio, &slot->read)) th_aio_wait(ws->aio, &slot->read);
    release_slot(s, slot);
    return slot;
}

/* ---- home ------------------------------------------------------------------------------------------------------ */

static int position_of(const Weight *w, int part) { return w->stream_first + part - w->resident_parts; }

static bool pin(Weights *ws, const Weight *w, int part, View *view, Err *err) {
    if (part < w->resident_parts) return th_home_resident.pin(ws, w, part, view, err);
    if (w->stream_first < 0)
        return th_fail(err, THIMBLE_E_STATE, "%s: bound for its rows only, not for products", w->name);
    Stream *s = ws->stream;
    int position = position_of(w, part);
    s->cursor = position;
    RingSlot *slot = s->order[position].slot >= 0 ? &s->slot[s->order[position].slot] : NULL;
    if (!slot) {
        slot = take_slot(ws, s);
        if (!slot) return th_fail(err, THIMBLE_E_STATE, "%s: all slots of the stream ring are in use", w->name);
        start_read(ws, s, slot, position, AIO_DEMAND);
    }
    if (slot->state == RING_LOADING) th_aio_raise(ws->aio, &slot->read, AIO_DEMAND);
    read_ahead(ws, s);
    if (slot->state == RING_LOADING) {
        th_aio_wait(ws->aio, &slot->read);
        slot->state = RING_READY;
        if (slot->read.err.code) {
            release_slot(s, slot);
            return th_weights_read_failed(w, &slot->read, err);
        }
    }
    slot->pins++;
    *view = (View){.weight = w, .part = part, .parts = 1, .row0 = part * w->part_rows, .rows = th_part_rows(w, part),
                   .token = slot, .ptr = {slot->memory + slot->read.skip}};
    return true;
}

static void unpin(Weights *ws, View *view) {
    RingSlot *slot = view->token;
    if (!slot || --slot->pins > 0) return;
    release_slot(ws->stream, slot);
    read_ahead(ws, ws->stream);
}

static bool ready(const Weights *ws, const Weight *w, int part) {
    if (w->stream_first < 0) return false;
    int i = ws->stream->order[position_of(w, part)].slot;
    if (i < 0) return false;
    const RingSlot *slot = &ws->stream->slot[i];
    return slot->state == RING_READY || (slot->state == RING_LOADING && th_aio_done(ws->aio, &slot->read));
}

const HomeOps th_home_stream = {.name = "stream", .pin = pin, .unpin = unpin, .ready = ready};

/* ---- open, close ----------------------------------------------------------------------------------------------- */

static void append_parts(Weights *ws, Stream *s, bool multiplied) {
    for (Weight *w = ws->first; w; w = w->next) {
        if (!th_weight_is_product(ws, w) || w->multiplied != multiplied || w->resident_parts == w->n_parts) continue;
        w->stream_first = s->n_order;
        for (int part = w->resident_parts; part < w->n_parts; part++)
            s->order[s->n_order++] = (StreamPart){.weight = w, .part = part, .slot = -1};
    }
}

bool th_stream_open(Weights *ws, Err *err) {
    const Decision *d = &ws->plan;
    for (Weight *w = ws->first; w; w = w->next) w->stream_first = -1;
    if (!d->n_streamed) return true;
    Stream *s = ws->stream = th_mem_alloc(ws->budget, MEM_IO, sizeof *s, 16, err);
    if (!s) return false;
    s->n_slots = d->ring_slots;
    s->bytes = (uint64_t)d->ring_slots * d->ring_slot_bytes;
    s->slot = th_mem_alloc(ws->budget, MEM_IO, (size_t)s->n_slots * sizeof *s->slot, 16, err);
    s->order = th_mem_alloc(ws->budget, MEM_IO, (size_t)d->n_streamed * sizeof *s->order, 16, err);
    if (!s->slot || !s->order) return false;
    s->memory = th_vm_alloc(ws->budget, MEM_RING, (size_t)s->bytes, th_weights_huge(s->bytes), err);
    if (!s->memory) return false;
    for (int i = 0; i < s->n_slots; i++) s->slot[i].memory = s->memory + (uint64_t)i * d->ring_slot_bytes;
    append_parts(ws, s, true);
    append_parts(ws, s, false); /* an embedding that must be the head as well was bound first, but runs last */
    s->cursor = s->n_order - 1; /* the readers begin before the first pass does */
    read_ahead(ws, s);
    return true;
}

void th_stream_close(Weights *ws) {
    Stream *s = ws->stream;
    if (!s) return;
    th_vm_free(ws->budget, MEM_RING, s->memory, (size_t)s->bytes, th_weights_huge(s->bytes));
    th_mem_free(ws->budget, MEM_IO, s->order, (size_t)ws->plan.n_streamed * sizeof *s->order);
    th_mem_free(ws->budget, MEM_IO, s->slot, (size_t)s->n_slots * sizeof *s->slot);
    th_mem_free(ws->budget, MEM_IO, s, sizeof *s);
    ws->stream = NULL;
}
