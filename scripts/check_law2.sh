#!/bin/sh
# check_law2.sh [MODEL...]: law 2 in full: every budget x threads x batch x home x eviction x look-ahead, by default on the
# trained mixture of experts beside the project. Prints TAP; skips what is not there. Takes minutes.
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || set -- ../shared/models/tale-moe-13m-Q8_0.gguf
LAW2=full exec sh tests/cli/law2.sh "$@"
