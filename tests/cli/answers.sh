# answers.sh: what run says, with a model that says what it is told (scripted.gguf).
. tests/common/tap.sh
m=$scripted

try 0 run $m --raw -q --temp 0 A -n 5
ok "text streams" is_out BCDEF
try 0 run $m --raw --temp 0 A -n 5
ok "the closing line is on standard error" said "tok/s.*peak"
ok "and not on standard output" is_out BCDEF
try 0 run $m --raw --temp 0 A --json
ok "an end token finishes with stop" printed '"text":"BCDEFGHIJKLMNOPQRSTUVWXYZ".*"finish":"stop"'
ok "the end token is among the tokens" printed '"tokens":\[66,.*,90,258\]'
try 0 run $m --raw --temp 0 x -n 4 --json
ok "-n finishes with length" printed '"text":"xxxx","tokens":\[120,120,120,120\],"finish":"length"'
ok "what the device would allow is said" printed '"limit":{"bound":"[a-z]*","decode_tps":[1-9]'
try 0 run $m --raw --temp 0 x -n 4 --home stream
ok "also in the closing line" said "limit [0-9.e+]* tok/s ([a-z]*), reached [0-9]* %"
try 0 score $m --tokens 65,66 --json
ok "but not where nothing was decoded" printed '"limit":{"bound":"compute","decode_tps":0,"reached":0}'
try 0 run $m --raw --temp 0 x -n 0 --json
ok "-n 0 is a prefill" printed '"tokens":\[\],"finish":"length"'
if command -v python3 >/dev/null; then
    try 0 run $m --raw A -n 5 --json --seed 7
    ok "run --json has the documented shape" python3 - "$out" <<'P'
import json, sys
d = json.load(open(sys.argv[1]))
s = d["stats"]
assert set(d) == {"text", "tokens", "finish", "stats"}, d.keys()
for k in ("prompt_tokens", "generated_tokens", "prefill_tps", "decode_tps", "ttft_ms", "load_ms", "threads", "isa", "seed"): s[k]
assert set(s["experts"]) == {"hits", "misses", "lookahead_used", "lookahead_wasted", "slots", "bytes_read", "stall_ms"}
assert set(s["io"]) == {"bytes_read", "bytes_per_token", "mode", "backend", "read_ms", "stall_ms"}
assert set(s["memory"]) == {"budget", "planned", "peak_rss", "peak_anon"}
assert set(s["limit"]) == {"bound", "decode_tps", "reached"} and s["lossy"] is None
l = s["limit"]
assert l["bound"] in ("compute", "memory", "flash") and 0 < l["reached"] <= 1.0001, l
assert abs(l["reached"] * l["decode_tps"] / s["decode_tps"] - 1) < 1e-3, l
assert s["io"]["mode"] in ("direct", "buffered")
assert s["seed"] == 7 and s["prompt_tokens"] == 1 and s["generated_tokens"] == 5
assert s["memory"]["peak_rss"] <= s["memory"]["budget"]
P
else
    skip "run --json has the documented shape" "no python3"
fi

# Characters that are cut by tokens (B16).
try 0 run $m --raw -q --temp 0 1
ok "a character over four tokens comes out whole" is_out "$(printf '\360\237\220\211')"
try 0 run $m --raw --temp 0 1 -n 2 --json
ok "cut by -n it becomes one U+FFFD" printed "\"text\":\"$(printf '\357\277\275')\","
try 0 run $m --raw --temp 0 2 --json
ok "a byte that is no UTF-8 becomes U+FFFD" printed "\"text\":\"$(printf '\357\277\275')\","

# Stop texts (B34).
try 0 run $m --raw -q --temp 0 A --stop GH
ok "nothing of the stop text is shown" is_out BCDEF
try 0 run $m --raw -q --temp 0 A --stop GHX --stop KL
ok "a beginning that is no stop is shown after all" is_out BCDEFGHIJ
try 0 run $m --raw -q --temp 0 A --stop XYZ1
ok "what is held back at the end is not lost" is_out BCDEFGHIJKLMNOPQRSTUVWXYZ
try 0 run $m --raw -q --temp 0 A --stop HI --stop H --stop GHIJ
ok "the earliest match wins" is_out BCDEFG
try 0 run $m --raw --temp 0 A --stop D --json
ok "stop texts finish with stop" printed '"text":"BC".*"finish":"stop"'

# Context full (B36).
try 0 run $m --raw --temp 0 xxxxxxxx -c 16 -n 1000 --json
ok "a full context finishes with length" printed '"finish":"length"'
ok "all of it was used" printed '"text":"xxxxxxxxx"'
ok "and says how to go on" said "-c N"
try 0 run $m --raw -q xxxxxxxx -c 8 -n 1
try 1 run $m --raw xxxxxxxx -c 7 -n 1
ok "a prompt that is too long names both numbers" said "8 tokens.*holds 7"

# Temperatures and seeds (B31, B35).
for t in 0 1e-30 0.8; do
    try 0 run $m --raw -q --temp $t A -n 3
    ok "temperature $t" is_out BCD
done
try 0 run $m --raw -q --temp 0 A -n 3 --top-k 0 --top-p 0 --min-p 1
ok "one token always remains" is_out BCD
try 0 run $m --raw --temp 1 A -n 1
ok "the seed is printed" said "seed [0-9]"
"$THIMBLE" run $m --raw -q --temp 40 --top-k 0 --top-p 1 --min-p 0 --seed 5 A -n 30 --json | sed 's/,"finish.*//' >"$tmp/a"
"$THIMBLE" run $m --raw -q --temp 40 --top-k 0 --top-p 1 --min-p 0 --seed 5 A -n 30 --json -t 1 -b 1 | sed 's/,"finish.*//' >"$tmp/b"
"$THIMBLE" run $m --raw -q --temp 40 --top-k 0 --top-p 1 --min-p 0 --seed 6 A -n 30 --json | sed 's/,"finish.*//' >"$tmp/c"
ok "a seed repeats its text" cmp "$tmp/a" "$tmp/b"
cmp -s "$tmp/a" "$tmp/c"
result $((1 - $?)) "another seed does not"

# One NaN in the head (B30): the spare token's row is the end of the file.
cp $m "$tmp/nan.gguf" && chmod u+w "$tmp/nan.gguf"
size=$(wc -c <"$tmp/nan.gguf")
printf '\000\176' | dd of="$tmp/nan.gguf" bs=1 seek=$((size - 2)) conv=notrunc 2>/dev/null
try 0 run "$tmp/nan.gguf" --raw --temp 0 A -n 3
ok "NaN logits are never chosen" is_out BCD
ok "and said once" [ "$(grep -c 'no finite numbers' "$err")" -eq 1 ]
try 0 score "$tmp/nan.gguf" --tokens 65 --json --top all
ok "p of a NaN logit is null" printed '\[259,null\]'

# The prompt from everywhere.
printf A >"$tmp/prompt"
try 0 run $m --raw -q --temp 0 -n 2 -p A
ok "-p" is_out BC
try 0 run $m --raw -q --temp 0 -n 2 -f "$tmp/prompt"
ok "-f" is_out BC
"$THIMBLE" run $m --raw -q --temp 0 -n 2 - <"$tmp/prompt" >"$out" 2>"$err"
ok "standard input" is_out BC
try 0 run $m --raw -q --temp 0 -n 2 -- A
ok "after --" is_out BC
try 5 run $m -f "$tmp/absent"
try 2 run $m --raw -p ""
try 5 run "$tmp/absent.gguf" hi
mkdir -p "$tmp/cache/thimble" && cp $m "$tmp/cache/thimble/known.gguf"
try 0 run known --raw -q --temp 0 -n 2 A
ok "a name in the cache folder" is_out BC
