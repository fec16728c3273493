/* test_plan.c: the plan is exact, monotone, and spends the budget on what pays. On files without data (holes). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/gguf_writer.h"
#include "common/scratch.h"
#include "weights/plan.h"

typedef struct Fixture {
    Scratch dir;
    GgufWriter writer;
    uint64_t data; /* bytes of tensors so far */
    char path[512];
    Gguf gguf;
    Budget budget;
    Kernels kernels;
    Weights *ws;
    WeightsOptions options;
} Fixture;

static Fixture f;

static void add(const char *name, uint32_t type, uint64_t d0, uint64_t d1, uint64_t d2) {
    const TypeInfo *t = th_type_info(type);
    gguf_writer_info(&f.writer, name, type, 3, (uint64_t[]){d0, d1, d2}, f.data);
    f.data = th_align_up(f.data + d0 / t->block * t->bytes * d1 * d2, 32);
}

typedef struct Model {
    int layers, dim, ff, vocab, experts, expert_ff, sizes; /* sizes: how many different sizes of experts */
    bool tied;
} Model;
static const Model dense_8b = {.layers = 36, .dim = 4096, .ff = 12288, .vocab = 151936};
static const Model moe_8b = {
    .layers = 20, .dim = 2048, .ff = 5120, .vocab = 60000, .experts = 128, .expert_ff = 512, .sizes = 2};

static const char *layer_name(int layer, const char *what) {
    static char name[64];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, what);
    return name;
}

static void write_model(const Model *m) {
    uint64_t dim = (uint64_t)m->dim, ff = (uint64_t)m->ff;
    memset(&f, 0, sizeof f);
    th_scratch_open(&f.dir);
    snprintf(f.path, sizeof f.path, "%s", th_scratch_path(&f.dir, "holes.gguf"));
    gguf_writer_init(&f.writer);
    gguf_writer_str(&f.writer, "general.architecture", "holes");
    add("token_embd.weight", TYPE_Q6_K, dim, (uint64_t)m->vocab, 1);
    for (int il = 0; il < m->layers; il++) {
        add(layer_name(il, "attn_norm"), TYPE_F32, dim, 1, 1);
        add(layer_name(il, "attn_q"), TYPE_Q4_K, dim, dim, 1);
        add(layer_name(il, "ffn_up"), TYPE_Q4_K, dim, ff, 1);
        if (!m->experts) continue;
        add(layer_name(il, "ffn_up_exps"), TYPE_Q4_K, dim, (uint64_t)m->expert_ff, (uint64_t)m->experts);
        /* The sizes differ by rows, not by type, so that there can be many. */
        add(layer_name(il, "ffn_down_exps"), TYPE_Q6_K, dim, (uint64_t)m->expert_ff + 16 * (uint64_t)(il % m->sizes),
            (uint64_t)m->experts);
    }
    if (!m->tied) add("output.weight", TYPE_Q6_K, dim, (uint64_t)m->vocab, 1);
    char *bytes;
    size_t len;
    gguf_writer_finish(&f.writer, &bytes, &len);
    if (!gguf_write_file(f.path, bytes, len) || truncate(f.path, (off_t)(len + 64 + f.data)) != 0)
        fail_msg("this file system makes no holes");
    free(bytes);
    gguf_writer_free(&f.writer);
}

static const MatKernel no_kernel = {.origin = "none"};

static void bind_layer(const Model *m, int il, Err *err) {
    const Weight *w, *member[2];
    bool ok = th_weights_find(f.ws, layer_name(il, "attn_norm"), (Shape){0}, WEIGHT_VECTOR, &w, err) &&
              th_weights_find(f.ws, layer_name(il, "attn_q"), (Shape){0}, 0, &w, err) &&
              th_weights_find(f.ws, layer_name(il, "ffn_up"), (Shape){0}, 0, &w, err);
    if (ok && m->experts)
        ok = th_weights_find(f.ws, layer_name(il, "ffn_up_exps"), (Shape){0}, WEIGHT_EXPERTS, &member[0], err) &&
             th_weights_find(f.ws, layer_name(il, "ffn_down_exps"), (Shape){0}, WEIGHT_EXPERTS, &member[1], err) &&
             th_weights_bundle(f.ws, member, 2, &w, err);
    if (!ok) fail_msg("%s", err->message);
}

static void open_model(const Model *m, WeightsOptions options) {
    Err err = {0};
    const Weight *w;
    write_model(m);
    f.options = options;
    th_budget_init(&f.budget, UINT64_MAX);
    for (int i = 0; i < N_TYPES; i++) f.kernels.mat[i] = &no_kernel;
    if (!th_gguf_open(&f.gguf, f.path, &f.budget, &err) ||
        !th_weights_open(&f.ws, &f.gguf, &f.kernels, &f.budget, &f.options, &err) ||
        !th_weights_find(f.ws, "token_embd.weight", (Shape){0}, WEIGHT_EMBED, &w, &err))
        fail_msg("%s", err.message);
    for (int il = 0; il < m->layers; il++) bind_layer(m, il, &err);
    if (!th_weights_find(f.ws, m->tied ? "token_embd.weight" : "output.weight", (Shape){0}, 0, &w, &err))
        fail_msg("%s", err.message);
}

static void close_model(void) {
    th_weights_close(f.ws);
    th_gguf_close(&f.gguf);
    th_budget_free(&f.budget);
    th_scratch_close(&f.dir);
}

static uint64_t total(const WeightsPlan *p) { return p->resident + p->ring + p->slots + p->io; }
static int slots_of(const WeightsPlan *p) {
    int n = 0;
    for (int i = 0; i < p->n_slot_classes; i++) n += p->slot_class[i].count;
    return n;
}

static WeightsPlan plan(uint64_t bytes, int k) {
    Err err = {0};
    WeightsPlan p;
    if (!th_weights_plan(f.ws, bytes, k, &p, &err)) fail_msg("%s", err.message);
    assert_true(total(&p) <= bytes);
    return p;
}

static void check_floor(int k) {
    Err err = {0};
    WeightsNeed need;
    WeightsPlan p;
    char number[32];
    th_weights_need(f.ws, k, &need);
    p = plan(need.floor, k);
    assert_int_equal(total(&p), need.floor);
    assert_false(th_weights_plan(f.ws, need.floor - 1, k, &p, &err));
    assert_int_equal(err.code, THIMBLE_E_BUDGET);
    snprintf(number, sizeof number, " %llu ", (unsigned long long)need.floor);
    assert_non_null(strstr(err.message, number));
    snprintf(number, sizeof number, " %llu ", (unsigned long long)need.floor - 1);
    assert_non_null(strstr(err.message, number));
}

static void check_edges(int k) {
    WeightsNeed need;
    check_floor(k);
    th_weights_need(f.ws, k, &need);
    assert_int_equal(plan(need.all, k).streamed_per_pass, 0);
    WeightsPlan p = plan(need.all, k);
    assert_true(p.hit_rate >= 1);
    assert_int_equal(p.resident, need.all); /* and nothing else */
}

static void floor_and_all_are_exact(void **state) {
    (void)state;
    const int homes[] = {THIMBLE_HOME_AUTO, THIMBLE_HOME_RESIDENT};
    for (size_t i = 0; i < TH_COUNT(homes); i++) {
        open_model(&dense_8b, (WeightsOptions){.home = homes[i]});
        check_edges(0);
        close_model();
        open_model(&moe_8b, (WeightsOptions){.home = homes[i]});
        check_edges(8);
        close_model();
    }
}

/* More bytes never mean more reading or fewer slots, and what is given is used. */
static void every_byte_is_used(void **state) {
    (void)state;
    const Model *models[] = {&dense_8b, &moe_8b};
    for (int i = 0; i < 2; i++) {
        int k = models[i]->experts ? 8 : 0, slots = 0;
        WeightsNeed need;
        open_model(models[i], (WeightsOptions){0});
        th_weights_need(f.ws, k, &need);
        uint64_t streamed = UINT64_MAX;
        double hits = 0;
        for (int step = 0; step <= 50; step++) {
            uint64_t bytes = need.floor + (need.all - need.floor) / 50 * (uint64_t)step - (step == 50);
            WeightsPlan p = plan(bytes, k);
            assert_true(p.streamed_per_pass <= streamed);
            assert_true(slots_of(&p) >= slots || p.n_slot_classes == 0);
            assert_true(p.hit_rate >= hits);
            assert_true(bytes - total(&p) < 6 * TH_MIB);
            streamed = p.streamed_per_pass;
            slots = slots_of(&p);
            hits = p.hit_rate;
        }
        close_model();
    }
}

/* B46: what is streamed per pass is the matrices less what stays, and comes from all layers alike. */
static void streaming_is_spread_over_layers(void **state) {
    (void)state;
    WeightsNeed need;
    open_model(&dense_8b, (WeightsOptions){0});
    th_weights_need(f.ws, 0, &need);
    WeightsPlan p = plan(need.floor + (need.all - need.floor) / 2, 0);
    uint64_t dense = 0, streamed = 0, passed = 0, stays = 0;
    for (const Weight *w = f.ws->first; w; w = w->next)
        if (th_weight_is_product(f.ws, w)) dense += w->bytes;
    for (const Weight *w = f.ws->first; w; w = w->next) {
        if (!th_weight_is_product(f.ws, w)) continue;
        uint64_t resident = th_parts_bytes(w, w->resident_parts);
        passed += w->bytes;
        stays += resident;
        streamed += w->bytes - resident;
        /* At every point the resident share of what has run is the share of the whole, within a part. */
        double share = (double)(dense - p.streamed_per_pass) / (double)dense;
        double off = (double)stays - share * (double)passed;
        assert_true(off < 2.1e6 && off > -2.1e6);
    }
    assert_int_equal(streamed, p.streamed_per_pass);
    assert_true(p.resident - (dense - streamed) < 4 * TH_MIB);
    close_model();
}

/* Dense weights before slots, slots in proportion to the layers of a size, embeddings last. */
static void experts_come_after_dense_weights(void **state) {
    (void)state;
    WeightsNeed need;
    open_model(&moe_8b, (WeightsOptions){0});
    th_weights_need(f.ws, 8, &need);
    assert_int_equal(plan(need.floor, 8).n_slot_classes, 2);
    assert_int_equal(slots_of(&(WeightsPlan){0}), 0);
    WeightsPlan tight = plan(need.floor, 8), roomy = plan(need.floor + need.dense * 2, 8);
    assert_true(tight.streamed_per_pass > 0);
    assert_int_equal(tight.slot_class[0].count, 17);
    assert_int_equal(tight.slot_class[1].count, 17);
    assert_int_equal(roomy.streamed_per_pass, 0);
    assert_int_equal(roomy.ring, 0);
    assert_true(roomy.slot_class[0].count > 100);
    assert_int_equal(roomy.slot_class[0].count, roomy.slot_class[1].count);
    assert_true(roomy.resident < need.dense - 60000ull * 2048 / 256 * 210 / 2); /* the embedding is gathered */
    close_model();
}

static void many_sizes_share_eight_classes(void **state) {
    (void)state;
    Model m = moe_8b;
    m.sizes = 13;
    open_model(&m, (WeightsOptions){.home = THIMBLE_HOME_PAGED});
    WeightsNeed need;
    th_weights_need(f.ws, 8, &need);
    WeightsPlan p = plan(need.floor + 500 * TH_MIB, 8);
    assert_int_equal(p.n_slot_classes, 8);
    int layers = 0;
    for (int i = 0; i < 8; i++) {
        layers += p.slot_class[i].layers;
        if (i) assert_true(p.slot_class[i].bytes > p.slot_class[i - 1].bytes);
    }
    assert_int_equal(layers, m.layers);
    for (const Weight *w = f.ws->first; w; w = w->next)
        if (w->paging) assert_true(f.ws->plan.slot_class[w->paging->slot_class].bytes >= w->paging->slot_bytes);
    close_model();
}

static void slots_can_be_forced(void **state) {
    (void)state;
    open_model(&moe_8b, (WeightsOptions){.slots = 301});
    WeightsNeed need;
    th_weights_need(f.ws, 8, &need);
    WeightsPlan p = plan(UINT64_MAX, 8);
    assert_int_equal(slots_of(&p), 301);
    assert_int_equal(p.streamed_per_pass, 0);
    check_floor(8);
    close_model();
}

static void a_small_model_needs_no_ring(void **state) {
    (void)state;
    Model m = {.layers = 1, .dim = 256, .ff = 256, .vocab = 300, .tied = true};
    WeightsNeed need;
    open_model(&m, (WeightsOptions){0});
    th_weights_need(f.ws, 0, &need);
    assert_int_equal(need.floor, need.all); /* all of it is less than three parts */
    check_edges(0);
    close_model();
}

static void hit_rates_rise(void **state) {
    (void)state;
    double before = -1;
    for (int i = 0; i <= 120; i++) {
        double now = th_plan_hit_rate(i / 100.0);
        assert_true(now >= before && now >= 0 && now <= 1);
        before = now;
    }
    assert_true(th_plan_hit_rate(0.25) > 0.6 && th_plan_hit_rate(0.25) < 0.8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floor_and_all_are_exact),
        cmocka_unit_test(every_byte_is_used),
        cmocka_unit_test(streaming_is_spread_over_layers),
        cmocka_unit_test(experts_come_after_dense_weights),
        cmocka_unit_test(many_sizes_share_eight_classes),
        cmocka_unit_test(slots_can_be_forced),
        cmocka_unit_test(a_small_model_needs_no_ring),
        cmocka_unit_test(hit_rates_rise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
