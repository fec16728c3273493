/* attend.c: attention of the pass's rows over their caches.
 *
 * Positions are cut into ranges of RANGE, aligned to absolute positions. A range gives, for one (row, head), its
 * largest score m, the sum s of exp(score - m) and the weighted sum o of its values; ranges are merged in ascending
 * order. What a range computes depends on the row's position, the window and the cached values alone, and K and V of
 * the pass itself are read back as the cache rounded them: so T, the split of a prompt, threads, and whether ranges are
 * walked one after another (many rows) or handed out (one row, long past) cannot show in the bits. Positions that a row
 * does not see are left out, not weighed with zero. Keys are turned and values widened to binary32 in small chunks that
 * all heads of the KV head and all rows of a tile share. */
#include <assert.h>
#include <math.h>

#include "base/num.h"
#include "kernel/vec_math.h"
#include "op/op.h"

enum {
    RANGE = 256,         /* part of the result's definition: never derive it from threads, T or context */
    CHUNK = ATTN_CHUNK,  /* positions turned or widened at once; divides RANGE */
    TILE = 16,           /* rows that share a chunk */
    WAVE = 16,           /* ranges handed out at once when there are few rows */
    SPREAD_ROWS = 4,     /* at most this many rows are worth handing out by ranges */
    MOST_HEADS = 16,     /* of one KV head that go together: many more share it in latent attention */
    INLINE_WORK = 32768  /* products below this are done before another thread would have woken up */
};

typedef struct Tile {
    int row, n; /* rows of one sequence, consecutive */
} Tile;

/* Buffers of one worker; G heads of one group, rows <= TILE. */
typedef struct Work {
    float *rows; /* [CHUNK][max(D, Dv)]: cached rows side by side where a ring wraps, or made from a quantised cache */
    float *chunk;  /* [D][CHUNK] turned keys or [CHUNK][Dv] widened values */
    float *q;      /* [rows * G][D]     */
    float *scores; /* [rows * G][RANGE] */
    float *acc;    /* [rows * G][Dv]    */
    float *max, *sum, *total_max, *total_sum; /* [rows * G] */
} Work;

typedef struct Attend {
    const Pass *p;
    const AttendSpec *a;
    const KvCache *cache;
    const float *q;
    float *out;
    size_t out_stride;
    const Tile *tiles;
    Work *work;
    int G, n_groups, slices; /* slices: groups that share a KV head */
    /* handing out ranges */
    float *parts; /* [rows][H][WAVE][Dv + 2] */
    int wave, n_wave;
} Attend;

/* Heads of a KV head are cut into equal slices when they are many: work for more threads, smaller buffers. A head's
 * result does not depend on those beside it. */
static int count_groups(const AttendSpec *a) {
    int G = a->H / a->Hk, slices = (G + MOST_HEADS - 1) / MOST_HEADS;
    while (G % slices != 0) slices++;
    return a->Hk * slices;
}

static int first_visible(const AttendSpec *a, int position) {
    return a->window > 0 ? th_max_int(0, position - a->window + 1) : 0;
}

/* ---- cached values ---------------------------------------------------------------------------------------------- */

/* A row is cut into blocks of 32 values, each an f16 scale and an integer a value; where its length is no multiple of
 * 32 (heads of 80), the last block is shorter. So every head size can be cached, and no block spans two heads. */
enum { Q8_BLOCK = 32 };

size_t th_cache_value_bytes(int cache_type, int n) {
    switch (cache_type) {
    case THIMBLE_CACHE_F32: return (size_t)n * 4;
    case THIMBLE_CACHE_Q8_0: return (size_t)n + 2 * (size_t)((n + Q8_BLOCK - 1) / Q8_BLOCK);
    default: return (size_t)n * 2;
    }
}

static void store_q8(char *dst, const float *x, int n) {
    for (int left = n; left > 0; left -= Q8_BLOCK) {
        int block = th_min_int(left, Q8_BLOCK);
        float max = 0;
        for (int i = 0; i < block; i++) max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
        uint16_t d = th_f32_to_f16(max < 127 * 65504.0f ? max / 127.0f : 65504.0f); /* never infinite */
        float inverse = th_f16_to_f32(d) > 0 ? 1.0f / th_f16_to_f32(d) : 0;
        memcpy(dst, &d, 2);
        for (int i = 0; i < block; i++) {
            float q = rintf(x[i] * inverse);
            dst[2 + i] = (char)(signed char)(q > 127 ? 127 : q < -127 ? -127 : q == q ? q : 0);
        }
        dst += 2 + block, x += block;
    }
}

static void load_q8(float *dst, const char *src, int n) {
    for (int left = n; left > 0; left -= Q8_BLOCK) {
        int block = th_min_int(left, Q8_BLOCK);
        uint16_t half;
        memcpy(&half, src, 2);
        float d = th_f16_to_f32(half);
        for (int i = 0; i < block; i++) dst[i] = d * (float)(signed char)src[2 + i];
        src += 2 + block, dst += block;
    }
}

static void store_values(const Kernels *k, int type, char *dst, const float *x, int n) {
    if (type == THIMBLE_CACHE_F32) memcpy(dst, x, (size_t)n * 4);
    else if (type == THIMBLE_CACHE_Q8_0) store_q8(dst, x, n);
    else k->vec.to_f16((uint16_t *)(void *)dst, x, n);
}

/* Cached rows of positions [begin, end) of one KV head, side by side; at most CHUNK of them. A quantised cache's become
 * binary32. Rows of cells that a window left behind are whatever lies there: nobody looks at what comes of them. */
static const void *load_rows(const Attend *j, const char *base, int n_cells, int n, int kv_head, int begin, int end,
                             float *buffer) {
    int type = j->a->cache_type;
    size_t bytes = th_cache_value_bytes(type, n);
    base += (size_t)kv_head * (size_t)n_cells * bytes;
    if (type != THIMBLE_CACHE_Q8_0 && begin % n_cells + (end - begin) <= n_cells)
        return base + (size_t)(begin % n_cells) * bytes;
    for (int at = begin; at < end;) {
        int cell = at % n_cells, run = th_min_int(end - at, n_cells - cell);
        const char *src = base + (size_t)cell * bytes;
        if (type == THIMBLE_CACHE_Q8_0)
            for (int i = 0; i < run; i++)
                load_q8(buffer + (size_t)(at - begin + i) * (size_t)n, src + (size_t)i * bytes, n);
        else memcpy((char *)buffer + (size_t)(at - begin) * bytes, src, (size_t)run * bytes);
        at += run;
    }
    return buffer;
}

typedef struct Store {
    const Pass *p;
    const AttendSpec *a;
    const KvCache *cache;
    const float *k, *v;
} Store;

static void store_rows(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Store *s = arg;
    const AttendSpec *a = s->a;
    size_t k_bytes = th_cache_value_bytes(a->cache_type, a->D), v_bytes = th_cache_value_bytes(a->cache_type, a->Dv);
    for (int t = begin; t < end; t++) {
        const KvCache *c = &s->cache[t];
        size_t cell = (size_t)(s->p->rows[t].position % c->n_cells);
        for (int h = 0; h < a->Hk; h++) {
            size_t head = (size_t)t * (size_t)a->Hk + (size_t)h, slot = (size_t)h * (size_t)c->n_cells + cell;
            store_values(s->p->k, a->cache_type, c->k + slot * k_bytes, s->k + head * (size_t)a->D, a->D);
            if (a->latent) continue;
            store_values(s->p->k, a->cache_type, c->v + slot * v_bytes, s->v + head * (size_t)a->Dv, a->Dv);
        }
    }
}

void th_attend_store(Pass *p, const AttendSpec *a, const KvCache *cache, const float *k, const float *v) {
    Store s = {p, a, cache, k, v};
    if (p->T < 4) store_rows(&s, 0, 0, p->T);
    else th_pool_run(p->pool, store_rows, &s, p->T);
}

/* ---- one range of one tile and group ---------------------------------------------------------------------------- */

/* What a row sees of [begin, end). */
typedef struct Span {
    int begin, end;
} Span;
static Span visible(const Attend *j, int row, int begin, int end) {
    int position = j->p->rows[row].position, first = first_visible(j->a, position);
    return (Span){th_max_int(begin, first), th_min_int(end, position + 1)};
}
/* What any row of the tile sees of it. */
static Span tile_visible(const Attend *j, Tile t, int begin, int end) {
    return (Span){visible(j, t.row, begin, end).begin, visible(j, t.row + t.n - 1, begin, end).end};
}

/* Columns of positions that a row does not see hold numbers without meaning. */
static void score_chunk(const Attend *j, Tile t, int group, int range, int begin, int end, Work *w) {
    const KvCache *c = &j->cache[t.row];
    const void *k = load_rows(j, c->k, c->n_cells, j->a->D, group / j->slices, begin, end, w->rows);
    const AttnKernel *attn = &j->p->k->attn;
    if (j->a->cache_type == THIMBLE_CACHE_F16) attn->turn_f16(w->chunk, k, end - begin, j->a->D);
    else attn->turn_f32(w->chunk, k, end - begin, j->a->D);
    attn->scores(w->scores + (begin - range), RANGE, w->q, t.n * j->G, w->chunk, j->a->D);
}

/* Values of positions [begin, end), widened. */
static const float *load_values(const Attend *j, const KvCache *c, int group, int begin, int end, Work *w) {
    bool is_f16 = j->a->cache_type == THIMBLE_CACHE_F16, latent = j->a->latent;
    int n = j->a->Dv, D = j->a->D;
    const void *rows =
        load_rows(j, latent ? c->k : c->v, c->n_cells, latent ? D : n, group / j->slices, begin, end, w->rows);
    if (!latent && !is_f16) return rows;
    if (!latent) {
        j->p->k->vec.from_f16(w->chunk, rows, (end - begin) * n);
        return w->chunk;
    }
    for (int i = 0; i < end - begin; i++) {
        float *to = w->chunk + (size_t)i * (size_t)n;
        size_t from = (size_t)i * (size_t)D;
        if (is_f16) j->p->k->vec.from_f16(to, (const uint16_t *)rows + from, n);
        else memcpy(to, (const float *)rows + from, (size_t)n * sizeof *to);
    }
    return w->chunk;
}

/* Rows that see the same part of the chunk go together. */
static void weigh_chunk(const Attend *j, Tile t, int group, int range, int begin, int end, Work *w) {
    int n = j->a->Dv;
    const float *v = load_values(j, &j->cache[t.row], group, begin, end, w);
    for (int i = 0; i < t.n;) {
        Span s = visible(j, t.row + i, begin, end);
        int same = 1;
        for (; i + same < t.n; same++) {
            Span other = visible(j, t.row + i + same, begin, end);
            if (other.begin != s.begin || other.end != s.end) break;
        }
        if (s.begin < s.end)
            j->p->k->attn.weigh(w->acc + (size_t)(i * j->G) * (size_t)n,
                                w->scores + (size_t)(i * j->G) * RANGE + (s.begin - range), RANGE, same * j->G,
                                v + (size_t)(s.begin - begin) * (size_t)n, s.end - s.begin, n);
        i += same;
    }
}

/* Scores of a range to weights; max and sum of each (row, head). A row that sees nothing of it gets sum 0. */
static void weigh_scores(const Attend *j, Tile t, int range, Work *w) {
    const VecKernel *vec = &j->p->k->vec;
    float cap = j->a->softcap;
    for (int i = 0; i < t.n; i++) {
        Span s = visible(j, t.row + i, range, range + RANGE);
        for (int g = 0; g < j->G; g++) {
            int at = i * j->G + g;
            float *scores = w->scores + (size_t)at * RANGE + (s.begin - range);
            int n = s.end - s.begin;
            w->max[at] = -INFINITY, w->sum[at] = 0;
            if (n <= 0) continue;
            vec->scale(scores, j->a->scale, n);
            if (cap > 0)
                for (int c = 0; c < n; c++) scores[c] = th_tanh_capped(scores[c], cap);
            w->max[at] = vec->max(scores, n);
            w->sum[at] = vec->exp_sub(scores, w->max[at], n);
        }
    }
}

/* The tile's queries of one group, side by side. */
static void gather_queries(const Attend *j, Tile t, int group, Work *w) {
    size_t n = (size_t)j->G * (size_t)j->a->D;
    for (int i = 0; i < t.n; i++)
        memcpy(w->q + (size_t)i * n,
               j->q + ((size_t)(t.row + i) * (size_t)j->a->H + (size_t)(group * j->G)) * (size_t)j->a->D,
               n * sizeof *w->q);
}

static void attend_range(const Attend *j, Tile t, int group, int range, Work *w) {
    Span all = tile_visible(j, t, range, range + RANGE);
    int first = all.begin / CHUNK * CHUNK;
    memset(w->acc, 0, (size_t)(t.n * j->G) * (size_t)j->a->Dv * sizeof *w->acc);
    for (int c = first; c < all.end; c += CHUNK) score_chunk(j, t, group, range, c, th_min_int(c + CHUNK, all.end), w);
    weigh_scores(j, t, range, w);
    for (int c = first; c < all.end; c += CHUNK) weigh_chunk(j, t, group, range, c, th_min_int(c + CHUNK, all.end), w);
}

/* Adds a range's (m, s, o) to the running ones. */
static void merge(float *max, float *sum, float *out, float m, float s, const float *o, int n) {
    if (s == 0) return; /* nothing was visible: not even a multiplication by one */
    float top = *max > m ? *max : m;
    float old = th_exp(*max - top), new = th_exp(m - top);
    *max = top;
    *sum = *sum * old + s * new;
    for (int i = 0; i < n; i++) out[i] = out[i] * old + o[i] * new;
}

/* The sink joins the denominator only; then out = o / s. */
static void finish(float max, float sum, float *out, const float *sink, int n) {
    if (sink) {
        float top = max > *sink ? max : *sink, old = th_exp(max - top);
        sum = sum * old + th_exp(*sink - top);
        for (int i = 0; i < n; i++) out[i] *= old;
    }
    float inverse = 1.0f / sum;
    for (int i = 0; i < n; i++) out[i] *= inverse;
}

/* ---- many rows: a worker walks the ranges of a tile ------------------------------------------------------------- */

/* Output of head i of the tile's, row by row. */
static float *tile_out(const Attend *j, Tile t, int group, int i) {
    size_t head = (size_t)(t.row + i / j->G) * (size_t)j->a->H + (size_t)(group * j->G + i % j->G);
    return j->out + head * j->out_stride;
}

/* Queries are gathered before the first output is written: it may take their place. */
static void attend_tile(const Attend *j, Tile t, int group, Work *w) {
    const AttendSpec *a = j->a;
    int n = t.n * j->G;
    gather_queries(j, t, group, w);
    for (int i = 0; i < n; i++) {
        w->total_max[i] = -INFINITY, w->total_sum[i] = 0;
        memset(tile_out(j, t, group, i), 0, (size_t)a->Dv * sizeof(float));
    }
    int end = j->p->rows[t.row + t.n - 1].position + 1;
    int range = first_visible(a, j->p->rows[t.row].position) / RANGE * RANGE;
    for (; range < end; range += RANGE) {
        attend_range(j, t, group, range, w);
        for (int i = 0; i < n; i++)
            merge(&w->total_max[i], &w->total_sum[i], tile_out(j, t, group, i), w->max[i], w->sum[i],
                  w->acc + (size_t)i * (size_t)a->Dv, a->Dv);
    }
    for (int i = 0; i < n; i++)
        finish(w->total_max[i], w->total_sum[i], tile_out(j, t, group, i),
               a->sinks ? &a->sinks[group * j->G + i % j->G] : NULL, a->Dv);
}

static void attend_tiles(void *arg, int worker, int begin, int end) {
    const Attend *j = arg;
    for (int i = begin; i < end; i++) attend_tile(j, j->tiles[i / j->n_groups], i % j->n_groups, &j->work[worker]);
}

/* ---- few rows: ranges are handed out, a wave at a time ---------------------------------------------------------- */

static float *part_at(const Attend *j, int row, int head, int range) {
    size_t at = ((size_t)row * (size_t)j->a->H + (size_t)head) * WAVE + (size_t)range;
    return j->parts + at * (size_t)(j->a->Dv + 2);
}

/* Items: rows x groups x ranges of the wave; a tile here is one row. */
static void attend_parts(void *arg, int worker, int begin, int end) {
    const Attend *j = arg;
    Work *w = &j->work[worker];
    for (int i = begin; i < end; i++) {
        int range = i % j->n_wave, group = i / j->n_wave % j->n_groups, row = i / j->n_wave / j->n_groups;
        gather_queries(j, (Tile){row, 1}, group, w);
        attend_range(j, (Tile){row, 1}, group, j->wave + range * RANGE, w);
        for (int g = 0; g < j->G; g++) {
            float *part = part_at(j, row, group * j->G + g, range);
            part[0] = w->max[g], part[1] = w->sum[g];
            memcpy(part + 2, w->acc + (size_t)g * (size_t)j->a->Dv, (size_t)j->a->Dv * sizeof *part);
        }
    }
}

/* Outputs grow apart from out, which may be the queries' place. totals [T][H][2], sums [T][H][Dv]. */
static void attend_spread(Pass *p, Attend *j, float *totals, float *sums) {
    const AttendSpec *a = j->a;
    int n = p->T * a->H, begin = first_visible(a, p->rows[0].position), end = 0;
    for (int t = 0; t < p->T; t++) {
        begin = th_min_int(begin, first_visible(a, p->rows[t].position));
        end = th_max_int(end, p->rows[t].position + 1);
    }
    for (int i = 0; i < n; i++) totals[2 * i] = -INFINITY, totals[2 * i + 1] = 0;
    memset(sums, 0, (size_t)n * (size_t)a->Dv * sizeof *sums);
    for (int wave = begin / RANGE * RANGE; wave < end; wave += WAVE * RANGE) {
        j->wave = wave;
        j->n_wave = th_min_int(WAVE, (end - wave + RANGE - 1) / RANGE);
        th_pool_run(p->pool, attend_parts, j, p->T * j->n_groups * j->n_wave);
        for (int i = 0; i < n; i++)
            for (int r = 0; r < j->n_wave; r++) {
                const float *part = part_at(j, i / a->H, i % a->H, r);
                merge(&totals[2 * i], &totals[2 * i + 1], sums + (size_t)i * (size_t)a->Dv, part[0], part[1], part + 2,
                      a->Dv);
            }
    }
    for (int i = 0; i < n; i++) {
        float *sum = sums + (size_t)i * (size_t)a->Dv;
        finish(totals[2 * i], totals[2 * i + 1], sum, a->sinks ? &a->sinks[i % a->H] : NULL, a->Dv);
        memcpy(j->out + (size_t)i * j->out_stride, sum, (size_t)a->Dv * sizeof *sum);
    }
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

/* Floats of a worker's buffers: rows, chunk, q, scores, acc, and four times the last. */
enum { N_BUFFERS = 6 };
static void size_buffers(const AttendSpec *a, int rows, size_t floats[N_BUFFERS]) {
    size_t n = (size_t)rows * (size_t)(a->H / count_groups(a)), width = (size_t)th_max_int(a->D, a->Dv);
    floats[0] = floats[1] = CHUNK * width;
    floats[2] = n * (size_t)a->D;
    floats[3] = n * RANGE;
    floats[4] = n * (size_t)a->Dv;
    floats[5] = n;
}

size_t th_attend_scratch(const AttendSpec *a, int T, int threads) {
    size_t floats[N_BUFFERS], rows = (size_t)th_min_int(T, SPREAD_ROWS), work = 0;
    size_buffers(a, th_min_int(T, TILE), floats);
    for (int i = 0; i < N_BUFFERS; i++) work += th_scratch_f32_size(floats[i]) * (i == N_BUFFERS - 1 ? 4 : 1);
    return th_scratch_size((size_t)T * sizeof(Tile)) + th_scratch_size((size_t)threads * sizeof(Work)) +
           (size_t)threads * work + th_scratch_f32_size(rows * (size_t)a->H * WAVE * (size_t)(a->Dv + 2)) +
           th_scratch_f32_size(2 * rows * (size_t)a->H) + th_scratch_f32_size(rows * (size_t)a->H * (size_t)a->Dv);
}

static Work *make_work(Pass *p, const AttendSpec *a, int threads) {
    size_t floats[N_BUFFERS];
    size_buffers(a, th_min_int(p->T, TILE), floats);
    Work *work = th_scratch_take(p, (size_t)threads * sizeof *work);
    for (int i = 0; i < threads; i++) {
        Work *w = &work[i];
        float **buffer[] = {&w->rows, &w->chunk, &w->q,         &w->scores,   &w->acc,
                            &w->max,  &w->sum,   &w->total_max, &w->total_sum};
        for (int b = 0; b < (int)TH_COUNT(buffer); b++)
            *buffer[b] = th_scratch_f32(p, floats[th_min_int(b, N_BUFFERS - 1)]);
    }
    return work;
}

/* Rows of one sequence with ascending positions, up to TILE of them, from the last to the first: later rows see more,
 * so the largest pieces of work are handed out first. */
static int make_tiles(const Pass *p, Tile *tiles) {
    int n = 0;
    for (int row = p->T; row > 0;) {
        int begin = row - 1;
        while (begin > 0 && row - begin < TILE && p->rows[begin - 1].seq == p->rows[row - 1].seq) begin--;
        tiles[n++] = (Tile){begin, row - begin};
        row = begin;
    }
    return n;
}

void th_attend(Pass *p, const AttendSpec *a, const KvCache *cache, float *out, const float *q) {
    size_t mark = th_scratch_mark(p);
    int threads = th_pool_threads(p->pool), longest = 0;
    Tile *tiles = th_scratch_take(p, (size_t)p->T * sizeof *tiles);
    Attend j = {.p = p, .a = a, .cache = cache, .q = q, .out = out, .tiles = tiles, .n_groups = count_groups(a),
                .work = make_work(p, a, threads)};
    j.slices = j.n_groups / a->Hk;
    j.G = a->H / j.n_groups;
    j.out_stride = a->out_stride ? a->out_stride : (size_t)a->Dv;
    int n = make_tiles(p, tiles) * j.n_groups;
    for (int t = 0; t < p->T; t++) longest = th_max_int(longest, p->rows[t].position);
    if (p->T <= SPREAD_ROWS && threads > 1 && n < 4 * threads && longest >= RANGE) {
        j.parts = th_scratch_f32(p, (size_t)p->T * (size_t)a->H * WAVE * (size_t)(a->Dv + 2));
        float *totals = th_scratch_f32(p, 2 * (size_t)p->T * (size_t)a->H);
        attend_spread(p, &j, totals, th_scratch_f32(p, (size_t)p->T * (size_t)a->H * (size_t)a->Dv));
    } else if ((size_t)p->T * (size_t)(longest + 1) * (size_t)(a->H * (a->D + a->Dv)) < INLINE_WORK) {
        attend_tiles(&j, 0, 0, n);
    } else {
        th_pool_run_grain(p->pool, attend_tiles, &j, n, 1);
    }
    th_scratch_reset(p, mark);
}
