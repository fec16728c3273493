#!/bin/sh
# vectors_ops.sh: single operations against the shared expected results, where those are.
dir=../shared/vectors/ops
if [ ! -d "$dir" ] || [ ! -x "$BUILD/tests/vectors" ]; then
    echo "ok 1 - operations against numbers in binary64 # SKIP no $dir"
    exit 0
fi
if "$BUILD/tests/vectors" ops "$dir" -v; then
    echo "ok 1 - operations against numbers in binary64"
else
    echo "not ok 1 - operations against numbers in binary64"
fi
