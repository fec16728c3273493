/* plan.c: see plan.h. Every question is answered by trying: th_plan_cost of a candidate against the bytes there are,
 * with binary search where there is a number to choose. Costs grow with every such number, except for a wobble of one
 * part in the spread, which a last step down takes care of. */
#include "weights/plan.h"

#include <string.h>

enum { USUAL_RING = 8, PLACE_ALIGN = 64 };

/* ---- what a decision makes of one weight ----------------------------------------------------------------------- */

/* Walks the weights in running order; keeps the resident share of the bytes passed so far close to the decision's. */
typedef struct Spread {
    uint64_t passed, resident;
} Spread;

/* In two steps, so that nothing wraps: bytes may be large. */
static uint64_t share_of(uint64_t bytes, int spread) {
    uint64_t share = (uint64_t)spread;
    return bytes / SPREAD_ALL * share + bytes % SPREAD_ALL * share / SPREAD_ALL;
}

/* Resident parts of a dense matrix. */
static int spread_parts(const Weights *ws, const Decision *d, const Weight *w, Spread *s) {
    bool product = th_weight_is_product(ws, w);
    int spread = product ? d->spread : d->embed_spread;
    if (d->mapped) return 0;
    if (d->all_resident || spread == SPREAD_ALL || (d->keep && w->keep)) return w->n_parts;
    uint64_t part = th_part_bytes(w, 0);
    if (!product) return (int)(share_of(w->bytes, spread) / part);
    s->passed += w->bytes;
    uint64_t target = share_of(s->passed, spread);
    uint64_t n = target > s->resident ? (target - s->resident) / part : 0;
    int parts = n > (uint64_t)w->n_parts ? w->n_parts : (int)n;
    s->resident += th_parts_bytes(w, parts);
    return parts;
}

/* Bytes of the resident region that a weight takes; *parts as in Weight.resident_parts. */
static uint64_t resident_piece(const Weights *ws, const Decision *d, const Weight *w, Spread *s, int *parts) {
    *parts = 0;
    if (th_weight_is_bundle(w)) return 0;
    if (th_weight_is_vector(w)) return (uint64_t)w->cols * (uint64_t)w->rows * sizeof(float);
    if (th_weight_is_expert(w)) {
        *parts = d->all_resident ? w->experts : 0;
        return d->all_resident ? w->bytes : 0;
    }
    *parts = spread_parts(ws, d, w, s);
    return th_parts_bytes(w, *parts);
}

/* ---- cost ------------------------------------------------------------------------------------------------------ */

static uint64_t region(uint64_t bytes) {
    if (bytes == 0 || bytes > SIZE_MAX / 2) return bytes; /* beyond any budget of a machine with such pointers */
    return th_vm_rounded((size_t)bytes, th_weights_huge(bytes));
}

/* Derives resident_bytes, n_streamed and row_span. */
static void derive(const Weights *ws, Decision *d) {
    Spread spread = {0};
    d->resident_bytes = d->row_span = 0;
    d->n_streamed = 0;
    for (const Weight *w = ws->first; w; w = w->next) {
        int parts;
        d->resident_bytes += th_align_up(resident_piece(ws, d, w, &spread, &parts), PLACE_ALIGN);
        if (d->mapped || !th_weight_is_dense(w) || parts == w->n_parts) continue;
        if (th_weight_is_product(ws, w)) d->n_streamed += w->n_parts - parts;
        uint64_t span = th_align_up(th_file_span(w->file, 0, w->row_bytes), 4096);
        if ((w->flags & WEIGHT_EMBED) && span > d->row_span) d->row_span = span;
    }
}

static uint64_t cost(const Weights *ws, Decision *d, PlanCost *out) {
    PlanCost c = {0};
    derive(ws, d);
    c.resident = region(d->resident_bytes);
    if (d->n_streamed) {
        c.ring = region((uint64_t)d->ring_slots * d->ring_slot_bytes);
        c.io += th_stream_table_bytes(d->ring_slots, d->n_streamed);
    }
    if (d->paged) {
        int slots = 0;
        for (int i = 0; i < d->n_classes; i++) {
            slots += d->slot_class[i].count;
            c.slots += region((uint64_t)d->slot_class[i].count * d->slot_class[i].bytes);
        }
        c.io += th_paged_table_bytes(slots);
    }
    if (d->row_span) c.io += th_gather_bytes(d->row_span);
    if (d->n_streamed || d->paged || d->row_span) c.io += N_READERS * (uint64_t)READER_BYTES;
    if (out) *out = c;
    return c.resident + c.ring + c.slots + c.io;
}

uint64_t th_plan_cost(const Weights *ws, const Decision *d, PlanCost *out) {
    Decision copy = *d;
    return cost(ws, &copy, out);
}

/* ---- slot classes ---------------------------------------------------------------------------------------------- */

/* Two neighbours become one where that wastes least: small experts lie in larger slots. */
static void merge_classes(SlotClassPlan *c, int *n) {
    int best = 0;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i + 1 < *n; i++) {
        uint64_t waste = (c[i + 1].bytes - c[i].bytes) * (uint64_t)c[i].layers;
        if (waste < least) {
            least = waste;
            best = i;
        }
    }
    c[best + 1].layers += c[best].layers;
    c[best + 1].most += c[best].most;
    memmove(&c[best], &c[best + 1], (size_t)(*n - best - 1) * sizeof c[0]);
    --*n;
}

/* Ascending by bytes, at most MAX_SLOT_CLASSES. */
static void collect_classes(const Weights *ws, Decision *d) {
    SlotClassPlan c[MAX_SLOT_CLASSES + 1];
    int n = 0;
    for (const Weight *w = ws->first; w; w = w->next) {
        if (!th_weight_is_bundle(w)) continue;
        int at = 0;
        while (at < n && c[at].bytes < w->paging->slot_bytes) at++;
        if (at == n || c[at].bytes != w->paging->slot_bytes) {
            memmove(&c[at + 1], &c[at], (size_t)(n - at) * sizeof c[0]);
            c[at] = (SlotClassPlan){.bytes = w->paging->slot_bytes};
            n++;
        }
        c[at].layers++;
        c[at].most += w->experts;
        if (n > MAX_SLOT_CLASSES) merge_classes(c, &n);
    }
    d->n_classes = n;
    for (int i = 0; i < n; i++) {
        d->slot_class[i] = c[i];
        d->slot_class[i].floor = th_min_int(2 * d->experts_used + 1, c[i].most);
        d->slot_class[i].count = d->slot_class[i].floor;
    }
}

/* slots / 64 for each layer of a class. */
static void share_slots(Decision *d, int64_t slots_64) {
    for (int i = 0; i < d->n_classes; i++) {
        SlotClassPlan *c = &d->slot_class[i];
        int64_t count = slots_64 * c->layers / 64;
        c->count = count < c->floor ? c->floor : count > c->most ? c->most : (int)count;
    }
}

static int64_t count_slots(const Decision *d) {
    int64_t n = 0;
    for (int i = 0; i < d->n_classes; i++) n += d->slot_class[i].count;
    return n;
}

enum { MOST_SLOTS_64 = 64 * 8192 }; /* more experts than any layer has */

/* --slots: exactly so many, as far as floor and experts allow; then there is nothing left to choose. */
static void force_slots(Decision *d, int slots) {
    int64_t low = 0, high = MOST_SLOTS_64;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        share_slots(d, middle);
        if (count_slots(d) <= slots) low = middle;
        else high = middle - 1;
    }
    share_slots(d, low);
    for (int i = 0; i < d->n_classes; i++) { /* what rounding left over */
        SlotClassPlan *c = &d->slot_class[i];
        int64_t more = slots - count_slots(d);
        if (more > 0) c->count = (int)(more > c->most - c->count ? c->most : c->count + more);
        c->floor = c->most = c->count;
    }
}

static void grow_slots(const Weights *ws, Decision *d, uint64_t bytes) {
    int64_t low = 0, high = MOST_SLOTS_64;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        share_slots(d, middle);
        if (cost(ws, d, NULL) <= bytes) low = middle;
        else high = middle - 1;
    }
    share_slots(d, low);
}

/* ---- decisions ------------------------------------------------------------------------------------------------- */

static uint64_t ring_slot_bytes(const Weights *ws) {
    uint64_t largest = 0;
    for (const Weight *w = ws->first; w; w = w->next) {
        if (!th_weight_is_product(ws, w)) continue;
        uint64_t span = th_align_up(th_file_span(w->file, 0, th_part_bytes(w, 0)), 4096);
        if (span > largest) largest = span;
    }
    return largest;
}

/* The smallest thing that runs, all dense weights streamed. */
static Decision smallest(const Weights *ws, int experts_used) {
    Decision d = {.experts_used = th_max_int(experts_used, 1), .ring_slots = FLOOR_RING};
    d.ring_slot_bytes = ring_slot_bytes(ws);
    collect_classes(ws, &d);
    d.paged = d.n_classes > 0;
    if (d.paged && ws->options.slots > 0) force_slots(&d, ws->options.slots);
    return d;
}

static Decision everything(const Weights *ws, int experts_used) {
    Decision d = smallest(ws, experts_used);
    d.all_resident = true;
    d.paged = false;
    return d;
}

/* Small models may need less for their dense weights than for a ring. */
static uint64_t floor_bytes(const Weights *ws, int experts_used) {
    int home = ws->options.home;
    Decision d = everything(ws, experts_used);
    uint64_t all = cost(ws, &d, NULL);
    if (home == THIMBLE_HOME_RESIDENT) return all;
    d = smallest(ws, experts_used);
    d.mapped = home == THIMBLE_HOME_MAPPED;
    if (d.mapped) d.paged = false;
    uint64_t streamed = cost(ws, &d, NULL);
    if (home == THIMBLE_HOME_STREAM || home == THIMBLE_HOME_MAPPED) return streamed;
    d.spread = SPREAD_ALL;
    uint64_t dense = cost(ws, &d, NULL), least = streamed < dense ? streamed : dense;
    bool may_stay = home == THIMBLE_HOME_AUTO && ws->options.slots == 0;
    return may_stay && all < least ? all : least;
}

static void grow_spread(const Weights *ws, Decision *d, int *spread, int most, uint64_t bytes) {
    int low = 0, high = most;
    while (low < high) {
        *spread = (low + high + 1) / 2;
        if (cost(ws, d, NULL) <= bytes) low = *spread;
        else high = *spread - 1;
    }
    *spread = low;
    while (*spread > 0 && cost(ws, d, NULL) > bytes) --*spread;
}

/* The most that fits of what asks to be kept, of the ring, then of the matrices. */
static void fill_with_dense(const Weights *ws, Decision *d, uint64_t bytes, bool forced_stream) {
    d->keep = !forced_stream;
    if (cost(ws, d, NULL) > bytes) d->keep = false;
    uint64_t spare = bytes - cost(ws, d, NULL);
    uint64_t more = d->ring_slot_bytes ? spare / 4 / d->ring_slot_bytes : 0;
    d->ring_slots += more > USUAL_RING - FLOOR_RING ? USUAL_RING - FLOOR_RING : (int)more;
    while (d->ring_slots > FLOOR_RING && cost(ws, d, NULL) > bytes) d->ring_slots--;
    if (!forced_stream) grow_spread(ws, d, &d->spread, SPREAD_ALL - 1, bytes);
}

static bool decide(const Weights *ws, uint64_t bytes, int experts_used, Decision *d) {
    int home = ws->options.home;
    *d = everything(ws, experts_used);
    if (home == THIMBLE_HOME_RESIDENT) return cost(ws, d, NULL) <= bytes;
    if (home == THIMBLE_HOME_AUTO && ws->options.slots == 0 && cost(ws, d, NULL) <= bytes) return true;
    *d = smallest(ws, experts_used);
    if (home == THIMBLE_HOME_MAPPED) {
        d->mapped = true;
        d->paged = false;
        return cost(ws, d, NULL) <= bytes;
    }
    bool stream = home == THIMBLE_HOME_STREAM;
    d->spread = stream ? 0 : SPREAD_ALL;
    if (cost(ws, d, NULL) > bytes) d->spread = 0;
    if (cost(ws, d, NULL) > bytes) return false;
    if (d->spread != SPREAD_ALL) fill_with_dense(ws, d, bytes, stream);
    if (d->paged) grow_slots(ws, d, bytes);
    if (!stream) grow_spread(ws, d, &d->embed_spread, SPREAD_ALL, bytes);
    return true;
}

/* ---- the decision enters the weights --------------------------------------------------------------------------- */

static void apply(Weights *ws, const Decision *decision) {
    Spread spread = {0};
    Decision *d = &ws->plan;
    uint64_t place = 0;
    *d = *decision;
    derive(ws, d);
    for (Weight *w = ws->first; w; w = w->next) {
        w->place = place;
        place += th_align_up(resident_piece(ws, d, w, &spread, &w->resident_parts), PLACE_ALIGN);
        if (th_weight_is_bundle(w)) {
            w->home = d->mapped ? &th_home_mapped : d->paged ? &th_home_paged : &th_home_resident;
            int c = 0;
            while (c + 1 < d->n_classes && d->slot_class[c].bytes < w->paging->slot_bytes) c++;
            w->paging->slot_class = c;
        } else if (th_weight_is_dense(w)) {
            bool stays = w->resident_parts == w->n_parts;
            w->home = d->mapped ? &th_home_mapped : stays ? &th_home_resident : &th_home_stream;
        } else {
            w->home = &th_home_resident;
        }
    }
}

double th_plan_hit_rate(double share) {
    static const double x[] = {0, 0.11, 0.14, 0.25, 0.34, 0.5, 1}, y[] = {0, 0.45, 0.54, 0.70, 0.78, 0.87, 1};
    if (share <= 0) return 0;
    for (size_t i = 1; i < TH_COUNT(x); i++)
        if (share <= x[i]) return y[i - 1] + (y[i] - y[i - 1]) * (share - x[i - 1]) / (x[i] - x[i - 1]);
    return 1;
}

static void report(const Weights *ws, WeightsPlan *out) {
    const Decision *d = &ws->plan;
    PlanCost c;
    th_plan_cost(ws, d, &c);
    *out = (WeightsPlan){.resident = c.resident, .ring = c.ring, .slots = c.slots, .io = c.io};
    uint64_t experts = 0;
    for (const Weight *w = ws->first; w; w = w->next) {
        if (th_weight_is_bundle(w)) experts += (uint64_t)w->experts;
        if (!d->mapped && th_weight_is_product(ws, w))
            out->streamed_per_pass += w->bytes - th_parts_bytes(w, w->resident_parts);
    }
    out->hit_rate = 1;
    if (!d->paged) return;
    out->n_slot_classes = d->n_classes;
    for (int i = 0; i < d->n_classes; i++) {
        out->slot_class[i].bytes = d->slot_class[i].bytes;
        out->slot_class[i].count = d->slot_class[i].count;
        out->slot_class[i].layers = d->slot_class[i].layers;
    }
    out->hit_rate = th_plan_hit_rate((double)count_slots(d) / (double)experts);
}

bool th_plan_make(Weights *ws, uint64_t bytes, int experts_used, WeightsPlan *out, Err *err) {
    Decision d;
    if (!decide(ws, bytes, experts_used, &d))
        return th_fail(err, THIMBLE_E_BUDGET, "the weights need at least %llu bytes but only %llu are left for them",
                       (unsigned long long)floor_bytes(ws, experts_used), (unsigned long long)bytes);
    apply(ws, &d);
    ws->planned = true;
    if (out) report(ws, out);
    return true;
}

void th_plan_need(const Weights *ws, int experts_used, WeightsNeed *out) {
    *out = (WeightsNeed){0};
    Decision d = smallest(ws, experts_used);
    PlanCost c;
    cost(ws, &d, &c);
    out->floor_ring = c.ring;
    out->floor_slots = c.slots;
    out->io = c.io;
    d.mapped = true; /* leaves the vectors alone in the region */
    derive(ws, &d);
    out->vectors = d.resident_bytes;
    for (const Weight *w = ws->first; w; w = w->next) {
        if (th_weight_is_dense(w)) out->dense += w->bytes;
        if (w->tensor && th_weight_is_expert(w)) out->experts += w->bytes;
    }
    d = everything(ws, experts_used);
    out->all = cost(ws, &d, NULL);
    out->floor = floor_bytes(ws, experts_used);
}
