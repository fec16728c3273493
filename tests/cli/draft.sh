# draft.sh: guessing ahead changes no answer: greedy and drawn, with stop texts, short limits and full contexts, wherever the
# weights lie; and what was guessed is said.
. tests/common/tap.sh

# same NAME RUN-ARGUMENTS...: --draft off, lookup and auto print the same ids and end for the same reason.
answer_of() { "$THIMBLE" run "$@" --json 2>"$err" | sed 's/,"stats":.*//'; }
same() {
    name=$1
    shift
    answer_of "$@" --draft off >"$tmp/want"
    for draft in lookup auto "lookup --draft-max 1" "lookup --draft-max 15"; do
        answer_of "$@" --draft $draft >"$tmp/got"
        [ -s "$tmp/got" ] && cmp -s "$tmp/want" "$tmp/got" && continue
        cp "$tmp/got" "$out"
        result 1 "$name: --draft $draft"
        return
    done
    result 0 "$name"
}

m=$scripted
alphabet=ABCDEFGHIJKLMNOPQRSTUVWXYZ
same "a byte that repeats itself" $m aaa --raw --temp 0 -n 100
for n in 1 2 3 7 9 10 11; do same "limit of $n" $m aaa --raw --temp 0 -n $n; done
same "full context" $m aaa --raw --temp 0 -c 40
same "draws" $m aaa --raw --temp 40 --top-k 0 --top-p 1 --min-p 0 --seed 7 -n 150
same "draws with a penalty" $m aaa --raw --temp 5 --repeat-penalty 1.5 --repeat-last-n 8 --seed 7 -n 150
same "an answer that was in the question" $m "$alphabet" --temp 0
same "its end was there, too" $m "<|im_end|>$alphabet<|im_end|>
" --raw --special on --temp 0
same "going on past the end" $m "<|im_end|>$alphabet<|im_end|>
" --raw --special on --temp 0 --ignore-eog -n 200
same "a stop text within a run" $m "$alphabet
" --raw --temp 0 --stop HIJ

try 0 run $m aaa --raw --temp 0 -n 100 --draft lookup
ok "the closing line tells" said '[0-9]* tokens .*drafts [0-9]* of [0-9]* accepted in [0-9]* passes'
try 0 run $m aaa --raw --temp 0 -n 100 --draft lookup --json
ok "so does the JSON" printed '"draft":{"mode":"lookup","passes":[1-9][0-9]*,"drafted":[1-9][0-9]*,"accepted":[1-9]'
ok "a pass gave nine tokens" [ "$(sed -n 's/.*"accepted_per_pass":\([0-9]*\).*/\1/p' "$out")" -ge 7 ]
try 0 run $m aaa --raw --temp 0 -n 100 --json
ok "in memory nothing is guessed without being asked for" printed '"draft":{"mode":"off","passes":0'
try 0 run $m aaa --raw --temp 0 -n 100 --home stream --json
ok "where weights stream it is" printed '"draft":{"mode":"auto","passes":[1-9]'
try 0 bench $m -n 20 -p 0 -r 1 --draft lookup
try 2 run $m aaa --draft maybe
try 2 run $m aaa --draft-max 0
try 2 run $m aaa --draft-max 16

# The talk goes on from where it was, also if an answer was stopped within a run.
for draft in off lookup; do
    printf 'one\ntwo\n\nthree\n' | "$THIMBLE" chat $m --temp 0 --stop KLM --draft $draft >"$tmp/chat_$draft" 2>"$err"
done
ok "the same talk" cmp "$tmp/chat_off" "$tmp/chat_lookup"
ok "with answers in it" grep -q ABCDEFGHIJ "$tmp/chat_off"

# What guessing needs is a part of the plan, and no reason to refuse anybody who did not ask for it.
floor_of() { "$THIMBLE" plan "$@" --json 2>"$err" | sed -n 's/^{"floor":\([0-9]*\),.*/\1/p'; }
ok "auto has the floor of off" [ "$(floor_of $m)" -eq "$(floor_of $m --draft off)" ]
ok "lookup needs more" [ "$(floor_of $m --draft lookup)" -gt "$(floor_of $m)" ]
same "at the floor" $m aaa --raw --temp 0 -c 300 -n 100 --ram "$(floor_of $m --draft lookup --draft-max 15 -c 300)"

for set in llama-q4_k_m qwen3moe-q4_k_m qwen35-q4_k_m bailingmoe2-f32; do
    m=$shared/vectors/logits/$set/model.gguf
    if [ ! -f "$m" ]; then
        skip "the same answers: $set" "it is not there"
        continue
    fi
    floor=$(floor_of $m --draft lookup --draft-max 15 -c 128)
    for where in "--ram $floor" "--ram $((floor * 3 / 2))" "--home resident" "--home stream"; do
        same "$set $where" $m "a b a b a b" --raw -c 128 -n 60 --temp 0 $where
        same "$set $where, drawn" $m "a b a b a b" --raw -c 128 -n 60 --temp 0.7 --seed 3 $where
    done
done

# The model's own heads.
try 3 run $scripted aaa --draft mtp
ok "a file without a head is named as such" said "no MTP head"
for set in qwen35-q4_k_m-mtp qwen35moe-q4_k_m-mtp-fused; do
    m=$shared/vectors/logits/$set/model.gguf
    if [ ! -f "$m" ]; then
        skip "the same answers: $set" "it is not there"
        continue
    fi
    floor=$(floor_of $m --draft mtp -c 128)
    for where in "--ram $floor" "--ram $((floor * 5 / 4))" "--home resident" "--home stream"; do
        for draft in off mtp auto "mtp --draft-max 1"; do
            answer_of $m "a b a b a b" --raw -c 128 -n 60 --temp 0.7 --seed 3 $where --draft $draft >"$tmp/got"
            [ "$draft" = off ] && cp "$tmp/got" "$tmp/want" && continue
            ok "$set $where --draft $draft" cmp "$tmp/want" "$tmp/got"
        done
    done
    try 0 run $m "a b a b" --raw -c 128 -n 30 --temp 0 --draft mtp --json
    ok "the head was asked" printed '"draft":{"mode":"mtp","passes":[1-9]'
    ok "auto has the floor of off" [ "$(floor_of $m)" -eq "$(floor_of $m --draft off)" ]
done
