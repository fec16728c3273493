/* test_store.c: prompts kept in a folder: what is reused is told truly and has the right bits, the folder keeps to its
 * bound, and files of crashes, other models and vandals do no harm. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/random_model.h"
#include "session/store.h"

enum { CONTEXT = 900, VOCAB = 96 };

static char root[] = "/tmp/thimble_store_XXXXXX";
static char folder[64], hybrid[64], dense[64], windows[64];

static void write_models(void) {
    RandomModel m = RANDOM_MODEL;
    snprintf(folder, sizeof folder, "%s/store", root);
    snprintf(hybrid, sizeof hybrid, "%s/hybrid.gguf", root);
    snprintf(dense, sizeof dense, "%s/dense.gguf", root);
    snprintf(windows, sizeof windows, "%s/windows.gguf", root);
    m.vocab = VOCAB;
    random_model_write(&m, dense);
    m.arch = "gemma3", m.layers = 6, m.qk_norm = m.post_norms = m.tied = true, m.window = 40;
    random_model_write(&m, windows);
    m = RANDOM_MODEL;
    m.arch = "bailingmoe3", m.layers = 2, m.dim = 32, m.heads = 2, m.head_size = 16, m.rope_dims = 8, m.latent = 16;
    m.latent_every = 2, m.kda_head = 8, m.experts = 4, m.experts_used = 2, m.groups = 1, m.expert_ff = 32, m.ff = 32;
    m.shared_ff = 32, m.dense_lead = 1, m.vocab = VOCAB;
    random_model_write(&m, hybrid);
}

/* ---- a process
 * --------------------------------------------------------------------------------------------------------- */

typedef struct Talk {
    ThimbleModel *m;
    ThimbleSession *s;
    ThimbleStore *st;
} Talk;

static Talk start(const char *path, uint64_t bytes) {
    Talk t = {0};
    ThimbleModelOptions o;
    ThimbleError e = {0};
    thimble_model_options_init(&o);
    o.context = CONTEXT, o.threads = 1, o.checkpoints = 6, o.batch = 16;
    if (thimble_model_open(&t.m, path, &o, &e) != THIMBLE_OK ||
        thimble_session_open(&t.s, t.m, NULL, &e) != THIMBLE_OK ||
        (bytes && thimble_store_open(&t.st, t.m, folder, bytes, &e) != THIMBLE_OK))
        fail_msg("%s", e.message);
    return t;
}

static void end(Talk *t) {
    thimble_session_close(t->s);
    thimble_store_close(t->st);
    thimble_model_close(t->m);
}

static void make_text(int32_t *tokens, int n, int parting, int variant) {
    for (int i = 0; i < n; i++)
        tokens[i] = (int32_t)((uint32_t)(i * 7919 + i / 5 * 31 + (i >= parting ? variant * 17 + 1 : 0)) % VOCAB);
}

static uint64_t cached(const Talk *t) {
    ThimbleStats stats = {.struct_size = sizeof stats};
    thimble_session_stats(t->s, &stats);
    return stats.cached_tokens;
}

/* Restores and syncs; what restore announces is what sync keeps. */
static size_t hear(Talk *t, const int32_t *tokens, int n) {
    ThimbleError e = {0};
    size_t kept = 0;
    uint64_t before = cached(t);
    if (t->st && thimble_store_restore(t->st, t->s, tokens, (size_t)n, &kept, &e) != THIMBLE_OK)
        fail_msg("%s", e.message);
    if (thimble_session_sync(t->s, tokens, (size_t)n, &e) != THIMBLE_OK) fail_msg("%s", e.message);
    if (t->st) assert_int_equal(cached(t) - before, kept);
    return kept;
}

static bool keep(Talk *t) {
    ThimbleError e = {0};
    bool stored = false;
    if (thimble_store_keep(t->st, t->s, &stored, &e) != THIMBLE_OK) fail_msg("%s", e.message);
    return stored;
}

static void check_bits(const char *path, const Talk *t, const int32_t *tokens, int n) {
    Talk fresh = start(path, 0);
    hear(&fresh, tokens, n);
    assert_memory_equal(thimble_session_logits(t->s, NULL), thimble_session_logits(fresh.s, NULL),
                        VOCAB * sizeof(float));
    end(&fresh);
}

/* In a session that knows nothing. */
static size_t hear_anew(const char *path, const int32_t *tokens, int n) {
    Talk t = start(path, 1 << 30);
    size_t kept = hear(&t, tokens, n);
    check_bits(path, &t, tokens, n);
    end(&t);
    return kept;
}

static int count_files(uint64_t *bytes) {
    char path[400];
    DIR *d = opendir(folder);
    int n = 0;
    if (bytes) *bytes = 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) continue;
        n++;
        if (bytes) *bytes += (uint64_t)st.st_size;
    }
    closedir(d);
    return n;
}

static void empty_folder(void) {
    char path[400];
    DIR *d = opendir(folder);
    if (!d) return;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.' || strlen(e->d_name) > 2) unlink(path);
    }
    closedir(d);
}

/* ---- tests
 * ------------------------------------------------------------------------------------------------------------- */

static void keeps_text(const char *path, int n) {
    int32_t text[CONTEXT];
    Talk t = start(path, 1 << 30);
    make_text(text, n, CONTEXT, 0);
    assert_int_equal(hear(&t, text, n), 0);
    assert_true(keep(&t));
    end(&t);
}

static void reused_after_a_restart(void **state) {
    (void)state;
    int32_t text[CONTEXT];
    const char *const paths[] = {dense, hybrid, windows};
    for (int i = 0; i < 3; i++) {
        empty_folder();
        keeps_text(paths[i], 600);
        assert_int_equal(count_files(NULL), 1);
        make_text(text, 640, 600, 1); /* longer */
        assert_int_equal(hear_anew(paths[i], text, 640), 600);
        make_text(text, 600, CONTEXT, 0); /* the same: nothing is evaluated */
        assert_int_equal(hear_anew(paths[i], text, 600), 600);
        make_text(text, 600, 590, 1); /* other at the end: as far as the memory goes back */
        size_t kept = hear_anew(paths[i], text, 600);
        assert_int_equal(kept, i == 0 ? 590 : i == 1 ? 512 : 0);
        make_text(text, 300, CONTEXT, 0); /* shorter */
        kept = hear_anew(paths[i], text, 300);
        assert_int_equal(kept, i == 0 ? 299 : i == 1 ? 256 : 0);
        make_text(text, 600, 0, 1); /* another */
        assert_int_equal(hear_anew(paths[i], text, 600), 0);
    }
}

/* Of several the one that leaves least; never less than the session has by itself; the same is kept once. */
static void the_longest_wins(void **state) {
    (void)state;
    int32_t text[CONTEXT];
    empty_folder();
    keeps_text(hybrid, 100);
    keeps_text(dense, 400); /* of another model: not for us */
    Talk t = start(hybrid, 1 << 30);
    make_text(text, 300, CONTEXT, 0);
    assert_int_equal(hear(&t, text, 300), 100);
    assert_true(keep(&t));
    assert_true(keep(&t)); /* once more */
    assert_int_equal(count_files(NULL), 3);
    make_text(text, 500, 350, 1);
    assert_int_equal(hear(&t, text, 500), 300); /* its own */
    end(&t);
    assert_int_equal(hear_anew(hybrid, text, 500), 300);
    make_text(text, 200, 150, 2);
    assert_int_equal(hear_anew(hybrid, text, 200), 100);
    make_text(text, 40, CONTEXT, 0);
    assert_int_equal(hear_anew(dense, text, 40), 39);
    Talk small = start(dense, 1 << 30); /* too short to be worth it */
    make_text(text, 20, 0, 5);
    hear(&small, text, 20);
    assert_false(keep(&small));
    end(&small);
}

static void the_bound_is_kept(void **state) {
    (void)state;
    int32_t text[CONTEXT];
    uint64_t bytes, one;
    empty_folder();
    keeps_text(dense, 100);
    count_files(&one);
    const uint64_t most = 3 * one + one / 2;
    for (int i = 1; i < 8; i++) {
        Talk t = start(dense, most);
        make_text(text, 100, 0, i);
        hear(&t, text, 100);
        assert_true(keep(&t));
        assert_true(count_files(&bytes) <= 3);
        assert_true(bytes <= most);
        make_text(text, 100, CONTEXT, 0); /* the first one is used again and again: it stays */
        assert_int_equal(hear(&t, text, 100), 100);
        end(&t);
    }
    Talk t = start(dense, one / 2); /* nothing fits that, nor what is there */
    assert_int_equal(count_files(NULL), 0);
    make_text(text, 100, 0, 50);
    hear(&t, text, 100);
    assert_false(keep(&t));
    assert_int_equal(count_files(NULL), 0);
    end(&t);
}

static void scores(void **state) {
    (void)state;
    const double hour = 3600, now = 1e9;
    assert_true(fabs(th_store_used(now - 1e9, now) - now) < 1);        /* the first use */
    assert_true(fabs(th_store_used(now, now) - (now + 6 * hour)) < 1); /* two uses: worth one for 6 hours more */
    assert_true(th_store_used(now - 6 * hour, now) < now + 6 * hour);
    assert_true(isfinite(th_store_used(now + 1e12, now))); /* whatever a file's time says */
    assert_true(th_store_score(now, 100, 1000) < th_store_score(now, 200, 1000));
    assert_true(th_store_score(now, 200, 1000) < th_store_score(now + 7 * hour, 100, 1000));
    assert_true(isfinite(th_store_score(now, 1, 0)));
}

static void write_file(const char *name, const char *content) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(content, f);
    fclose(f);
}

/* The only snapshot in the folder. */
static void find_snapshot(char path[400]) {
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (strstr(e->d_name, ".snap")) snprintf(path, 400, "%s/%s", folder, e->d_name);
    closedir(d);
}

static void damage_does_no_harm(void **state) {
    (void)state;
    int32_t text[CONTEXT];
    char path[400] = "";
    make_text(text, 300, CONTEXT, 0);
    for (int where = 0; where < 4; where++) {
        empty_folder();
        keeps_text(hybrid, 300);
        find_snapshot(path);
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        if (where == 3) {
            assert_int_equal(truncate(path, st.st_size / 2), 0);
        } else {
            const long at[] = {30, (long)st.st_size / 2, (long)st.st_size - 3};
            FILE *f = fopen(path, "r+b");
            assert_non_null(f);
            fseek(f, at[where], SEEK_SET);
            int byte = fgetc(f);
            fseek(f, at[where], SEEK_SET);
            fputc(byte ^ 4, f);
            fclose(f);
        }
        assert_int_equal(hear_anew(hybrid, text, 300), 0);
        if (where == 1 || where == 2) assert_int_equal(count_files(NULL), 0); /* found out when it was loaded */
        Talk t = start(hybrid, 1 << 30);
        hear(&t, text, 300);
        assert_true(keep(&t));
        end(&t);
        assert_int_equal(hear_anew(hybrid, text, 300), 300); /* replaced */
    }
    /* Strangers. */
    empty_folder();
    keeps_text(hybrid, 300);
    write_file("0123456789abcdef-0123456789abcdef-300.snap", "x");
    write_file("0123456789abcdef-0123456789abcdef-0300.snap", "not ours");
    write_file("notes.txt", "not ours");
    write_file("mine.talk", "not ours");
    write_file(".thimble-part-99-0", "of a crash");
    assert_int_equal(hear_anew(hybrid, text, 300), 300);
    assert_int_equal(count_files(NULL), 5); /* the leftover is gone */
    Talk t = start(hybrid, 1 << 30);
    ThimbleError e = {0};
    end(&t);
    assert_int_equal(thimble_model_open(&t.m, hybrid, NULL, &e), THIMBLE_OK);
    write_file("file", "");
    snprintf(path, sizeof path, "%s/file", folder);
    assert_int_equal(thimble_store_open(&t.st, t.m, path, 0, &e), THIMBLE_E_IO);
    assert_int_equal(thimble_store_open(&t.st, t.m, "/nowhere/at/all", 0, &e), THIMBLE_E_IO);
    assert_int_equal(thimble_store_open(&t.st, t.m, "", 0, &e), THIMBLE_E_ARG);
    thimble_model_close(t.m);
}

/* A text that comes back is turned into the tokens it had, whatever a tokeniser would make of it. */
static void found_by_text(void **state) {
    (void)state;
    const char *path = "tests/cli/scripted.gguf", *said = "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char text[128];
    int32_t tokens[200], got[200];
    size_t n = 0, bytes = 0, found = 0;
    ThimbleError e = {0};
    if (access(path, R_OK) != 0) skip();
    empty_folder();
    Talk t = start(path, 1 << 30);
    assert_int_equal(thimble_tokenize(t.m, said, strlen(said), THIMBLE_TOK_NO_EOS, tokens, 200, &n, &e), THIMBLE_OK);
    assert_true(n >= 40 && n <= 200);
    hear(&t, tokens, (int)n);
    assert_true(keep(&t));
    size_t bos = thimble_token_bytes(t.m, tokens[0], true, text, sizeof text);
    bool has_bos = thimble_token_is_control(t.m, tokens[0]);
    snprintf(text + (has_bos ? bos : 0), 100, "%s and more", said);
    size_t len = (has_bos ? bos : 0) + strlen(said);
    assert_int_equal(thimble_store_match(t.st, t.s, text, len + 9, got, 200, &found, &bytes, &e), THIMBLE_OK);
    assert_int_equal(found, n);
    assert_int_equal(bytes, len);
    assert_memory_equal(got, tokens, n * sizeof *got);
    assert_int_equal(thimble_store_match(t.st, t.s, text, len, got, n - 1, &found, &bytes, &e), THIMBLE_OK);
    assert_int_equal(found, n); /* the array is too small: how many there are */
    assert_int_equal(bytes, 0);
    assert_int_equal(thimble_store_match(t.st, t.s, text, len - 1, got, 200, &found, &bytes, &e), THIMBLE_OK);
    assert_int_equal(found, 0);
    text[len / 2] = '?';
    assert_int_equal(thimble_store_match(t.st, t.s, text, len, got, 200, &found, &bytes, &e), THIMBLE_OK);
    assert_int_equal(found, 0);
    end(&t);
}

/* Two sessions with secrets of their own beside one store: each hears what a lone one would (B39). */
static void nobody_hears_anothers_talk(void **state) {
    (void)state;
    int32_t text[CONTEXT];
    const char *const paths[] = {hybrid, windows, dense};
    for (int i = 0; i < 3; i++) {
        empty_folder();
        Talk t[3];
        for (int k = 0; k < 3; k++) t[k] = start(paths[i], 1 << 30);
        for (int turn = 0; turn < 12; turn++) {
            int who = turn % 3, n = 60 + 40 * (turn / 3);
            make_text(text, n, 40, who);                            /* a shared beginning, then a secret */
            if (turn > 6) make_text(text, n, 40, (who + turn) % 3); /* sessions take over each other's talks */
            hear(&t[who], text, n);
            keep(&t[who]);
            check_bits(paths[i], &t[who], text, n);
        }
        for (int k = 0; k < 3; k++) end(&t[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reused_after_a_restart),
        cmocka_unit_test(the_longest_wins),
        cmocka_unit_test(the_bound_is_kept),
        cmocka_unit_test(scores),
        cmocka_unit_test(found_by_text),
        cmocka_unit_test(damage_does_no_harm),
        cmocka_unit_test(nobody_hears_anothers_talk),
    };
    if (!mkdtemp(root)) return 1;
    write_models();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    empty_folder();
    rmdir(folder);
    unlink(hybrid), unlink(dense), unlink(windows);
    rmdir(root);
    return failed;
}
