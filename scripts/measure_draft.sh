#!/bin/sh
# measure_draft.sh MODEL [ROUNDS [TOKENS]]: what guessing ahead gains and costs where dense weights stream: decode speed of
# --draft auto over --draft off at a budget of half the file, greedy, for one repetitive prompt and ten fixed ordinary ones.
# Runs are interleaved, in turning order; a prompt's figure is the median of its rounds. For MTP heads, whose luck a
# synthetic model cannot show, guesses of a stated luck:
#   measure_draft.sh --mtp MODEL [ROUNDS [CHANCE]]
cd "$(dirname "$0")/.." || exit 1
thimble=${THIMBLE:-build/thimble}
if [ "$1" = --mtp ]; then
    exec build/tests/residency/test_draft --measure "$2" $(($(stat -c %s "$2") / 2)) mtp "${4:-0.8}" "${3:-3}"
fi
model=$1 rounds=${2:-5} tokens=${3:-48}
[ -f "$model" ] || { echo "usage: measure_draft.sh MODEL [ROUNDS [TOKENS]]"; exit 2; }
ram=$(($(stat -c %s "$model") / 2))
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

speed() { # off|auto: tokens per second of one run; says nothing if it failed
    "$thimble" run "$model" -p "$prompt" --ram "$ram" -c 512 -t 2 -n "$n" --temp 0 --ignore-eog --json --draft "$1" -q 2>/dev/null |
        sed -n 's/.*"prefill_tps":[^,]*,"decode_tps":\([0-9.e+-]*\).*/\1/p'
}
median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
measure() { # NAME
    : >"$work/off"
    : >"$work/auto"
    : >"$work/ratio"
    for round in $(seq "$rounds"); do
        if [ $((round % 2)) -eq 1 ]; then off=$(speed off) auto=$(speed auto); else auto=$(speed auto) off=$(speed off); fi
        echo "$off" >>"$work/off"
        echo "$auto" >>"$work/auto"
        echo "$off $auto" | awk '{ print $2 / $1 }' >>"$work/ratio"
    done
    printf '%-12s off %6.2f tok/s   auto %6.2f tok/s   median of %d ratios %.3f\n' "$1" "$(median <"$work/off")" \
        "$(median <"$work/auto")" "$rounds" "$(median <"$work/ratio")"
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
