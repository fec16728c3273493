# budget.sh: what does not fit is refused before anything is loaded, with the way out; what nearly fits is lowered, said.
. tests/common/tap.sh
m=$scripted
value() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$out"; }

try 0 plan $m --json
floor=$(value floor)
try 4 plan $m --json --ram $((floor - 1))
ok "plan --json still prints the plan" printed "\"floor\":$floor,\"budget\":$((floor - 1)),\"fits\":false"
try 0 plan $m --ram $floor
try 4 plan $m --ram 1
ok "a budget too small for the header alone is told both numbers too" said "1 bytes.*below the floor of .*$floor bytes"
try 4 plan $m --json --ram 1
ok "and in the plan" printed "\"floor\":$floor,\"budget\":1,\"fits\":false"
try 4 run $m x --ram 1
ok "and by run" said "what fits: .*--ram"
try 4 run $m x --ram $((floor - 1))
ok "both numbers are said" said "$((floor - 1)) bytes.*$floor bytes"
ok "and what fits" said "what fits: .*--ram [0-9]*M"
ok "nothing on standard output" quiet_stdout
fits=$(sed -n 's/.*--ram \([0-9]*M\).*/\1/p' "$err")
try 0 run $m --raw -q --temp 0 A -n 3 --ram "$fits"
ok "what is said to fit does" is_out BCD
try 0 run $m --raw --temp 0 A -n 3 --ram $floor --json
ok "the floor itself runs" printed '"text":"BCD"'
for verb in chat score bench; do try 4 $verb $m --ram $((floor - 1)) $([ $verb = score ] && echo --tokens 1); done

try 4 plan $m --ram $((floor - 1))
ok "no speed is foretold for what does not fit" [ "$(grep -c roughly "$out")" -eq 0 ]

# Texts and ids are in the budget too: a file of them that is too long for it is refused as such.
yes 1 | head -c $((floor / 16)) >"$tmp/ids"
try 4 score $m --tokens @"$tmp/ids" --ram $floor
ok "a file of ids beyond the budget" said "does not fit the budget"
try 4 detokenize $m @"$tmp/ids" --ram $floor
try 5 score $m --tokens @"$tmp/none" --ram $floor

# A context that was not asked for is lowered; one that was is not.
try 0 plan $m -c 2048 --json
most=$(value floor)
middle=$(((floor + most) / 2))
if [ $((most - floor)) -gt 4096 ]; then
    try 0 run $m --raw --temp 0 A -n 3 --ram $middle
    ok "the lowered context is said" said "context is lowered to"
    try 4 run $m --raw A -n 3 --ram $middle -c 2048
    ok "and what fits" said "what fits: -c [0-9]"
    c=$(sed -n 's/.*what fits: -c \([0-9]*\).*/\1/p' "$err")
    try 0 run $m --raw -q --temp 0 A -n 3 --ram $middle -c "$c"
    try 4 run $m --raw A -n 2040 --ram $middle
    ok "prompt and --predict are a lower bound" said "what fits: --predict [0-9]"
    n=$(sed -n 's/.*--predict \([0-9]*\).*/\1/p' "$err")
    try 0 run $m --raw -q --temp 0 A -n "$n" --ram $middle
fi
try 2 run $m x --home mapped --ram 1G
ok "mapped keeps no budget" said "mapped"
try 0 run $m --raw -q --temp 0 A -n 3 --home mapped
ok "without one it runs" is_out BCD
for home in resident stream; do
    try 0 run $m --raw -q --temp 0 A -n 3 --home $home
    ok "home $home" is_out BCD
done
# A mapped file that is cut short in use: a sentence and exit 5, no signal (B53).
cp $m "$tmp/cut.gguf" && chmod u+w "$tmp/cut.gguf"
mkfifo "$tmp/fifo"
: >"$err"
(exec 3>"$tmp/fifo"; while [ ! -e "$tmp/go" ]; do sleep 0.05; done; echo x >&3) &
"$THIMBLE" chat "$tmp/cut.gguf" --home mapped --temp 0 -n 3 <"$tmp/fifo" >"$out" 2>"$err" &
pid=$!
for i in $(seq 50); do
    grep -q . "$err" 2>/dev/null && break
    sleep 0.1
done
: >"$tmp/cut.gguf"
: >"$tmp/go"
wait $pid
code=$?
ok "a mapped file cut short is exit 5" [ $code -eq 5 ]
ok "with a sentence" said "thimble: "

# The program's own memory is part of the budget: a text that would not fit with its tokens is not even read to its end.
truncate -s 8M "$tmp/long" 2>/dev/null
for verb in "run --raw" score tokenize perplexity; do
    try 4 ${verb%% *} $m $(echo "$verb" | sed 's/^[a-z]* *//') -f "$tmp/long" --ram "$floor"
    ok "and the budget is said" said "does not fit the budget of"
done
yes x | tr '\n' ' ' | head -c 1000000 >"$tmp/long"
try 4 score $m -f "$tmp/long" --ram $((floor + 4990000)) -c 512
ok "what a shorter text takes is said to be missing" said "($((floor + 4990000)) bytes) is below the floor of .* ($((floor + 5000000)) bytes)"
try 4 tokenize $m -f "$tmp/long" --ram 9M
ok "what the text takes is told apart" said "--ram [0-9]*M, and 4.77 MiB on top for the text and its tokens"
{ printf 'one\n'; cat "$tmp/long"; printf '\ntwo\n'; } | "$THIMBLE" chat $m --temp 0 -n 3 --ram 10M >"$out" 2>"$err"
ok "a line of chat that is too long is left out" is_out "$(printf 'ABC\nABC')"
ok "which is said" said "is too long and left out"

# A context that was given and is too short: counted in tokens, not bytes.
stories=tests/golden/stories.gguf
try 0 run $stories --raw -q "Once upon a time there was a little girl" -c 33 -n 1
try 1 run $stories --raw "Once upon a time there was a little girl" -c 31
ok "both numbers are said" said "32 tokens, the context holds 31"
try 1 run $stories --raw -p "$(printf 'Once upon a time %.0s' $(seq 99))"
ok "also when the model itself holds no more" said "the context holds 256"
moe=$shared/models/tale-moe-13m-Q8_0.gguf
if [ -f $moe ]; then
    try 0 run $moe -n 2 hi --slots 40
    ok "a context as short as the run needs is not said to be lowered" sh -c "! grep -q lowered '$err'"
else
    skip "a context as short as the run needs" "no $moe"
fi

# info and the tokenizer keep their budget, too: code and libraries are counted.
for verb in info "tokenize A" "detokenize 65"; do
    set -- $verb
    word=$1
    shift
    try 4 $word $m "$@" --ram 3M
    ok "both numbers and what fits are said" said "budget of 3145728 bytes is below the [0-9]* bytes .*--ram [0-9]*M"
    fits=$(sed -n 's/.*--ram \([0-9]*M\).*/\1/p' "$err")
    try 0 $word $m "$@" --ram "$fits"
done
