#!/bin/sh
# run_tests.sh PROGRAM...: runs test programs, TEST_JOBS (as many as processors) at a time, and counts. A program prints
# TAP lines ("ok 1 - name", "not ok 2 - name", "ok 3 - name # SKIP why"); a non-zero exit without a "not ok" counts as
# one failure. Ends with "N passed, N failed, N skipped" and exit 1 if anything failed.
if [ -z "$TEST_RESULTS" ]; then
    TEST_RESULTS=$(mktemp -d) || exit 1
    trap 'rm -rf "$TEST_RESULTS"' EXIT
    export TEST_RESULTS
    : >"$TEST_RESULTS/counts"
    printf '%s\n' "$@" | xargs -P "${TEST_JOBS:-$(nproc)}" -n 1 sh "$0"
    awk -v programs=$# '{ p += $1; f += $2; s += $3 }
        END { f += programs - NR; printf "%d passed, %d failed, %d skipped\n", p, f, s; exit f > 0 }' "$TEST_RESULTS/counts"
    exit
fi

# One program, for the run above: what it says is kept, and told in one piece when it has ended.
program=$1
[ -n "$program" ] || exit 0
out=$(mktemp "$TEST_RESULTS/out.XXXXXX") || exit 1
results=$TEST_RESULTS
unset TEST_RESULTS
case $program in
*.sh) CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 10 "${TEST_TIMEOUT:-600}" sh "$program" >"$out" 2>&1 </dev/null ;;
*) CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 10 "${TEST_TIMEOUT:-600}" $RUN_UNDER "$program" >"$out" 2>&1 </dev/null ;;
esac
code=$?
# cmocka writes a skipped test as "not ok N # SKIP name".
p=$(grep '^ok ' "$out" | grep -vci '# *SKIP') s=$(grep -ciE '^(not )?ok .*# *SKIP' "$out")
f=$(grep '^not ok ' "$out" | grep -vci '# *SKIP')
if [ "$code" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
if [ "$f" -ne 0 ]; then
    echo "FAIL $program (exit $code)"
    grep -v '^ok ' "$out" | tail -n 60
else
    echo "  ok $program ($p passed, $s skipped)"
    grep -iE '^(not )?ok .*# *SKIP' "$out" | sed -E 's/^(not )?ok [0-9]*( -)?/    SKIP/'
fi >"$out.told"
flock "$results/counts" cat "$out.told"
echo "$p $f $s" >>"$results/counts"
