# keep.sh: what outlives a process: prompts in --cache-dir, talks by name (B39-B41), full disks (B54).
. tests/common/tap.sh
m=$scripted
dir=$tmp/cache
files() { ls -A "$1" 2>/dev/null | wc -l; }
long=$(printf 'ABCDEFGHIJKLMNOPQRSTUVWXYZ%.0s' 1 2 3 4)
json() { # KEY: its number in the last output
    sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$out" | head -n 1
}

try 0 run $m --raw --temp 0 -n 4 -p "$long" --json
ok "without --cache-dir nothing is kept" [ "$(json cached_tokens)" = 0 ]
all=$(json prompt_tokens)
answer=$(sed 's/"stats".*//' "$out")
try 0 run $m --raw --temp 0 -n 4 -p "$long" --json --cache-dir "$dir"
ok "the first time all is evaluated" [ "$(json prompt_tokens)" = "$all" ]
ok "and kept" [ "$(files "$dir")" -eq 1 ]
ok "for the owner alone" [ "$(find "$dir" -perm 0600 -name '*.snap' | wc -l)" -eq 1 ]
try 0 run $m --raw --temp 0 -n 4 -p "$long" --json --cache-dir "$dir"
ok "after a restart nothing is evaluated" [ "$(json prompt_tokens)" = 0 ]
ok "which cached_tokens says" [ "$(json cached_tokens)" = "$all" ]
ok "the answer is the same" [ "$(sed 's/"stats".*//' "$out")" = "$answer" ]
try 0 run $m --raw --temp 0 -n 4 -p "${long}ABC" --cache-dir "$dir"
ok "a longer prompt: the closing line tells" said "$all cached"
try 0 run $m --raw --temp 0 -n 4 -p "$long" --json --cache-dir "$dir" --cache-type f32
ok "another cache type is another model" [ "$(json cached_tokens)" = 0 ]
before=$(files "$dir")
: >"$dir/.thimble-part-1-1"
try_with "THIMBLE_CACHE_DIR=$dir" 0 run $m --raw --temp 0 -n 4 -p "$long" --json
ok "the variable serves as well" [ "$(json cached_tokens)" = "$all" ]
ok "what a crash left is removed" [ "$(files "$dir")" -eq "$before" ]
for f in "$dir"/*.snap; do printf x | dd of="$f" bs=1 seek=2000 conv=notrunc 2>/dev/null; done
try 0 run $m --raw --temp 0 -n 4 -p "$long" --json --cache-dir "$dir"
ok "damaged files are evaluated anew" [ "$(json prompt_tokens)" = "$all" ]
ok "and said to be removed" said "is removed"
ok "with the same answer" [ "$(sed 's/"stats".*//' "$out")" = "$answer" ]
try 0 run $m --raw --temp 0 -n 4 -p "$long" --json --cache-dir "$dir" --cache-size 1K
ok "a store that is too small keeps nothing new" [ "$(json prompt_tokens)" != "" ]
: >"$tmp/file"
try 0 run $m --raw --temp 0 -n 4 -p "$long" --cache-dir "$tmp/file"
ok "a folder that is none is said, and the run goes on" said "are not kept"
try 2 run $m --raw -p x --cache-size 1X --cache-dir "$dir"

# A disk that fills up: the run goes on, nothing is left behind.
rm -rf "$dir"
(ulimit -f 2; exec "$THIMBLE" run $m --raw --temp 0 -n 4 -p "$long" --cache-dir "$dir" >"$out" 2>"$err" </dev/null)
code=$?
ok "a limit on file sizes does not end the run" [ $code -eq 0 ]
ok "but is said" said "are not kept: .*writing failed"
ok "and leaves nothing behind" [ "$(files "$dir")" -eq 0 ]
mkdir -p "$tmp/small"
if mount -t tmpfs -o size=8k none "$tmp/small" 2>/dev/null; then
    try 0 run $m --raw --temp 0 -n 4 -p "$long" --cache-dir "$tmp/small/dir"
    ok "a full disk is said with what is needed and free" said "bytes are needed, .* are free"
    ok "and nothing is left on it" [ "$(files "$tmp/small/dir")" -eq 0 ]
    umount "$tmp/small"
else
    skip "a full disk is said with what is needed and free" "no mount"
fi

# Talks by name.
talks=$tmp/state/thimble
XDG_STATE_HOME=$tmp/state
export XDG_STATE_HOME
printf 'hello there\n/save one\n' | "$THIMBLE" chat $m --temp 0 -n 5 >"$out" 2>"$err"
code=$?
ok "/save: the talk ends well" [ $code -eq 0 ]
ok "and is there" [ "$(find "$talks" -name one.talk -perm 0600 | wc -l)" -eq 1 ]
tokens=$(sed -n 's/.*saved: \([0-9]*\) tokens.*/\1/p' "$err")
printf '/load one\nand on\n' | "$THIMBLE" chat $m --temp 0 -n 5 >"$out" 2>"$err"
ok "/load brings it back" said "loaded: $tokens tokens"
ok "and nothing of it is evaluated again" said "| $tokens cached |"
loaded=$(cat "$out")
printf 'hello there\nand on\n' | "$THIMBLE" chat $m --temp 0 -n 5 >"$out" 2>"$err"
ok "the next answer is that of the whole talk" [ "$(tail -n 1 "$out")" = "$loaded" ]
for name in ../x /etc/x . .. .hidden -x 'a b' 'a/b' "$(printf 'n%.0s' $(seq 65))" 'é' ''; do
    printf 'hello there\n/save %s\n/load %s\n' "$name" "$name" | "$THIMBLE" chat $m --temp 0 -n 2 >"$out" 2>"$err"
    ok "no name for a talk: '$name'" [ "$(grep -c 'takes one NAME' "$err")" -eq 2 ]
done
printf 'hello there\n/save a\0b\n' | "$THIMBLE" chat $m --temp 0 -n 2 >"$out" 2>"$err"
ok "nor one with a NUL inside" said "takes one NAME"
ok "nothing was written for them" [ "$(files "$talks")" -eq 1 ]
printf '/save two\n' | "$THIMBLE" chat $m --temp 0 >"$out" 2>"$err"
ok "nothing said, nothing saved" said "nothing to save"
printf '/load absent\nhello there\n' | "$THIMBLE" chat $m --temp 0 -n 3 >"$out" 2>"$err"
ok "a talk that is not there is said" said "not loaded: .*absent.talk"
ok "and the talk goes on" [ -s "$out" ]
printf '/load one\nhello there\n' | "$THIMBLE" chat $m --temp 0 -n 3 --cache-type f32 >"$out" 2>"$err"
ok "a talk under another cache type is refused" said "not loaded: .*cache of f16"
head -c 900 "$talks/one.talk" >"$talks/cut.talk"
printf '/load cut\nhello there\n' | "$THIMBLE" chat $m --temp 0 -n 3 >"$out" 2>"$err"
ok "one that was cut is refused" said "not loaded: .*damaged"
printf 'hello there\n/save three\n' | "$THIMBLE" chat $m --temp 0 -n 3 --cache-dir "$dir" >"$out" 2>"$err"
ok "with --cache-dir talks lie there" [ -f "$dir/three.talk" ]
echo old >"$talks/full.talk"
(ulimit -f 1; printf 'hello there\n/save full\nhello again\n' | "$THIMBLE" chat $m --temp 0 -n 3 >"$out" 2>"$err")
ok "a full disk is said" said "not saved: .*writing failed"
ok "the old one stays as it was" [ "$(cat "$talks/full.talk")" = old ]
ok "and the talk goes on" [ "$(wc -l <"$out")" -eq 2 ]
ok "nothing is left behind" [ "$(ls -A "$talks" | grep -c part)" -eq 0 ]
