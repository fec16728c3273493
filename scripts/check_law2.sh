#!/bin/sh
# check_law2.sh [MODEL...]: the bits do not depend on where bytes lie, crossed in full: every budget with every number of
# threads, batch, home, eviction and look-ahead (tests/cli/law2.sh does the work; `make check` crosses less). Minutes a model.
# Without MODEL: the trained mixture of experts and a dense model, as far as they are there.
cd "$(dirname "$0")/.." || exit 1
THIMBLE="${THIMBLE:-build/thimble}"
export THIMBLE
[ $# -gt 0 ] || set -- ../shared/models/tale-moe-13m-Q8_0.gguf ../shared/vectors/logits/qwen3-q4_k_m/model.gguf
LAW2=full sh tests/cli/law2.sh "$@" | awk '
    { print; fflush() }
    /^ok .*# SKIP/ { skipped++; next }
    /^ok / { passed++ }
    /^not ok / { failed++ }
    END { print passed + 0 " passed, " failed + 0 " failed, " skipped + 0 " skipped"; exit failed > 0 || passed + skipped == 0 }'
