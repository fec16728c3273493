/* cmd_version.c: `thimble version`. */
#include "cmd.h"

int cmd_version(Cli *cli) {
    if (cli->opt.n_args) return usage_error(cli, "version takes no arguments");
    out_printf(&cli->out, "thimble %s\n", thimble_version());
    if (cli->opt.verbose)
        out_printf(&cli->out, "architectures: %s\ninstruction sets: %s\n", thimble_architectures(), thimble_isa());
    return EXIT_DONE;
}
