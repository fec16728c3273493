#!/bin/sh
# vectors_mtp.sh: draft heads against the shared expected results, where those are.
dir=../shared/vectors/mtp
if [ ! -d "$dir" ] || [ ! -x "$BUILD/tests/vectors" ]; then
    echo "ok 1 - draft heads against an oracle # SKIP no $dir"
    exit 0
fi
if "$BUILD/tests/vectors" mtp "$dir" -v; then
    echo "ok 1 - draft heads against an oracle"
else
    echo "not ok 1 - draft heads against an oracle"
fi
