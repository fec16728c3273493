#!/bin/sh
# vectors_gguf.sh: container files against the shared expected results, where those are.
dir=../shared/vectors/gguf
if [ ! -d "$dir" ] || [ ! -x "$BUILD/tests/vectors" ]; then
    echo "ok 1 - container files against their verdicts # SKIP no $dir"
    exit 0
fi
if "$BUILD/tests/vectors" gguf "$dir" -v; then
    echo "ok 1 - container files against their verdicts"
else
    echo "not ok 1 - container files against their verdicts"
fi
