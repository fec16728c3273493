/* cmd_plan.c: `thimble plan`: what a budget buys, from the file's header alone. */
#include "cmd.h"

#include "common/json_out.h"
#include "common/load.h"
#include "common/text.h"

#include <string.h>

typedef struct Part {
    const char *name;
    uint64_t bytes;
} Part;
enum { N_PARTS = 8 };

static void parts_of(const ThimblePlan *p, Part part[static N_PARTS]) {
    const Part all[N_PARTS] = {{"metadata", p->metadata},
                               {"resident", p->resident},
                               {"stream_ring", p->stream_ring},
                               {"slots", p->slots},
                               {"kv", p->kv},
                               {"scratch", p->scratch},
                               {"io", p->io},
                               {"reserve", p->reserve}};
    memcpy(part, all, sizeof all);
}

static void print_text(Cli *cli, const ThimblePlan *p) {
    Out *out = &cli->out;
    Part part[N_PARTS];
    char a[32], b[32], c[32];
    parts_of(p, part);
    out_printf(out, "budget   %s, floor %s: %s\n", text_size(p->budget, a), text_size(p->floor, b),
               p->fits ? "fits" : "too small");
    out_printf(out, "file     %s (%s experts, %s other weights)\n", text_size(p->file_bytes, a),
               text_size(p->expert_bytes, b), text_size(p->dense_bytes, c));
    out_printf(out, "context  %d tokens, at most %d in this budget; batch %d, %d threads\n\n", p->context,
               p->max_context, p->batch, p->threads);
    for (int i = 0; i < N_PARTS; i++) out_printf(out, "  %-12s %12s\n", part[i].name, text_size(part[i].bytes, a));
    for (int i = 0; i < p->n_slot_classes; i++)
        out_printf(out, "  %d expert slots of %s for %d layers\n", p->slot_class[i].count,
                   text_size(p->slot_class[i].bytes, a), p->slot_class[i].layers);
    if (p->fits && p->decode_tps > 0)
        out_printf(out, "\nroughly %.3g tok/s decode, %.3g tok/s prefill", p->decode_tps, p->prefill_tps);
    if (p->fits && p->expert_bytes) out_printf(out, ", %.0f %% expert hits", 100 * p->hit_rate);
    out_string(out, "\n");
}

static void put_json(Cli *cli, const ThimblePlan *p) {
    Json j;
    Part part[N_PARTS];
    parts_of(p, part);
    jout_begin(&j, &cli->out);
    jout_open(&j, '{');
    jout_put_size(&j, "floor", p->floor);
    jout_put_size(&j, "budget", p->budget);
    jout_put_bool(&j, "fits", p->fits);
    jout_key(&j, "parts");
    jout_open(&j, '{');
    for (int i = 0; i < N_PARTS; i++) jout_put_size(&j, part[i].name, part[i].bytes);
    jout_close(&j);
    jout_key(&j, "slots");
    jout_open(&j, '[');
    for (int i = 0; i < p->n_slot_classes; i++) {
        jout_open(&j, '{');
        jout_put_size(&j, "bytes", p->slot_class[i].bytes);
        jout_put_int(&j, "count", p->slot_class[i].count);
        jout_put_int(&j, "layers", p->slot_class[i].layers);
        jout_close(&j);
    }
    jout_close(&j);
    jout_put_size(&j, "file_bytes", p->file_bytes);
    jout_put_size(&j, "expert_bytes", p->expert_bytes);
    jout_put_size(&j, "dense_bytes", p->dense_bytes);
    jout_put_int(&j, "context", p->context);
    jout_put_int(&j, "max_context", p->max_context);
    jout_put_int(&j, "batch", p->batch);
    jout_put_int(&j, "threads", p->threads);
    jout_key(&j, "predicted");
    jout_open(&j, '{');
    jout_put_real(&j, "decode_tps", p->decode_tps);
    jout_put_real(&j, "prefill_tps", p->prefill_tps);
    jout_put_real(&j, "hit_rate", p->hit_rate);
    jout_end(&j);
}

int cmd_plan(Cli *cli) {
    ThimblePlan p;
    if (cli->opt.n_args != 1) return usage_error(cli, "plan takes one MODEL");
    int code = load_plan(cli, &p);
    if (code != EXIT_DONE) return code;
    if (cli->opt.json)
        put_json(cli, &p);
    else
        print_text(cli, &p);
    out_flush(&cli->out);
    return p.fits ? EXIT_DONE : load_refuse(cli, &p);
}
