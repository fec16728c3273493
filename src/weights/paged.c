/* paged.c: experts in a bounded set of slots.
 *
 *   class 0  [slot][slot][slot]...   1.7 MB each
 *   class 1  [slot][slot]...         2.0 MB each  (layers whose down is Q6_K)
 *   slot     |gate, widened to whole blocks|up|down|
 *
 * A slot is free, loading, ready or pinned (ready with pins). want() claims what a layer is about to use: a claimed
 * slot is not evicted before its pin is over, or until another layer is come to. All reads of a claim are queued at
 * once, ahead of everything that is only guessed. The plan sized each class above the pins a pass can hold, so a pin
 * may wait for a read but never for another pin. A read that failed never makes a slot ready.
 *
 * Victims: the coolest of 64 random slots, or the least recently used one (exact, a list). A guess takes
 * free slots, and those of experts that are cooler than the guessed one; it enters the list at its old end, so that a
 * wrong one is the first to go. Under lookahead auto, guesses stop while more than a hundredth of the bytes went for
 * some that did not come true: with the experts they pushed out, they cost at most twice that.
 *
 * A pass of many tokens uses most experts of every layer, one layer after the other: a scan, which would push out
 * everything by the time it comes around. Therefore what a scan reads leaves by the same door, and what was there
 * before stays: hits for the next scan, and for the tokens after it. */
#include "base/rng.h"
#include "weights/home.h"

enum { SAMPLES = 64, NONE = -1, MOST_GUESSES = 8, DOUBT_SHARE = 100, SCAN_TOKENS = 4 };
typedef enum SlotState { SLOT_FREE, SLOT_LOADING, SLOT_READY } SlotState;

typedef struct Slot {
    Read read[MAX_BUNDLE];
    const Weight *bundle;
    int expert;
    SlotState state;
    int pins;
    uint32_t claim;      /* equal to the store's: not to be evicted */
    bool wanted;         /* its claim is that of a use, not of a guess */
    bool fresh, guessed; /* read for a use or on a guess, and not used since */
    bool scanned;        /* goes to the old end of the list when it is let go */
    int newer, older;    /* by last use; free slots are chained by `older` */
    char *memory;
} Slot;

typedef struct SlotClass {
    Slot *slot;
    char *memory;
    uint64_t slot_bytes;
    int n, free, newest, oldest;
    int claimed;               /* slots wanted by the current layer or pinned by it */
    int guesses, most_guesses; /* guesses being read; as many as never stand in the way of pins */
    int demands;               /* other slots being read, as far as known */
    EvictPolicy policy;
} SlotClass;

struct Paged {
    SlotClass class[MAX_SLOT_CLASSES];
    Slot *slots;
    int n_slots, lookahead;
    const Weight *current; /* the bundle that was come to last */
    uint32_t claim;        /* counts comings */
    int visit_pins;        /* since then */
    bool scan;             /* the layer before this one used more experts than a few tokens do */
    uint64_t rng[4];
    uint64_t hits, misses, guess_used, guess_wasted, bytes, demand_bytes;
    uint64_t doubtful_bytes; /* read on guesses that did not come true, so far */
    double stall_s;
};

uint64_t th_paged_table_bytes(int slots) { return sizeof(Paged) + (uint64_t)slots * sizeof(Slot); }

static SlotClass *class_of(const Weights *ws, const Weight *w) { return &ws->paged->class[w->paging->slot_class]; }

static Slot *slot_of(const SlotClass *c, const Weight *w, int expert) {
    int i = w->paging->expert[expert].slot;
    return i < 0 ? NULL : &c->slot[i];
}

static uint64_t expert_bytes(const Weight *w) { return w->bytes / (uint64_t)w->experts; }

/* ---- lists ----------------------------------------------------------------------------------------------------- */

static void unlink_slot(SlotClass *c, Slot *s) {
    if (s->newer == NONE) c->newest = s->older;
    else c->slot[s->newer].older = s->older;
    if (s->older == NONE) c->oldest = s->newer;
    else c->slot[s->older].newer = s->newer;
}

static void link_newest(SlotClass *c, Slot *s) {
    int i = (int)(s - c->slot);
    s->newer = NONE;
    s->older = c->newest;
    if (c->newest == NONE) c->oldest = i;
    else c->slot[c->newest].newer = i;
    c->newest = i;
}

static void link_oldest(SlotClass *c, Slot *s) {
    int i = (int)(s - c->slot);
    s->older = NONE;
    s->newer = c->oldest;
    if (c->oldest == NONE) c->newest = i;
    else c->slot[c->oldest].older = i;
    c->oldest = i;
}

static void claim_slot(const Paged *p, SlotClass *c, Slot *s) {
    if (s->claim == p->claim && s->wanted) return;
    s->claim = p->claim;
    s->wanted = true;
    c->claimed++;
}

static void end_claim(const Paged *p, SlotClass *c, Slot *s) {
    if (s->claim == p->claim && s->wanted) c->claimed--;
    s->claim = 0;
    s->wanted = false;
}

static void make_free(Paged *p, SlotClass *c, Slot *s) {
    if (s->guessed) p->guess_wasted++;
    end_claim(p, c, s);
    s->bundle->paging->expert[s->expert].slot = NONE;
    unlink_slot(c, s);
    s->state = SLOT_FREE;
    s->fresh = s->guessed = s->scanned = false;
    s->older = c->free;
    c->free = (int)(s - c->slot);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* Into a free slot, which there is. */
static Slot *start_read(Weights *ws, SlotClass *c, const Weight *w, int expert, bool guess) {
    Paged *p = ws->paged;
    Slot *s = &c->slot[c->free];
    c->free = s->older;
    s->bundle = w;
    s->expert = expert;
    s->state = SLOT_LOADING;
    s->fresh = !guess;
    s->guessed = guess;
    w->paging->expert[expert].slot = (int)(s - c->slot);
    if (guess) {
        c->guesses++;
        p->doubtful_bytes += expert_bytes(w);
        s->claim = p->claim; /* guesses do not push out each other */
        link_oldest(c, s);
    } else {
        c->demands++;
        p->demand_bytes += expert_bytes(w);
        claim_slot(p, c, s);
        link_newest(c, s);
    }
    p->bytes += expert_bytes(w);
    for (int i = 0; i < w->n_members; i++) {
        const Weight *m = w->member[i];
        size_t bytes = (size_t)m->rows * m->row_bytes;
        s->read[i] = (Read){.file = m->file,
                            .offset = m->tensor->offset + (uint64_t)expert * bytes,
                            .bytes = bytes,
                            .buffer = s->memory + w->paging->member_at[i],
                            .priority = guess ? AIO_SPECULATIVE : AIO_DEMAND};
        th_aio_submit(ws->aio, &s->read[i]);
    }
    return s;
}

static bool reads_done(const Weights *ws, const Slot *s) {
    for (int i = 0; i < s->bundle->n_members; i++)
        if (!th_aio_done(ws->aio, &s->read[i])) return false;
    return true;
}

/* All reads of the slot are over: it is ready, or free again and the failed read is returned. */
static const Read *settle(Paged *p, SlotClass *c, Slot *s) {
    const Read *failed = NULL;
    for (int i = 0; i < s->bundle->n_members && !failed; i++)
        if (s->read[i].err.code) failed = &s->read[i];
    if (s->guessed) c->guesses--;
    else c->demands--;
    s->state = SLOT_READY;
    if (failed) make_free(p, c, s);
    return failed;
}

static const Read *wait_for(Weights *ws, SlotClass *c, Slot *s) {
    double start = th_sys_seconds();
    for (int i = 0; i < s->bundle->n_members; i++) th_aio_raise(ws->aio, &s->read[i], AIO_DEMAND);
    for (int i = 0; i < s->bundle->n_members; i++) th_aio_wait(ws->aio, &s->read[i]);
    ws->paged->stall_s += th_sys_seconds() - start;
    return settle(ws->paged, c, s);
}

/* ---- victims --------------------------------------------------------------------------------------------------- */

/* Also notices reads that ended while nobody looked; a failed one leaves a free slot behind. */
static bool evictable(const Weights *ws, SlotClass *c, Slot *s) {
    Paged *p = ws->paged;
    if (s->state == SLOT_FREE || s->pins || s->claim == p->claim) return false;
    if (s->state == SLOT_LOADING && (!reads_done(ws, s) || settle(p, c, s))) return false;
    return true;
}

static bool goes_first(EvictPolicy policy, const Slot *a, const Slot *b) {
    const BundlePaging *x = a->bundle->paging, *y = b->bundle->paging;
    return th_evict_first(policy, x->expert[a->expert].heat, x->visit, y->expert[b->expert].heat, y->visit);
}

static Slot *oldest_victim(const Weights *ws, SlotClass *c) {
    for (int i = c->oldest; i != NONE;) {
        Slot *s = &c->slot[i];
        i = s->newer;
        if (evictable(ws, c, s)) return s;
    }
    return NULL;
}

/* NULL: every slot is pinned, claimed, being read or free. */
static Slot *choose_victim(const Weights *ws, SlotClass *c) {
    Slot *victim = NULL;
    if (c->policy == EVICT_LRU) return oldest_victim(ws, c);
    int tries = th_min_int(SAMPLES, c->n);
    for (int i = 0; i < tries; i++) {
        int at = tries == c->n ? i : (int)(th_rng_next(ws->paged->rng) % (uint64_t)c->n);
        Slot *s = &c->slot[at];
        if (evictable(ws, c, s) && (!victim || goes_first(c->policy, s, victim))) victim = s;
    }
    return victim ? victim : oldest_victim(ws, c);
}

static bool make_room(const Weights *ws, SlotClass *c) {
    if (c->free != NONE) return true;
    Slot *victim = choose_victim(ws, c);
    if (victim) make_free(ws->paged, c, victim);
    return c->free != NONE;
}

/* For a pin: what nobody holds; else what was only claimed, for claims are hints; else what is still being read. */
static bool force_room(Weights *ws, SlotClass *c) {
    if (make_room(ws, c)) return true;
    for (SlotState state = SLOT_READY;; state = SLOT_LOADING) {
        for (int i = c->oldest; i != NONE; i = c->slot[i].newer) {
            Slot *s = &c->slot[i];
            if (s->pins || s->state != state) continue;
            if (state == SLOT_READY || !wait_for(ws, c, s)) make_free(ws->paged, c, s);
            return true;
        }
        if (state == SLOT_LOADING) return false;
    }
}

/* ---- home ------------------------------------------------------------------------------------------------------ */

static bool is_scan(const Weights *ws, const Weight *w) {
    return ws->paged->visit_pins > th_max_int(SCAN_TOKENS * ws->plan.experts_used, w->experts / 2);
}

/* Coming to another layer ends the claims of the one before, whatever became of it. */
static void come_to(Weights *ws, const Weight *w) {
    Paged *p = ws->paged;
    if (p->current == w) return;
    if (p->current) p->scan = is_scan(ws, p->current);
    p->current = w;
    p->visit_pins = 0;
    if (++p->claim == 0) p->claim = 1;
    w->paging->visit++;
    for (int i = 0; i < MAX_SLOT_CLASSES; i++) p->class[i].claimed = 0;
}

static void want(Weights *ws, const Weight *w, const int *parts, int n) {
    SlotClass *c = class_of(ws, w);
    come_to(ws, w);
    int most = th_paged_max_pins(ws, w);
    /* First what is there, so that no read pushes it out. */
    for (int i = 0; i < n; i++) {
        Slot *s = slot_of(c, w, parts[i]);
        if (!s || c->claimed >= most) continue;
        claim_slot(ws->paged, c, s);
        if (s->state != SLOT_LOADING) continue;
        for (int k = 0; k < w->n_members; k++) th_aio_raise(ws->aio, &s->read[k], AIO_DEMAND);
    }
    for (int i = 0; i < n; i++)
        if (!slot_of(c, w, parts[i]) && c->claimed < most && make_room(ws, c)) start_read(ws, c, w, parts[i], false);
}

static bool cooler(const Slot *victim, const Weight *w, int expert) {
    const BundlePaging *x = victim->bundle->paging, *y = w->paging;
    return th_evict_first(EVICT_LFRU, x->expert[victim->expert].heat, x->visit, y->expert[expert].heat, y->visit);
}

static void guess(Weights *ws, const Weight *w, const int *parts, int n) {
    Paged *p = ws->paged;
    SlotClass *c = class_of(ws, w);
    for (int i = 0; i < n && th_paged_lookahead(ws); i++) {
        Slot *s = slot_of(c, w, parts[i]);
        if (s && s->claim != p->claim) s->claim = p->claim, s->wanted = false;
        if (s) continue;
        if (c->demands || c->guesses >= c->most_guesses) return; /* nothing is idle */
        if (c->free == NONE) {
            Slot *victim = choose_victim(ws, c);
            if (victim && cooler(victim, w, parts[i])) make_free(p, c, victim);
        }
        if (c->free != NONE) start_read(ws, c, w, parts[i], true);
    }
}

static bool ready(const Weights *ws, const Weight *w, int part) {
    const Slot *s = slot_of(class_of(ws, w), w, part);
    return s && (s->state == SLOT_READY || reads_done(ws, s));
}

/* A read that failed before anybody needed it is tried once more. */
static Slot *fetch(Weights *ws, SlotClass *c, const Weight *w, int expert, Err *err) {
    const Read *failed;
    bool there;
    do {
        int at = w->paging->expert[expert].slot;
        there = at != NONE;
        if (!there && !force_room(ws, c)) {
            th_fail(err, THIMBLE_E_STATE, "%s: all %d expert slots of its size are in use", w->name, c->n);
            return NULL;
        }
        Slot *s = there ? &c->slot[at] : start_read(ws, c, w, expert, false);
        failed = s->state == SLOT_LOADING ? wait_for(ws, c, s) : NULL;
        if (!failed) return s;
    } while (there); /* after a failure it is not */
    th_weights_read_failed(w, failed, err);
    return NULL;
}

static bool pin(Weights *ws, const Weight *w, int part, View *view, Err *err) {
    Paged *p = ws->paged;
    SlotClass *c = class_of(ws, w);
    come_to(ws, w);
    Slot *s = fetch(ws, c, w, part, err);
    if (!s) return false;
    if (s->guessed) {
        p->guess_used++;
        p->doubtful_bytes -= expert_bytes(w);
        p->demand_bytes += expert_bytes(w);
    } else if (s->fresh) {
        p->misses++;
    } else {
        p->hits++;
    }
    p->visit_pins++;
    bool scan = p->scan || is_scan(ws, w);
    s->scanned = scan && s->fresh;
    s->guessed = s->fresh = false;
    if (!scan) {
        th_heat_use(&w->paging->expert[part].heat, w->paging->visit);
        unlink_slot(c, s);
        link_newest(c, s);
    }
    claim_slot(p, c, s);
    s->pins++;
    *view = (View){.weight = w, .part = part, .parts = 1, .rows = w->rows, .token = s};
    for (int i = 0; i < w->n_members; i++)
        view->ptr[i] = (const char *)s->read[i].buffer + s->read[i].skip;
    return true;
}

static void unpin(Weights *ws, View *view) {
    SlotClass *c = class_of(ws, view->weight);
    Slot *s = view->token;
    if (--s->pins > 0) return;
    end_claim(ws->paged, c, s);
    if (!s->scanned) return;
    s->scanned = false;
    unlink_slot(c, s);
    link_oldest(c, s);
}

const HomeOps th_home_paged = {
    .name = "paged", .pin = pin, .unpin = unpin, .ready = ready, .want = want, .guess = guess};

/* ---- open, close, figures -------------------------------------------------------------------------------------- */

static bool open_class(Weights *ws, SlotClass *c, const SlotClassPlan *plan, Slot *slots, Err *err) {
    uint64_t bytes = (uint64_t)plan->count * plan->bytes;
    int k = ws->plan.experts_used;
    c->slot = slots;
    c->slot_bytes = plan->bytes;
    c->newest = c->oldest = c->free = NONE;
    c->policy = th_evict_policy(ws->options.evict);
    /* What is guessed must leave room for a token's experts twice: those of this layer and those of the next. */
    int spare = th_max_int(plan->count - k, 0);
    c->most_guesses = ws->paged->lookahead == THIMBLE_OFF ? 0 : th_min_int(MOST_GUESSES, spare / 2);
    c->memory = th_vm_alloc(ws->budget, MEM_SLOTS, (size_t)bytes, th_weights_huge(bytes), err);
    if (!c->memory) return false;
    c->n = plan->count;
    for (int i = c->n - 1; i >= 0; i--) {
        c->slot[i].memory = c->memory + (uint64_t)i * plan->bytes;
        c->slot[i].older = c->free;
        c->free = i;
    }
    return true;
}

static int planned_slots(const Weights *ws) {
    int n = 0;
    for (int i = 0; i < ws->plan.n_classes; i++) n += ws->plan.slot_class[i].count;
    return n;
}

bool th_paged_open(Weights *ws, Err *err) {
    if (!ws->plan.paged) return true;
    Paged *p = ws->paged = th_mem_alloc(ws->budget, MEM_IO, sizeof *p, 16, err);
    if (!p) return false;
    p->lookahead = ws->options.lookahead;
    th_rng_seed(p->rng, 1);
    p->n_slots = planned_slots(ws);
    p->slots = th_mem_alloc(ws->budget, MEM_IO, (size_t)p->n_slots * sizeof *p->slots, 16, err);
    if (!p->slots) return false;
    Slot *slots = p->slots;
    for (int i = 0; i < ws->plan.n_classes; i++) {
        if (!open_class(ws, &p->class[i], &ws->plan.slot_class[i], slots, err)) return false;
        slots += p->class[i].n;
    }
    return true;
}

void th_paged_close(Weights *ws) {
    Paged *p = ws->paged;
    if (!p) return;
    for (int i = 0; i < ws->plan.n_classes; i++) {
        uint64_t bytes = (uint64_t)ws->plan.slot_class[i].count * ws->plan.slot_class[i].bytes;
        th_vm_free(ws->budget, MEM_SLOTS, p->class[i].memory, (size_t)bytes, th_weights_huge(bytes));
    }
    for (Weight *w = ws->first; w; w = w->next)
        for (int e = 0; w->paging && e < w->experts; e++) w->paging->expert[e].slot = NONE;
    th_mem_free(ws->budget, MEM_IO, p->slots, (size_t)p->n_slots * sizeof *p->slots);
    th_mem_free(ws->budget, MEM_IO, p, sizeof *p);
    ws->paged = NULL;
}

void th_paged_stats(const Weights *ws, WeightsStats *out) {
    const Paged *p = ws->paged;
    out->hits = p->hits;
    out->misses = p->misses;
    out->guess_used = p->guess_used;
    out->guess_wasted = p->guess_wasted;
    out->slots = (uint64_t)p->n_slots;
    out->expert_bytes = p->bytes;
    out->expert_stall_s = p->stall_s;
}

int th_paged_max_pins(const Weights *ws, const Weight *bundle) {
    const SlotClass *c = class_of(ws, bundle);
    return th_min_int(c->n - c->most_guesses, bundle->experts);
}

bool th_paged_lookahead(const Weights *ws) {
    const Paged *p = ws->paged;
    if (p->lookahead != THIMBLE_AUTO) return p->lookahead == THIMBLE_ON;
    return p->doubtful_bytes <= p->demand_bytes / DOUBT_SHARE;
}
