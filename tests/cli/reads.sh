# reads.sh: whole runs on devices that read badly: short, interrupted, failing once or for good (B51), refusing direct reads
# only when they are made (B52). A read that comes in the end changes no number; one that does not is exit 5 and a sentence.
. tests/common/tap.sh
moe=tests/golden/qwen3moe.gguf
case ${BUILD:-build} in *san*) sanitized=1 ;; *) sanitized= ;; esac
shim=$tmp/shim.so
if [ -n "$sanitized" ] || ! ${CC:-cc} -shared -fPIC -o "$shim" tests/cli/read_shim.c -ldl 2>/dev/null; then
    skip "B51, B52 in whole runs" "no compiler, or a sanitizer that has to be loaded first"
    exit 0
fi
ids=5,17,3,25,9,9,40
steps() { # HOW AFTER ARGS...
    how=$1 after=$2
    shift 2
    LD_PRELOAD=$shim READ_SHIM=$how READ_SHIM_AFTER=$after "$THIMBLE" score $moe --tokens $ids --json --top all "$@" >"$out" 2>"$err"
    code=$?
    sed 's/,"stats":.*//' "$out" >"$tmp/got"
}
steps none 0 -q
cp "$tmp/got" "$tmp/want"
LD_PRELOAD=$shim READ_SHIM=error "$THIMBLE" info $moe >"$out" 2>"$err"
code=$?
ok "the shim is in the way, and a header that cannot be read is exit 5" [ $code -eq 5 ]
ok "said once: file, offset, wanted, got, why" [ "$(cat "$err")" = \
    "thimble: $moe: reading $(wc -c <$moe) bytes at offset 0 got 0: Input/output error" ]
for home in resident stream paged; do
    for how in short interrupt error-once; do
        steps $how 0 --home $home -q
        ok "B51 $home, $how: the same numbers" cmp "$tmp/want" "$tmp/got"
    done
    # Whenever it begins: until the first reads of the weights, in the middle of them, or never again.
    failed=0 wrong=0 silent=0 passed=0
    for after in $(seq 1 3 70); do
        for how in error nothing; do
            steps $how $after --home $home
            if [ $code -eq 0 ]; then
                cmp -s "$tmp/want" "$tmp/got" && passed=$((passed + 1)) || wrong=$((wrong + 1))
            else
                failed=$((failed + 1))
                [ $code -eq 5 ] && said "reading [0-9]* bytes at offset [0-9]* got 0" && printed '"error":"' || silent=$((silent + 1))
            fi
        done
    done
    ok "B51 $home: reads that fail for good end runs ($failed), later ones do not ($passed)" [ $failed -gt 0 -a $passed -gt 0 ]
    ok "B51 $home: with exit 5, a sentence and closed JSON" [ $silent -eq 0 ]
    ok "B51 $home: and no numbers but the right ones" [ $wrong -eq 0 ]
done
# The talk goes on being one: an answer that failed is exit 5, not a signal.
printf 'one\ntwo\n' | LD_PRELOAD=$shim READ_SHIM=error READ_SHIM_AFTER=30 "$THIMBLE" chat $scripted --home stream --temp 0 -n 3 >"$out" 2>"$err"
ok "B51 chat ends with exit 5" [ $? -eq 5 ]

for home in stream paged; do
    steps no-direct 0 --home $home
    ok "B52 $home: direct reads refused when they are made: the same numbers" cmp "$tmp/want" "$tmp/got"
    ok "B52 $home: which is said once" [ "$(grep -c "direct reads" "$err")" -eq 1 ]
    ok "B52 $home: and in the JSON" printed '"mode":"buffered"'
done
if [ -d /dev/shm ] && cp $moe "/dev/shm/thimble-$$.gguf" 2>/dev/null; then
    "$THIMBLE" score "/dev/shm/thimble-$$.gguf" --tokens $ids --json --top all --home paged 2>"$err" | sed 's/,"stats":.*//' >"$tmp/got"
    rm -f "/dev/shm/thimble-$$.gguf"
    ok "B52 a file system in memory: the same numbers" cmp "$tmp/want" "$tmp/got"
else
    skip "B52 a file system in memory" "no /dev/shm"
fi
