#!/bin/sh
# run_tests.sh PROGRAM...: runs test programs and counts. A program prints TAP lines ("ok 1 - name", "not ok 2 - name",
# "ok 3 - name # SKIP why"); a non-zero exit without a "not ok" counts as one failure. Ends with
# "N passed, N failed, N skipped" and exit 1 if anything failed.
passed=0 failed=0 skipped=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
for program in "$@"; do
    case $program in
    *.sh) CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 10 "${TEST_TIMEOUT:-600}" sh "$program" >"$out" 2>&1 </dev/null ;;
    *) CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 10 "${TEST_TIMEOUT:-600}" $RUN_UNDER "$program" >"$out" 2>&1 </dev/null ;;
    esac
    code=$?
    # cmocka writes a skipped test as "not ok N # SKIP name".
    p=$(grep '^ok ' "$out" | grep -vci '# *SKIP') s=$(grep -ciE '^(not )?ok .*# *SKIP' "$out")
    f=$(grep '^not ok ' "$out" | grep -vci '# *SKIP')
    if [ "$code" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if [ "$f" -ne 0 ]; then
        echo "FAIL $program (exit $code)"
        grep -v '^ok ' "$out" | tail -n 60
    else
        echo "  ok $program ($p passed, $s skipped)"
        grep -iE '^(not )?ok .*# *SKIP' "$out" | sed -E 's/^(not )?ok [0-9]*( -)?/    SKIP/'
    fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
