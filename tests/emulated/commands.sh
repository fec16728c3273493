# commands.sh: the program itself as another processor (RUN_UNDER, of the Makefile: an emulator and its machine) runs it:
# known answers, the same bits as this machine's own program (NATIVE) gives, and the shared vectors of blocks and logits.
. tests/common/tap.sh
program=$THIMBLE NATIVE=${NATIVE:-build/thimble}
printf '#!/bin/sh\nexec %s %s "$@"\n' "$RUN_UNDER" "$program" >"$tmp/thimble"
chmod +x "$tmp/thimble"
THIMBLE=$tmp/thimble

try 0 version
try 0 run $scripted --raw -q --temp 0 A -n 5
ok "a known answer" is_out BCDEF
try 0 run $scripted --raw -q --temp 0 A -n 5 --json
ok "instruction sets it found: $(sed -n 's/.*"isa":"\([^"]*\)".*/\1/p' "$out")" printed '"isa":"[a-z0-9,]*"'

same() { [ -s "$tmp/want" ] && cmp -s "$tmp/want" "$out"; }
# Sums are formed in one order everywhere and FMA is spelled as such, so bits agree across instruction sets too.
scores() { "$1" score "$model" --tokens 3,9,27,30,2,17,11,5,8,40,21,33 --json --top all -q 2>>"$err" | sed 's/,"stats":.*//'; }
if [ -x "$NATIVE" ]; then
    for model in tests/golden/*.gguf; do
        scores "$NATIVE" >"$tmp/want"
        scores "$THIMBLE" >"$out"
        ok "bits as here: $model" same
    done
    for how in "" "--seed 5 --temp 0.9"; do
        "$NATIVE" run tests/golden/stories.gguf -p "Once a time" -n 12 --seed 3 -q $how >"$tmp/want" 2>/dev/null
        "$THIMBLE" run tests/golden/stories.gguf -p "Once a time" -n 12 --seed 3 -q $how >"$out" 2>"$err"
        ok "text as here $how" same
    done
else
    skip "bits as here" "no $NATIVE of this machine"
fi

# Kernels with larger pages (B61): phones and servers have 16 and 64 KiB.
case $RUN_UNDER in
*qemu-aarch64*)
    model=tests/golden/qwen3moe.gguf
    scores "$THIMBLE" >"$tmp/want"
    for page in 16384 65536; do
        printf '#!/bin/sh\nexec %s -p %s %s "$@"\n' "$RUN_UNDER" $page "$program" >"$tmp/paged"
        chmod +x "$tmp/paged"
        for home in resident mapped stream paged; do
            THIMBLE_HOME=$home scores "$tmp/paged" >"$out"
            ok "B61 pages of $page bytes, $home" same
        done
    done ;;
esac

vectors=${BUILD:-build}/tests/vectors
if [ -d "$shared/vectors/quants" ] && [ -x "$vectors" ]; then
    # All blocks; of the logits one case of each kind of layer, and of each family of blocks (VECTORS="..." for others).
    for set in quants ${VECTORS:-llama-q4_k_m llama-tq2_0 qwen3-iq4_nl qwen35-q8_0 qwen35moe-q2_k_exps qwen3moe-q4_k_m \
        bailingmoe2-q8_0-groups}; do
        case $set in quants) kind=quants at=$shared/vectors/quants ;; *) kind=logits at=$tmp/$set ;; esac
        [ $kind = quants ] || { mkdir "$at" && ln -s "$(cd "$shared" && pwd)/vectors/logits/$set" "$at/$set"; }
        $RUN_UNDER "$vectors" $kind "$at" -v >"$out" 2>"$err"
        code=$?
        result $code "vectors: $set"
    done
else
    skip "vectors under an emulator" "no $shared/vectors here"
fi
