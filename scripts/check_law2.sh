#!/bin/sh
# check_law2.sh [MODEL...]: the bits do not depend on where bytes lie. `thimble score --json --top all` must print the same
# steps, byte for byte, for every combination of budget (floor, twice the floor, unlimited), threads, batch, home, eviction and
# look-ahead. Without MODEL: the trained mixture of experts and a tiny dense model, as far as they are there.
cd "$(dirname "$0")/.." || exit 1
thimble="${THIMBLE:-build/thimble}"
passed=0 failed=0 skipped=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
ids=1,2,3,4,5,6,7,8,9,10,20,30,40,50,60,70,80,90,100,110,120,130,140,150,160,170,180,190,200,210,220,230,240,250,5,5,5,6,7

# steps NAME OPTIONS...: scores and keeps the hash of what is printed before the statistics.
steps() {
    out=$1
    shift
    "$thimble" score "$model" --tokens "$ids" --json --top all -c 256 -q "$@" >"$work/json" 2>"$work/err" || return 1
    sed 's/,* *"stats" *:.*//' "$work/json" | sha256sum >"$out"
}

one() {
    if ! steps "$work/this" "$@"; then
        failed=$((failed + 1))
        echo "FAILED $model $*: $(tail -n 1 "$work/err")"
    elif cmp -s "$work/base" "$work/this"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED $model $*: other bits"
    fi
}

[ $# -gt 0 ] || set -- ../shared/models/tale-moe-13m-Q8_0.gguf ../shared/vectors/logits/qwen3-q4_k_m/model.gguf
for model in "$@"; do
    if [ ! -e "$model" ]; then
        skipped=$((skipped + 1))
        echo "skipped: $model is not here"
        continue
    fi
    floor=$("$thimble" plan "$model" -c 256 -b 1 -t 2 --json | sed -n 's/.*"floor": *\([0-9]*\).*/\1/p')
    steps "$work/base" || { echo "FAILED $model: $(tail -n 1 "$work/err")"; failed=$((failed + 1)); continue; }
    for threads in 1 2; do
        for batch in 1 7 512; do
            one -t $threads -b $batch
            for home in resident mapped stream paged; do one -t $threads -b $batch --home $home; done
            [ "$batch" = 512 ] && fit="" || fit="-b $batch"
            for evict in auto lru lfu; do
                for look in on off auto; do
                    # shellcheck disable=SC2086
                    one -t $threads $fit --ram "$floor" --evict $evict --lookahead $look
                    # shellcheck disable=SC2086
                    one -t $threads $fit --ram $((2 * floor)) --evict $evict --lookahead $look
                done
            done
        done
    done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
