# perplexity.sh: figures that can be computed another way, bases that may come from anywhere, loops that are known.
. tests/common/tap.sh
m=$scripted stories=tests/golden/stories.gguf

field() { sed -n "s/.*\"$1\":\([-+.e0-9a-z]*\).*/\1/p" "$out"; } # the first of this name is not after "stats"
near() { # A B: within 1e-5 of B, or of 1 if that is more
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; t = 1e-5 * (b > 1 ? b : b < -1 ? -b : 1); exit !(a != "" && b != "" && d <= t && d >= -t) }'
}
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a < b) }'; }

# A model that says what it is told: every letter of the row is certain, the jump to x is as unlikely as score says.
try 0 perplexity $m -p ABCDEFGHIJKLMNOPQRSTUVWXYZ --json -q
ok "a text the model knows by heart has perplexity 1" near "$(field perplexity)" 1
ok "and needs no bits" near "$(field bits_per_byte)" 0
ok "all but the first token are counted" [ "$(field counted)" = 25 ]
"$THIMBLE" score $m -p ABCDxxxx1y -q | awk 'NR > 1 { n++; sum += $NF } END { printf "%.9g %.9g", -sum / n / log(2), exp(-sum / n) }' >"$tmp/want"
try 0 perplexity $m -p ABCDxxxx1y --json -q
ok "bits per byte are those of score" near "$(field bits_per_byte)" "$(cut -d' ' -f1 "$tmp/want")"
ok "perplexity is that of score" near "$(field perplexity)" "$(cut -d' ' -f2 "$tmp/want")"
try 0 perplexity $m -p é --json -q
ok "a character of two bytes counts two bytes less the first, which nothing predicts" [ "$(field bytes)" = 1 ]

# Windows, each with BOS: what they count, computed from single runs of score.
text="Once upon a time, there was a little girl named Lily. She loved to play outside in the park with her friend Tom."
windows() { # SIZE STRIDE: sum of ln p and number of counted tokens
    ids=$("$THIMBLE" tokenize $stories --bos off -p "$text" -q)
    n=$(echo "$ids" | wc -w) body=$(($1 - 1)) first=0 covered=0
    while :; do
        end=$((first + body))
        [ $end -gt "$n" ] && end=$n
        from=$((first + $1 / 2 - 1))
        [ $covered -gt $from ] && from=$covered
        [ $first -eq 0 ] && from=0
        part=$(echo "$ids" | cut -d' ' -f$((first + 1))-$end | tr ' ' ,)
        "$THIMBLE" score $stories --tokens "1,$part" -q | awk -v skip=$((from - first + 1)) 'NR > skip { print $NF }'
        [ $end -eq "$n" ] && break
        covered=$end first=$((first + $2))
    done | awk '{ n++; sum += $1 } END { printf "%d %.9g", n, exp(-sum / n) }'
}
for sizes in "16 8" "32 16" "16 5" "20 19" "256 128"; do
    windows $sizes >"$tmp/want"
    set -- $sizes
    try 0 perplexity $stories -p "$text" --json -q -c "$1" --stride "$2"
    ok "windows of $1 every $2 count what they should" [ "$(field counted)" = "$(cut -d' ' -f1 "$tmp/want")" ]
    ok "windows of $1 every $2 have the perplexity of their parts" near "$(field perplexity)" "$(cut -d' ' -f2 "$tmp/want")"
done
ok "BOS is in front where the file says so" printed '"bos":true'
try 0 perplexity $stories -p "$text" --json -q -c 16
cp "$out" "$tmp/base"
try 0 perplexity $stories -p "$text" --json -q -c 16 -b 1 -t 1 --ram 8M
ok "neither budget nor batch changes a digit" [ "$(sed 's/"stats.*//' "$out")" = "$(sed 's/"stats.*//' "$tmp/base")" ]
case ${BUILD:-build} in *san*) skip "inside the budget" "a sanitizer's shadow memory is not ours to count" ;;
*) ok "inside the budget" below "$(field peak_rss)" "$((8 << 20))" ;; esac
try 0 perplexity $stories -p "$text"
ok "lines for people" printed "bits per byte .*+-"
ok "the closing line is on standard error" said "tok/s.*peak"
try 0 perplexity $stories -c 5000 -p "$text"
ok "windows longer than the model's are lowered, said" said "lowered to the model's"

# What leaves nothing to measure.
try 2 perplexity $m
try 2 perplexity $m -p A
try 2 perplexity $m -p ABC -c 1
try 2 perplexity $m -p ABCDEFGH -c 4 --stride 5
try 2 perplexity $m -p ABC --stride 0
try 5 perplexity $m -f "$tmp/absent"
try 3 perplexity tests/golden/qwen3.gguf -p ABC
try 4 perplexity $m -p ABCDEF --ram 2M
ok "both numbers are said" said "below the floor of"

# A base: written once, then compared with.
base=$tmp/base.kl
try 0 perplexity $stories -p "$text" -c 16 --kl-base "$base" --json --cache-type f32
ok "it is said where the rows went" said "rows written to .*base.kl"
ok "a run that writes compares nothing" printed '"kl":null'
ok "no temporary file stays" [ "$(ls "$tmp" | grep -c 'base.kl')" -eq 1 ]
cp "$base" "$tmp/kept"
try 0 perplexity $stories -p "$text" -c 16 --kl-base "$base" --json --cache-type f32
ok "a base is never overwritten" cmp "$base" "$tmp/kept"
ok "a model diverges from itself by its base's rounding only" below "$(field mean)" 1e-6
ok "at most" below "$(field max)" 1e-6
ok "and agrees with itself on every token" [ "$(field same_top)" = 1 ]
ok "and on every ln p" [ "$(field logprob_difference)" = 0 ]
try 0 perplexity $stories -p "$text" -c 16 --kl-base "$base" --json --cache-type q8_0
ok "a coarser cache diverges" below 1e-6 "$(field mean)"
ok "but not by much" below "$(field mean)" 1e-2
ok "the largest is above the mean" below "$(field mean)" "$(field max)"
try 0 perplexity $stories -p "$text" -c 16 --kl-base "$base"
ok "lines for people name the divergence" printed "KL from base .*median.*99 %"

# Bases of something else, damaged ones: a sentence each.
refused() { # NAME SENTENCE ARGS...
    name=$1 sentence=$2
    shift 2
    try 1 perplexity "$@" -q
    ok "$name is refused with a sentence" said "$sentence"
    ok "$name prints no figures" quiet_stdout
}
refused "a base of another text" "another text" $stories -p "$text And more." -c 16 --kl-base "$base"
refused "a base of another window" "windows of 16 tokens every 8" $stories -p "$text" -c 18 --kl-base "$base"
refused "a base of another stride" "give -c and --stride" $stories -p "$text" -c 16 --stride 4 --kl-base "$base"
refused "a base of another vocabulary" "vocabulary of" $m -p "$text" -c 16 --kl-base "$base"
damaged() { # NAME SENTENCE: of $tmp/damaged
    refused "$1" "$2" $stories -p "$text" -c 16 --kl-base "$tmp/damaged"
}
size=$(wc -c <"$base")
poke() { # OFFSET OCTAL...
    cp "$base" "$tmp/damaged"
    printf "$2" | dd of="$tmp/damaged" bs=1 seek="$1" conv=notrunc 2>/dev/null
}
: >"$tmp/damaged" && damaged "an empty file" "no file of base"
head -c 40 "$base" >"$tmp/damaged" && damaged "half a header" "no file of base"
head -c $((size - 1)) "$base" >"$tmp/damaged" && damaged "a file that is too short" "damaged: $((size - 1)) bytes"
{ cat "$base"; echo; } >"$tmp/damaged" && damaged "a file that is too long" "damaged: $((size + 1)) bytes"
poke 0 XX && damaged "a file of another kind" "no file of base"
poke 8 '\377' && damaged "a later version" "version 255"
poke 12 '\377\377\377\377' && damaged "a lying vocabulary" "vocabulary of 4294967295"
poke 32 '\377\377\377\377\377\377\377\177' && damaged "a lying number of rows" "damaged"
poke 200 '\377\377' && damaged "a changed row" "row 0 is damaged"
poke $((size - 2)) '\001\002' && damaged "a changed last row" "is damaged"
try 1 perplexity $stories -p "$text" -c 16 --kl-base "$tmp" -q
ok "a folder is no base" said "not a regular file\|irectory"
try 5 perplexity $stories -p "$text" -c 16 --kl-base "$tmp/absent/base" -q
ok "a folder that is not there" said "absent/base"
(ulimit -f 8 && exec "$THIMBLE" perplexity $stories -p "$text" -c 16 --kl-base "$tmp/full.kl" -q) >"$out" 2>"$err"
code=$?
ok "a full disk is exit 5" [ $code -eq 5 ]
ok "and leaves nothing behind" [ "$(ls "$tmp" | grep -c full)" -eq 0 ]

# Lossy options of a mixture of experts (a trained one).
moe=$shared/models/tale-moe-13m-Q8_0.gguf
if [ -f $moe ]; then
    try 0 perplexity $moe -p "$text" -c 64 --kl-base "$tmp/moe.kl" -q
    try 0 perplexity $moe -p "$text" -c 64 --kl-base "$tmp/moe.kl" -q --json
    ok "experts: no divergence without a lossy option" below "$(field mean)" 1e-6
    try 0 perplexity $moe -p "$text" -c 64 --kl-base "$tmp/moe.kl" --json --experts 2
    ok "fewer experts diverge" below 1e-3 "$(field mean)"
    ok "and are named lossy" said "lossy: --experts 2"
else
    skip "fewer experts diverge" "no trained mixture of experts here"
fi

# Loops: after 1 the scripted model says a dragon and ends, after a letter the row's end, any other byte for ever.
try 0 perplexity $m -p "$(printf '%032dx' 0)" --loops 1 --temp 0 -n 100 --json -q
ok "a byte for ever is a loop" printed '"loops":{"answers":1,"looping":1,"share":1,"periods":\[1\],"ended":0,"tokens":100'
try 0 perplexity $m -p "$(printf '%032dx' 0)" --loops 1 --temp 0 -n 47 --json -q
ok "but not within 47 tokens" printed '"answers":1,"looping":0,"share":0,"periods":\[\]'
try 0 perplexity $m -p "$(printf '%031dA' 0)" --loops 3 --temp 0 --json -q
ok "answers that end do not loop" printed '"answers":3,"looping":0,"share":0,"periods":\[\],"ended":3'
half=$(printf '%0300d' 0)ABCDEFGHIJ
try 0 perplexity $m -p "$half" --loops 2 --temp 0 -n 64 --json -q
ok "pieces come from all over the text" printed '"answers":2,"looping":2,"share":1,"periods":\[1,1\]'
try 0 perplexity $m -p xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx --loops 2 -n 64
ok "loops for people" printed "2 of 2 answers (100 %) end in repetition; periods 1, 1"
ok "the seed is printed" said "seed [0-9]"
for i in 1 2; do
    "$THIMBLE" perplexity $stories -p "$text" --loops 3 --seed 5 -n 40 --json -q | sed 's/,"stats.*//' >"$tmp/loops$i"
done
ok "a seed repeats its answers" cmp "$tmp/loops1" "$tmp/loops2"
try 0 help perplexity
ok "the help names its options" printed "--kl-base FILE"
