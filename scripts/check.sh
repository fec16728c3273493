#!/bin/sh
# check.sh: what this project tests, on Debian 12: installs what is missing, builds with gcc and clang, runs the tests, also
# under the address sanitizer, and nearly all of them for aarch64 under qemu. Closing line: N passed, N failed, N skipped.
# THIMBLE_CHECK="unit asan ..." runs only those stages, THIMBLE_CHECK=all also what does not safely fit half an hour on two
# slow cores: thread sanitizer, fuzzers, older x86 processors, clang-tidy, and the second law crossed on trained models.
cd "$(dirname "$0")/.." || exit 1
. scripts/packages.sh
stages="${THIMBLE_CHECK:-style unit vectors real install lint clang asan arm64}"
[ "$stages" = all ] && stages="style unit vectors real install lint clang asan tsan arm64 fuzz x86 tidy law2"
jobs=$(nproc)
passed=0 failed=0 skipped=0
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT

ok() { passed=$((passed + 1)); echo "ok    $*"; }
not_ok() { failed=$((failed + 1)); echo "FAIL  $*"; }
skip() { skipped=$((skipped + 1)); echo "skip  $*"; }

# A command whose output ends with "N passed, N failed, N skipped": its counts are added to ours.
counted() {
    name=$1
    shift
    "$@" >"$logs/out" 2>&1
    code=$?
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$logs/out" | tail -n 1)
    if [ -z "$line" ]; then
        [ "$code" -eq 77 ] && { skip "$name: $(tail -n 1 "$logs/out")"; return; }
        tail -n 40 "$logs/out"
        not_ok "$name: ended with $code and no result"
        return
    fi
    set -- $(echo "$line" | tr -d ,)
    passed=$((passed + $1)) failed=$((failed + $3)) skipped=$((skipped + $5))
    if [ "$3" -ne 0 ] || [ "$code" -ne 0 ]; then
        grep -vE '^  ok |^[0-9]+ passed' "$logs/out" | tail -n 120
        [ "$3" -eq 0 ] && failed=$((failed + 1))
        echo "FAIL  $name: $1 passed, $3 failed, $5 skipped (exit $code)"
    else
        grep -E '^ *(SKIP|skipped)' "$logs/out" | head -n 20
        echo "ok    $name: $1 ok, $5 skipped"
    fi
}

# A command that is right when it exits 0.
plain() {
    name=$1
    shift
    if "$@" >"$logs/out" 2>&1; then ok "$name"; else tail -n 40 "$logs/out"; not_ok "$name"; fi
}

# shellcheck disable=SC2086
want_packages $BUILD_PACKAGES libcmocka-dev git python3 python3-numpy
want_extra() { want_packages "$@" || return 1; }

for stage in $stages; do
    case $stage in
    style)
        plain "include order of the floors" sh scripts/check_floors.sh
        plain "house style" sh scripts/check_style.sh
        ;;
    unit) counted "unit, kernel, residency and command-line tests (gcc)" make -s -j"$jobs" check ;;
    vectors)
        if [ -d ../shared/vectors ]; then
            make -s -j"$jobs" build/tests/vectors
            for kind in quants gguf tokenizers logits arch-logits ops mtp; do
                counted "vectors $kind" build/tests/vectors "$kind" "../shared/vectors/$kind"
            done
        else
            skip "vectors: no ../shared/vectors here"
        fi
        ;;
    real) counted "real models" sh scripts/check_real.sh ;;
    clang)
        if want_extra clang; then
            counted "unit tests (clang)" make -s -j"$jobs" CC=clang BUILD=build/clang check-fast
        else skip "clang: not installed"; fi
        ;;
    asan) counted "address and undefined-behaviour sanitizers" make -s -j"$jobs" asan ;;
    tsan) counted "thread sanitizer" make -s -j"$jobs" tsan ;;
    fuzz)
        if want_extra clang libclang-rt-14-dev; then
            plain "fuzz targets, a few seconds each" make -s -j"$jobs" fuzz FUZZ_SECONDS=5
        else skip "fuzz: clang not installed"; fi
        ;;
    arm64)
        if sh scripts/setup_arm64.sh >"$logs/arm64" 2>&1; then
            counted "aarch64 under qemu" make -s -j"$jobs" arm64
        else skip "aarch64: $(tail -n 1 "$logs/arm64")"; fi
        ;;
    x86)
        if [ "$(uname -m)" = x86_64 ] && want_extra qemu-user; then
            counted "older x86 processors under qemu" make -s -j"$jobs" x86-old
        else skip "older x86 processors: no qemu-x86_64"; fi
        ;;
    law2)
        make -s -j"$jobs" build/thimble
        counted "law 2, crossed in full on a trained model" sh scripts/check_law2.sh
        ;;
    install) counted "installed library and example" sh scripts/check_install.sh ;;
    lint) if want_extra cppcheck; then plain "cppcheck" make -s cppcheck; else skip "lint: cppcheck not installed"; fi ;;
    tidy) if want_extra clang-tidy; then plain "clang-tidy" make -s tidy; else skip "tidy: clang-tidy not installed"; fi ;;
    *) not_ok "no stage of this name: $stage" ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
