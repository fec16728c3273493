# info.sh: what info and plan print, and files that are no models (B11), and names that are traps for terminals.
. tests/common/tap.sh
m=$scripted

try 0 info $m
ok "the kernel of each type is named" grep -q "^F16 .* [a-z_0-9]*$" "$out"
ok "the end tokens" grep -q "^ends with .*258" "$out"
try 0 info $m --json
ok "JSON: types with their kernel" printed '"types":\[{"type":"F32","count":3,"bytes":768,"origin":'
ok "JSON: the rest" printed '"architecture":"llama".*"shards":1.*"layers":1.*"eog":\[.*258.*\],"chat_template":true'
try 2 info
try 2 info $m $m
try 0 bench $m -p 8 -n 4 -r 2 -o jsonl
ok "bench rows have llama-bench's names" [ "$(grep -c '^{"model_filename":.*"model_type":.*"model_size":.*"model_n_params":.*"n_threads":.*"n_prompt":.*"n_gen":.*"avg_ts":.*"stddev_ts":.*"samples_ts":\[[^],]*,[^],]*\].*"bytes_per_token":.*"hit_rate":.*"peak_rss":.*"reached":' "$out")" -eq 2 ]
sum=$(sed -n '1s/.*"logits_checksum":"\([0-9a-f]*\)".*/\1/p' "$out")
try 0 bench $m -p 8 -n 0 -r 1 -o json --check "$sum" -t 1 -b 3
ok "a JSON array" printed '^\[{.*}\]$'
try 1 bench $m -p 8 -n 0 -r 1 --check 0123456789abcdef
try 0 bench $m -p 8,16 -n 4 -r 1 -o csv
ok "CSV has a header and three rows" [ "$(wc -l <"$out")" -eq 4 ]
try 0 bench $m -p 8 -n 4 -r 1
ok "a table by default" grep -q '^| llama .* | pp8 |' "$out"
try 2 bench $m -p 8,x
try 1 bench $m -p 100 -n 0 -c 50

# Not models: recognised and explained, exit 3 (B11).
: >"$tmp/empty.gguf"
printf '<!DOCTYPE html><html>not found</html>' >"$tmp/page.gguf"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n' >"$tmp/lfs.gguf"
head -c 1000 $m >"$tmp/short.gguf"
head -c $(($(wc -c <$m) - 1)) $m >"$tmp/byte.gguf"
for f in empty page lfs short byte; do
    for verb in info plan "run --raw -p x"; do
        try 3 ${verb%% *} "$tmp/$f.gguf" $(echo "$verb" | sed 's/^[a-z]* *//')
        ok "in one sentence" [ "$(wc -l <"$err")" -eq 1 ]
    done
done
try 5 info "$tmp/absent.gguf"

# A name that would take over the terminal is shown, not obeyed.
LC_ALL=C sed 's/scripted/\x1b[2Jevil/' $m >"$tmp/evil.gguf"
try 0 info "$tmp/evil.gguf"
LC_ALL=C grep -q "$(printf '\033')" "$out"
result $((1 - $?)) "no escape character reaches the terminal"
ok "it is shown as text" printed '\\x1B\[2Jevil'
try 0 info "$tmp/evil.gguf" --json
ok "and escaped in JSON" printed '"name":"\\u001b\[2Jevil"'
