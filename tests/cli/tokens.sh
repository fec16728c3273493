# tokens.sh: tokenize, detokenize, score: ids in and out, and numbers that mean what they say.
. tests/common/tap.sh
m=$scripted

try 0 tokenize $m "Hi"
ok "ids on one line" is_out "72 105"
try 0 tokenize $m ""
ok "no text, no ids" is_out ""
try 0 tokenize $m "é" --json
ok "pieces of a cut character are valid JSON" printed "\"pieces\":\[\"$(printf '\357\277\275')\",\"$(printf '\357\277\275')\"\]"
printf 'a\nb' | "$THIMBLE" tokenize $m - >"$out" 2>"$err"
ok "standard input, byte for byte" is_out "97 10 98"
try 2 tokenize $m
try 2 tokenize
try 0 detokenize $m 72,105
ok "commas" is_out Hi
try 0 detokenize $m 72 105
ok "blanks" is_out Hi
printf '[72, 105]' >"$tmp/ids.json"
try 0 detokenize $m @"$tmp/ids.json"
ok "a JSON file" is_out Hi
printf '72\n105\n' >"$tmp/ids.txt"
try 0 detokenize $m @"$tmp/ids.txt"
ok "a plain file" is_out Hi
try 0 detokenize $m 72 258
ok "control tokens have no bytes" is_out H
try 0 detokenize $m 72 258 --special on
ok "unless they are asked for" is_out 'H<|im_end|>'
# Bad ids (B33): named, with the limit.
for bad in 260 2147483647; do
    try 2 detokenize $m 1,$bad
    ok "the id and the limit are named" said "$bad.*0 to 259"
    try 2 score $m --tokens 1,$bad
    ok "also by score" said "$bad.*0 to 259"
done
try 2 score $m --tokens=-1
for bad in 1.5 12x '"12"' 99999999999; do
    try 2 detokenize $m "$bad"
    try 2 score $m --tokens "$bad"
done
for bad in '[1.5]' '["12"]' '[1,' '{}' '[99999999999]' '[true]'; do
    printf '%s' "$bad" >"$tmp/bad.json"
    try 2 detokenize $m @"$tmp/bad.json"
done
try 5 detokenize $m @"$tmp/absent"
try 2 score $m
try 2 score $m --tokens ""
try 2 score $m --tokens 1 -p x
try 1 score $m --tokens 1,2,3 -c 2

try 0 score $m --tokens 65,66,67
ok "a line a token" [ "$(wc -l <"$out")" -eq 3 ]
ok "position, id, text, ln p" grep -q "^1	66	B	[0-9.e-]*$" "$out"
ok "nothing at position 0" grep -q "^0	65	A	-$" "$out"
try 0 score $m -p AB
ok "text is tokenised" [ "$(cut -f2 "$out" | tr '\n' ' ')" = "65 66 " ]
try 0 score $m --tokens 65,66 --json
ok "no top unless asked" printed '"n_vocab":260,"steps":\[{"pos":0,"token":65,"logprob":null,"top":\[\]},{"pos":1,"token":66,"logprob":[-0-9.e]*,"top":\[\]}\],"stats"'
if command -v python3 >/dev/null; then
    "$THIMBLE" score $m --tokens 65,66,67,120 --json --top all 2>/dev/null >"$tmp/all"
    "$THIMBLE" score $m --tokens 65,66,67,120 --json --top 20 2>/dev/null >"$tmp/top"
    "$THIMBLE" score $m --tokens 65,66,67,120 --json --top 9999 2>/dev/null >"$tmp/every"
    ok "top N is the head of the whole" python3 - "$tmp/all" "$tmp/top" "$tmp/every" <<'P'
import json, math, sys
full, top, every = (json.load(open(p)) for p in sys.argv[1:])
for a, b, c in zip(full["steps"], top["steps"], every["steps"]):
    assert [i for i, _ in a["top"]] == list(range(260))
    assert abs(sum(math.exp(lp) for _, lp in a["top"]) - 1) < 1e-6
    order = sorted(a["top"], key=lambda x: (-x[1], x[0]))
    assert b["top"] == order[:20] and c["top"] == order
for a, b in zip(full["steps"], full["steps"][1:]):
    assert b["logprob"] == a["top"][b["token"]][1]
assert full["steps"][0]["logprob"] is None and full["n_vocab"] == 260 and "stats" in full
P
else
    skip "top N is the head of the whole" "no python3"
fi
steps() { sed 's/,"stats":.*//'; }
"$THIMBLE" score $m --tokens 65,66,67,68,69,70,71,72 --json --top all -q | steps >"$tmp/a"
for how in "-b 1" "-b 3 -t 1" "-t 2 --home stream" "--home mapped"; do
    "$THIMBLE" score $m --tokens 65,66,67,68,69,70,71,72 --json --top all -q $how | steps >"$tmp/b"
    ok "the same bits with $how" cmp "$tmp/a" "$tmp/b"
done
# Round trips of the official pairs, through the command line.
v=$shared/vectors/tokenizers/ggml-vocab-gpt-2.gguf
if [ -f $v ]; then
    text="Hello, y'all! 🦙 3.14"
    ids=$("$THIMBLE" tokenize $v "$text" --bos off)
    try 0 detokenize $v "$ids"
    ok "text goes there and back" is_out "$text"
else
    skip "text goes there and back" "no $v"
fi
