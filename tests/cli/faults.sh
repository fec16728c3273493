# faults.sh: kinds of fault that other engines had and that only show in a whole run: split sets (B10), offsets beyond 4 GiB
# (B12), no second copy of weights (B49), no instruction the processor lacks (B57), speed that hides wrong reads (B76).
. tests/common/tap.sh
dense=tests/golden/qwen3.gguf moe=tests/golden/qwen3moe.gguf
rewrite="python3 tests/cli/rewrite_gguf.py"
steps() { "$THIMBLE" score "$@" --tokens 5,17,3,25,9,9,40 --json --top all -q 2>"$err" | sed 's/,"stats":.*//'; }
same_steps() { steps "$1" >"$tmp/got" && [ -s "$tmp/got" ] && cmp -s "$tmp/want" "$tmp/got"; }

if command -v python3 >/dev/null; then
    for model in $dense $moe; do
        steps $model >"$tmp/want"
        mkdir -p "$tmp/set"
        $rewrite $model "$tmp/set/part" --split 3
        for k in 1 2 3; do ok "B10 $model: any shard opens the set ($k)" same_steps "$tmp/set/part-0000$k-of-00003.gguf"; done
        ok "B10 $model: so does the folder" same_steps "$tmp/set"
        rm "$tmp/set/part-00003-of-00003.gguf"
        try 5 score "$tmp/set/part-00001-of-00003.gguf" --tokens 1
        ok "B10 the missing shard is named" said "part-00003-of-00003.gguf"
        rm -rf "$tmp/set"
        $rewrite $model "$tmp/far.gguf" --gap 6442450944
        if [ "$(stat -c %s "$tmp/far.gguf" 2>/dev/null || echo 0)" -gt 6442450944 ]; then
            ok "B12 $model: tensors beyond 6 GiB, resident" same_steps "$tmp/far.gguf"
            for home in mapped stream paged; do
                steps "$tmp/far.gguf" --home $home >"$tmp/got"
                ok "B12 $model: tensors beyond 6 GiB, $home" cmp -s "$tmp/want" "$tmp/got"
            done
        else skip "B12 $model" "no sparse files here"; fi
        rm -f "$tmp/far.gguf"
    done
    # Two exchanged experts must show in the numbers, whatever home they are read from.
    $rewrite $moe "$tmp/swapped.gguf" --swap blk.0.ffn_down_exps.weight 0 1
    $rewrite $moe "$tmp/again.gguf" --swap blk.0.ffn_down_exps.weight 1 1
    steps $moe >"$tmp/want"
    ok "B76 a faithful copy gives the same numbers" same_steps "$tmp/again.gguf"
    steps "$tmp/swapped.gguf" >"$tmp/want2"
    ok "B76 two exchanged experts do not" sh -c "! cmp -s '$tmp/want' '$tmp/want2'"
    for home in stream paged; do
        steps "$tmp/swapped.gguf" --home $home >"$tmp/got"
        ok "B76 and every home reads the exchanged ones ($home)" cmp -s "$tmp/want2" "$tmp/got"
    done
    sum=$("$THIMBLE" bench $moe -p 8 -n 0 -r 1 -o jsonl -q 2>"$err" | sed -n 's/.*"logits_checksum":"\([0-9a-f]*\)".*/\1/p')
    try 0 bench "$tmp/again.gguf" -p 8 -n 0 -r 1 --check "$sum"
    try 1 bench "$tmp/swapped.gguf" -p 8 -n 0 -r 1 --check "$sum"
    ok "B76 bench --check sees exchanged experts" said "not $sum: the result is not what it was"
    size=$(stat -c %s "$tmp/again.gguf")
    cp "$tmp/again.gguf" "$tmp/zeroed.gguf"
    dd if=/dev/zero of="$tmp/zeroed.gguf" bs=1024 seek=$((size / 1024 - 24)) count=16 conv=notrunc 2>/dev/null
    try 1 bench "$tmp/zeroed.gguf" -p 8 -n 0 -r 1 --check "$sum"
else skip "B10, B12, B76" "no python3"; fi

try 0 info $moe
ok "B76 the kernel of each type is named" grep -qE '_(c|avx2|avxvnni|avx512|avx512vnni|neon|dotprod)$' "$out"
try 0 info $moe --isa c
ok "B76 a fallback to plain C is said" printed "_c$"
here=$(sed -n 's/^instructions *//p' "$out")
ok "--isa c is plain C" [ "$here" = c ]
case $(uname -m) in
x86_64) foreign=i8mm ;;
*) foreign=avx2 ;;
esac
try 2 run $scripted --raw A --isa $foreign
ok "B57 an instruction set that is not here is named, with those that are" said "no $foreign: it has c"
try 0 run $scripted --raw A -n 1 --isa c,$foreign
ok "B57 one that is only missing is said" said "this machine has no [a-z0-9,]*$foreign"
try 0 score $moe --tokens 1,2 --slots 1
ok "slots that had to be raised are said" said "1 expert slots were asked for, [0-9]* are used"
try 0 score $moe --tokens 1,2 --slots 9999
ok "and those that were too many" said "9999 expert slots were asked for, .*all experts"
try 0 score $dense --tokens 1,2 --slots 5
ok "and those of a model without experts" said "no experts are paged"

# Lossy options: more experts than there are is a slip; a model without any is never called lossy.
try 2 score $moe --tokens 1,2 --experts 99
ok "the model's own number is said" said "this model has [0-9]*, of which it uses [0-9]*"
try 0 score $moe --tokens 1,2 --experts 1 --json
ok "fewer experts are named lossy" printed '"lossy":{"route_bias":0,"experts":1,"picks_changed":[1-9]'
try 0 score $dense --tokens 1,2 --experts 2 --route-bias 1 --json
ok "a dense model is not lossy" printed '"lossy":null}'
ok "and has no experts" said "no experts: options for them are without effect"
try 0 score $moe --tokens 1,2 -c 100000
ok "a context beyond the trained one is said" said "was trained for [0-9]* tokens"

# A model three times the budget, in a type that could be repacked: the peak stays below the budget.
synth=$shared/tools/synth_gguf.py
case ${BUILD:-build} in *san*) sanitized=1 ;; *) sanitized= ;; esac # a sanitizer's shadow memory is not ours to count
if [ -z "$sanitized" ] && [ -f $synth ] && /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
    for mix in q4_0 q4_k; do
        $synth --preset smol-135m --mix $mix -o "$tmp/smol.gguf" >/dev/null 2>&1
        size=$(stat -c %s "$tmp/smol.gguf")
        budget=$((size / 2))
        "$THIMBLE" score "$tmp/smol.gguf" --tokens 1,2,3 --ram $budget -c 64 --json >"$out" 2>"$err"
        code=$?
        peak=$(sed -n 's/.*"peak_rss":\([0-9]*\).*/\1/p' "$out")
        ok "B49 $mix: $size bytes run in $budget" [ "$code" -eq 0 ]
        ok "B49 $mix: peak ${peak:-none} is below the budget" [ "${peak:-999999999}" -le $budget ]
        rm -f "$tmp/smol.gguf"
    done
else skip "B49 a model larger than its budget" "no ../shared/tools, no numpy, or a sanitizer"; fi

# Objects without an instruction set in their name hold no instruction beyond the baseline.
if command -v objdump >/dev/null && [ "$(uname -m)" = x86_64 ] && [ -d "${BUILD:-build}/src" ] && [ -z "$sanitized" ]; then
    found=$(find "${BUILD:-build}/src" -name '*.o' | grep -vE '_(avx2|avxvnni|avx512|avx512vnni)\.o$' |
        xargs objdump -d --no-show-raw-insn 2>/dev/null | grep -cE '%[yz]mm|\bv[a-z0-9]+ps\b|\bvfmadd')
    ok "B57 no AVX outside the files that are named for it" [ "$found" = 0 ]
else skip "B57 baseline objects" "no objdump or no x86-64 build here"; fi
# The whole program on a processor without AVX, in an emulator: not one instruction too many, and the same answer (B57).
if command -v qemu-x86_64 >/dev/null && [ "$(uname -m)" = x86_64 ] && [ -z "$sanitized" ]; then
    for cpu in Nehalem Haswell; do
        timeout 60 qemu-x86_64 -cpu $cpu "$THIMBLE" run $scripted --raw -q --temp 0 A -n 5 -t 2 >"$out" 2>"$err" </dev/null
        code=$?
        ok "B57 $cpu runs it" [ $code -eq 0 -a "$(cat "$out")" = BCDEF ]
    done
else skip "B57 older processors" "no qemu-x86_64, or a sanitizer"; fi

# Segments that pages of 64 KiB can map, and tensors at offsets that are no multiple of any page (B61).
if command -v readelf >/dev/null; then
    for file in "$THIMBLE" "$(dirname "$THIMBLE")/libthimble.so"; do
        [ -f "$file" ] || continue
        small=$(LC_ALL=C readelf -lW "$file" | awk '$1 == "LOAD" { n++; if ($NF != "0x10000") bad++ } END { print (n > 0 ? bad + 0 : "none") }')
        ok "B61 segments are aligned to 64 KiB: ${file##*/}" [ "$small" = 0 ]
    done
else skip "B61 segments" "no readelf"; fi
if command -v python3 >/dev/null; then
    steps $moe >"$tmp/want"
    for gap in 32 4064 16416; do
        $rewrite $moe "$tmp/gap.gguf" --gap $gap
        for home in mapped stream paged; do
            steps "$tmp/gap.gguf" --home $home >"$tmp/got"
            ok "B61 tensors $gap bytes beside a page: $home" cmp "$tmp/want" "$tmp/got"
        done
    done
fi
# Room for a little more than what the plan takes is enough address space, too (B61): nothing is reserved for later.
if [ -z "$sanitized" ]; then
    (ulimit -v 262144; "$THIMBLE" run $scripted --raw -q --temp 0 A -n 5 --ram 10M >"$out" 2>"$err" </dev/null)
    ok "B61 256 MiB of address space are enough for 10 MiB" is_out BCDEF
fi
echo "1..$n_tests"
