# law2.sh: bits do not depend on where bytes lie. `score --json --top all` prints the same steps, byte for byte, for every
# budget, thread count, batch, home and paging policy, on a dense model and on mixtures of experts.
#   law2.sh [MODEL...]   LAW2=full crosses all of them: minutes a model
. tests/common/tap.sh

steps() { "$THIMBLE" score "$model" --tokens "$ids" --json --top all -q $how 2>"$err" | sed 's/,"stats":.*//'; }
compare() { # OPTIONS: one combination against the plain run
    how=$1
    steps >"$tmp/got"
    n_runs=$((n_runs + 1))
    [ -s "$tmp/got" ] && cmp -s "$tmp/want" "$tmp/got" && return
    n_bad=$((n_bad + 1))
    echo "# differs with: $how ($(head -c 300 "$err"))"
}
floor_of() { "$THIMBLE" plan "$model" --home "$1" --json 2>"$err" | sed -n 's/^{"floor":\([0-9]*\),.*/\1/p'; }
budgets() { echo "--ram=$floor --ram=$((2 * floor)) -q"; }

cross() {
    for ram in $(budgets); do
        for threads in 1 2; do
            for batch in 1 7 512; do
                if [ "$LAW2" = full ]; then
                    for home in auto resident mapped stream paged; do
                        [ $home != mapped ] || [ "${ram#--ram}" = "$ram" ] || continue
                        [ "${ram#--ram}" = "$ram" ] || [ "${ram#--ram=}" -ge "$(floor_of $home)" ] || continue
                        for evict in auto lru lfu; do
                            for ahead in auto on off; do
                                compare "$ram -t $threads -b $batch --home $home --evict $evict --lookahead $ahead"
                            done
                        done
                    done
                else
                    compare "$ram -t $threads -b $batch"
                fi
            done
        done
    done
}
policies() {
    for home in resident mapped stream paged; do
        for batch in 1 7 512; do compare "--home $home -b $batch -t 2"; done
        compare "--home $home -t 1"
    done
    for evict in lru lfu; do
        for ahead in on off; do
            compare "--ram $(floor_of paged) --home paged --evict $evict --lookahead $ahead"
            compare "--ram $(floor_of paged) --home paged --evict $evict --lookahead $ahead -b 1 -t 1"
        done
    done
    compare "--ram $(floor_of stream) --home stream"
}

[ $# -gt 0 ] || set -- $scripted $shared/vectors/logits/llama-q4_k_m/model.gguf $shared/vectors/logits/qwen3moe-q4_k_m/model.gguf \
    $shared/vectors/logits/bailingmoe2-f32/model.gguf
for model in "$@"; do
    if [ ! -f "$model" ]; then
        skip "the same bits: $model" "it is not there"
        continue
    fi
    n_runs=0 n_bad=0
    vocabulary=$("$THIMBLE" score "$model" --tokens 0 --json -q 2>"$err" | sed -n 's/^{"n_vocab":\([0-9]*\).*/\1/p')
    ids=$(seq 3 2 90 | awk -v n="${vocabulary:-1}" '{ printf "%s%d", (NR > 1 ? "," : ""), $1 % n }')
    floor=$(floor_of auto)
    how="-b 1 -t 1"
    steps >"$tmp/want"
    ok "a step a token: $model" [ "$(tr '{' '\n' <"$tmp/want" | grep -c '"pos":')" -eq 44 ]
    [ -s "$tmp/want" ] || continue
    cross
    policies
    ok "the same bits in $n_runs combinations: $model" [ "$n_bad" -eq 0 ]
done
