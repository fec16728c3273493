# streams.sh: standard output and input that end, fill up or were never there (B54, B65, B74); signals.
. tests/common/tap.sh
m=$scripted
lower="run $m --raw --temp 0 x -n 2000"

"$THIMBLE" chat $m </dev/null >"$out" 2>"$err"
code=$?
ok "chat without input ends well" [ $code -eq 0 ]
ok "and says nothing on standard output" quiet_stdout
printf hi | "$THIMBLE" chat $m --temp 0 >"$out" 2>"$err"
code=$?
ok "a line without a newline is answered once" is_out ABCDEFGHIJKLMNOPQRSTUVWXYZ
ok "and chat ends well" [ $code -eq 0 ]
printf 'hi\n\n  \nho\n/reset\nhu\n/exit\nnever\n' | "$THIMBLE" chat $m --temp 0 -n 3 >"$out" 2>"$err"
ok "lines are turns, blank ones are not, /exit leaves" is_out "$(printf 'ABC\nABC\nABC')"
printf 'a\nb\nc\n/reset\nd\n' | "$THIMBLE" chat $m --temp 0 -c 64 >"$out" 2>"$err"
code=$?
ok "a full context is said with the way out" said "/reset"
ok "after which /reset helps" [ "$(tail -n 1 "$out")" = ABCDEFGHIJKLMNOPQRSTUVWXYZ ]
ok "and chat ends well" [ $code -eq 0 ]

{ "$THIMBLE" $lower 2>"$err"; echo $? >"$tmp/code"; } | head -c 1 >"$out"
code=$(cat "$tmp/code")
ok "a reader that leaves is a quiet end" [ "$code" -eq 0 ]
ok "without a word about it" [ "$(grep -ci 'pipe' "$err")" -eq 0 ]
"$THIMBLE" $lower >&- 2>"$err"
code=$?
ok "no standard output: a quiet end" [ $code -eq 0 ]
"$THIMBLE" $lower >&- 2>&- <&-
ok "no streams at all: no signal" [ $? -le 5 ]
if [ -w /dev/full ]; then
    for verb in "run $m --raw A" "run $m --raw A --json" "score $m --tokens 1,2,3" "score $m --tokens 1,2,3 --json --top all" \
        "tokenize $m A" "tokenize $m A --json" "detokenize $m 65" "detokenize $m 65 --json" "info $m" "info $m --json" \
        "plan $m" "plan $m --json" "bench $m -p 4 -n 0 -r 1" "bench $m -p 4 -n 0 -r 1 --json" "perplexity $m -p ABCD" \
        "perplexity $m -p ABCD --json" version "version --json" help "help run" ""; do
        "$THIMBLE" $verb >/dev/full 2>"$err" </dev/null
        code=$?
        ok "a full disk is exit 5, and said: $verb" [ $code -eq 5 -a "$(grep -c 'No space left' "$err")" -eq 1 ]
    done
    for verb in chat "chat --json"; do
        echo hi | "$THIMBLE" ${verb%% *} $m ${verb#chat} >/dev/full 2>"$err"
        ok "also in $verb" [ $? -eq 5 ]
    done
    try 5 run $m --raw -q --temp 0 A -n 2 --log-file /dev/full
    ok "a log that cannot be written is said" said "log file could not be written: No space left"
    ok "and does not stop the answer" is_out BC
else
    skip "a full disk is exit 5" "no /dev/full"
fi
try 5 run $m --raw A --log-file "$tmp/absent/log"
for verb in "run $m --raw A" "score $m --tokens 1,2,3 --json --top all" "info $m" "plan $m" "tokenize $m A" "perplexity $m -p ABCD" \
    "bench $m -p 4 -n 0 -r 1" "detokenize $m 65" help; do
    { "$THIMBLE" $verb 2>"$err" </dev/null; echo $? >"$tmp/code"; } | :
    "$THIMBLE" $verb >&- 2>>"$err" </dev/null
    code=$?
    ok "no reader, no standard output: a quiet end: $verb" [ "$(cat "$tmp/code")$code" = 00 -a "$(grep -ci pipe "$err")" -eq 0 ]
done
try 0 run $m --raw A -q --temp 0 --log-file "$tmp/log"
ok "the log file has what -q hides" grep -q "tok/s" "$tmp/log"
env -i "$THIMBLE" run $m --raw -q --temp 0 A -n 2 >"$out" 2>"$err" </dev/null
ok "no environment" is_out BC

# Signals, while an answer is on its way that would take minutes.
signal_test() { # SIGNAL CODE
    : >"$out"
    "$THIMBLE" run $m --raw --temp 0 -c 4000000 -p x -n 3900000 >"$out" 2>"$err" </dev/null &
    pid=$!
    for i in $(seq 50); do
        [ -s "$out" ] && break
        sleep 0.1
    done
    kill -s "$1" $pid
    wait $pid
    code=$?
    ok "$1 ends an answer with $2" [ $code -eq "$2" ]
    ok "its closing line included" said "tok/s"
}
signal_test INT 130
signal_test TERM 143
signal_test HUP 143
# At the prompt of chat nothing else happens: the signal is what ends it.
mkfifo "$tmp/fifo"
for pair in INT:130 TERM:143 HUP:143; do
    : >"$err"
    (exec 3>"$tmp/fifo"; sleep 20) &
    holder=$!
    "$THIMBLE" chat $m <"$tmp/fifo" >"$out" 2>"$err" &
    pid=$!
    for i in $(seq 50); do
        grep -q . "$err" 2>/dev/null && break
        sleep 0.1
    done
    kill -s "${pair%:*}" $pid
    wait $pid
    code=$?
    kill $holder
    wait $holder 2>/dev/null
    ok "${pair%:*} while waiting ends with ${pair#*:}" [ $code -eq "${pair#*:}" ]
done
