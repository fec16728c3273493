#!/bin/sh
# check_real.sh [DIR]: real models against expected results (form of shared/vectors/real) by the rules of its README: tokens,
# log-probabilities against exact arithmetic, greedy text; resident and at the floor budget. Models are looked for in
# $THIMBLE_MODELS, ../shared/models and the demo's cache; those that are not there are skipped and counted.
cd "$(dirname "$0")/.." || exit 1
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
dir="${1:-../shared/vectors/real}"
[ -d "$dir" ] || { echo "skipped: no $dir here"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
exec python3 scripts/check_real.py "$dir" "${THIMBLE:-build/thimble}" "$THIMBLE_MODELS" ../shared/models \
    "${THIMBLE_DEMO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/thimble}"
