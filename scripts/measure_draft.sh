#!/bin/sh
# measure_draft.sh MODEL [ROUNDS [TOKENS [HOW]]]: what guessing ahead gains and costs where dense weights stream: decode of
# --draft HOW (auto) against --draft off at a budget of half the file, greedy, for one repetitive prompt and ten fixed ordinary
# ones. Runs are interleaved, in turning order; a prompt's figure is the median of its rounds' ratios. Beside the clock, which a
# busy machine bends, stands what was counted and does not depend on it: bytes read per token over those of off, rows of passes
# that proved a wrong guess per token, and the share of all weight bytes used that making guesses took. For MTP heads, whose
# luck a synthetic model cannot show, guesses of a stated luck:
#   measure_draft.sh --mtp MODEL [ROUNDS [CHANCE [auto|mtp]]]
cd "$(dirname "$0")/.." || exit 1
thimble=${THIMBLE:-build/thimble}
if [ "$1" = --mtp ]; then
    exec build/tests/residency/test_draft --measure "$2" $(($(stat -c %s "$2") / 2)) "${5:-mtp}" "${4:-0.8}" "${3:-3}"
fi
model=$1 rounds=${2:-5} tokens=${3:-48} how=${4:-auto}
[ -f "$model" ] || { echo "usage: measure_draft.sh MODEL [ROUNDS [TOKENS [HOW]]]"; exit 2; }
ram=$(($(stat -c %s "$model") / 2))
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# off|HOW: a line of figures of one run: tok/s, bytes read per token, wasted rows, share of the head. Nothing if it failed.
figures() {
    "$thimble" run "$model" -p "$prompt" --ram "$ram" -c 512 -t 2 -n "$n" --temp 0 --ignore-eog --json --draft "$1" -q \
        >"$work/json" 2>/dev/null || return
    figure() { sed -n 's/.*"'"$1"'":\([0-9.e+-]*\).*/\1/p' "$work/json"; }
    echo "$(figure 'prefill_tps":[^,]*,"decode_tps') $(figure bytes_per_token) $(figure wasted_rows) $(figure head_share)"
}
median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
measure() { # NAME
    : >"$work/rounds"
    for round in $(seq "$rounds"); do
        if [ $((round % 2)) -eq 1 ]; then off=$(figures off) on=$(figures "$how"); else on=$(figures "$how") off=$(figures off); fi
        echo "$off $on" >>"$work/rounds"
    done
    column() { awk "{ print $1 }" "$work/rounds" | median; }
    printf '%-12s off %6.2f tok/s  %s %6.2f tok/s  median of %d ratios %.3f | bytes read x%.4f, wasted rows %.3f, head %.4f\n' \
        "$1" "$(column '$1')" "$how" "$(column '$5')" "$rounds" "$(column '$5 / $1')" \
        "$(column '($2 > 0 ? $6 / $2 : 1)')" "$(column "\$7 / $n")" "$(column '$8')"
}

n=$((2 * tokens)) prompt="Repeat after me, line by line, without end: The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy dog."
measure repetitive
n=$tokens i=0
while read -r prompt; do
    i=$((i + 1))
    measure "ordinary $i" </dev/null
done <<'PROMPTS'
Why is the sky blue?
Write a short letter to a friend who moved to another city.
How does a refrigerator keep food cold?
Tell me a story about a lighthouse keeper and a whale.
What should I think about before I buy a used bicycle?
Explain to a child how rain is made.
Give me a recipe for a simple vegetable soup.
What are the arguments for and against working at night?
Describe the smell of a library.
How do I politely decline an invitation?
PROMPTS
