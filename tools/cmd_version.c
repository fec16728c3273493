/* cmd_version.c: `thimble version`. */
#include "cmd.h"

#include "common/json_out.h"

int cmd_version(Cli *cli) {
    if (cli->opt.n_args) return usage_error(cli, "version takes no arguments");
    if (cli->opt.json) {
        Json j;
        jout_begin(&j, &cli->out);
        jout_open(&j, '{');
        jout_put_text(&j, "version", thimble_version());
        jout_put_text(&j, "isa", thimble_isa());
        jout_put_text(&j, "architectures", thimble_architectures());
        jout_end(&j);
        return EXIT_DONE;
    }
    out_printf(&cli->out, "thimble %s\n", thimble_version());
    if (cli->opt.verbose)
        out_printf(&cli->out, "architectures: %s\ninstruction sets: %s\n", thimble_architectures(), thimble_isa());
    return EXIT_DONE;
}
