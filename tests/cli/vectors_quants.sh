#!/bin/sh
# vectors_quants.sh: block types against the shared expected results, where those are.
dir=../shared/vectors/quants
if [ ! -d "$dir" ] || [ ! -x "$BUILD/tests/vectors" ]; then
    echo "ok 1 - block types against expected bytes # SKIP no $dir"
    exit 0
fi
if "$BUILD/tests/vectors" quants "$dir" -v; then
    echo "ok 1 - block types against expected bytes"
else
    echo "not ok 1 - block types against expected bytes"
fi
