# changed.sh: files that change, break or vanish while they are in use (B53), and outputs that run full (B54).
. tests/common/tap.sh
mkfifo "$tmp/fifo"
trap : PIPE # the program may be gone before the second turn is written

# talk OPTIONS CHANGE [MODEL]: one turn, then the change to $copy, then another turn. Leaves $code.
talk() {
    copy=$tmp/copy.gguf
    rm -f "$copy"
    cp "${3:-$scripted}" "$copy" && chmod u+w "$copy"
    : >"$out" : >"$err"
    "$THIMBLE" chat "$copy" --temp 0 -n 3 $1 <"$tmp/fifo" >"$out" 2>"$err" &
    pid=$!
    exec 3>"$tmp/fifo"
    echo one >&3
    for i in $(seq 400); do
        [ "$(wc -l <"$out")" -gt 0 ] && break
        sleep 0.05
    done
    eval "$2"
    echo two >&3 2>/dev/null
    exec 3>&-
    wait $pid
    code=$?
}

for home in resident stream; do
    talk "--home $home" ':'
    ok "$home: two turns" is_out "$(printf 'ABC\nABC')"
    talk "--home $home" 'cp $scripted "$tmp/new.gguf"; mv -f "$tmp/new.gguf" "$copy"'
    ok "$home: a file that is replaced stays readable" [ $code -eq 0 ]
    ok "$home: and the answer is right" is_out "$(printf 'ABC\nABC')"
    talk "--home $home" 'rm "$copy"'
    ok "$home: a file that is removed stays readable" [ $code -eq 0 ]
    talk "--home $home" ': >"$copy"'
    ok "$home: cut short: a documented exit code" [ $code -eq 0 -o $code -eq 5 ]
    ok "$home: cut short: no wrong answer" [ "$(tr -d 'ABC\n' <"$out")" = "" ]
done
talk "--home stream" ': >"$copy"'
ok "a streamed file cut short is exit 5" [ $code -eq 5 ]
ok "with a sentence" said "^thimble: .*copy.gguf"
talk "--home stream" 'sleep 0.02; LC_ALL=C tr "\000" "\001" <$scripted | dd of="$copy" conv=notrunc 2>/dev/null'
ok "a streamed file rewritten in place is exit 5" [ $code -eq 5 ]
ok "never a mix" [ "$(cat "$out")" = ABC ]

# Experts that are read when they are asked for: never those of another file, never a signal.
tale=$shared/models/tale-moe-13m-Q8_0.gguf
if [ -f "$tale" ]; then
    paged="--home paged --slots 8 --draft off"
    talk "$paged" ':' "$tale"
    cp "$out" "$tmp/told"
    ok "paged: two turns" [ $code -eq 0 ]
    talk "$paged" 'cp "$tale" "$tmp/new.gguf"; mv -f "$tmp/new.gguf" "$copy"' "$tale"
    ok "paged: a file that is replaced stays readable" cmp -s "$tmp/told" "$out"
    talk "$paged" ': >"$copy"' "$tale"
    ok "a paged file cut short is exit 5" [ $code -eq 5 ]
    ok "with a sentence" said "^thimble: .*copy.gguf"
    talk "$paged" 'sleep 0.02; dd if=/dev/zero of="$copy" bs=64k count=100 seek=50 conv=notrunc 2>/dev/null' "$tale"
    ok "a paged file rewritten in place is exit 5" [ $code -eq 5 ]
    ok "and nothing of the other file is told" [ "$(head -n 1 "$out")" = "$(head -n 1 "$tmp/told")" -a "$(wc -l <"$out")" -le 2 ]
else skip "B53 paged experts" "no $tale"; fi

(
    ulimit -f 1
    "$THIMBLE" score $scripted --tokens 1,2,3 --json --top all >"$tmp/limited" 2>"$err"
)
code=$?
ok "a file size limit is exit 5" [ $code -eq 5 ]
ok "and said" said "File too large"

# Every logit a NaN (B30): an error, not a guess.
cp $scripted "$tmp/nan.gguf" && chmod u+w "$tmp/nan.gguf"
size=$(wc -c <"$tmp/nan.gguf")
head -c 33280 /dev/zero | tr '\000' '\377' | dd of="$tmp/nan.gguf" bs=1 seek=$((size - 33280)) conv=notrunc 2>/dev/null
try 1 run "$tmp/nan.gguf" --raw x --json
ok "finish is error" printed '"text":"","tokens":\[\],"finish":"error","error":"'
try 1 run "$tmp/nan.gguf" --raw x
ok "said in a sentence" said "^thimble: "
try 0 score "$tmp/nan.gguf" --tokens 65,66 --json --top 3
ok "score has no probabilities" printed '"token":66,"logprob":null,"top":\[\]'
