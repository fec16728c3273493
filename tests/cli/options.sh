# options.sh: one table, four sources: flags, environment, file, help; and what they refuse.
. tests/common/tap.sh
m=$scripted

try 0
ok "a bare call shows four examples" [ "$(grep -c '^  thimble ' "$out")" -eq 4 ]
ok "and what this machine holds" printed 'This machine: .* free'
try 0 version
ok "version is one line" [ "$(cat "$out")" = "thimble $(sed -n 's/.*THIMBLE_VERSION_MAJOR //p' include/thimble/thimble.h).$(sed -n 's/.*THIMBLE_VERSION_MINOR //p' include/thimble/thimble.h).$(sed -n 's/.*THIMBLE_VERSION_PATCH //p' include/thimble/thimble.h)" ]
try 0 --version
try 0 help
for verb in run chat info plan score tokenize detokenize bench version help; do
    try 0 help $verb
    try 0 $verb --help
done
try 2 help nothing
for verb in serve quantize rewrite probe trace verify pull; do
    try 2 $verb $m
    ok "$verb says it is not there yet" said "not in this version"
done
try 2 frobnicate
ok "a usage error prints nothing on standard output" quiet_stdout
try 2 run "" hi
ok "an empty name is no model of the cache" said "MODEL is empty"
# --json: one object, also of a failure that came before there was anything to tell.
for verb in "run -p hi" info plan "score -p hi" "tokenize -p hi"; do
    try 5 $verb /nowhere/model.gguf --json
    ok "$verb --json tells its failure as JSON" printed '^{"error":"/nowhere/model.gguf: .*","exit":5}$'
done
try 2 run $m hi --json --temp hot
ok "and a usage error" printed '^{"error":"--temp: .*","exit":2}$'
try 2 run $m hi --temp hot --json
ok "wherever --json stands" printed '^{"error":"--temp: .*","exit":2}$'

# Every option of the help exists, is a variable and a key; its help needs no model.
"$THIMBLE" help run | sed -n 's/^ .*--\([a-z-]*\).*/\1/p' >"$tmp/names"
ok "help run lists options" [ "$(wc -l <"$tmp/names")" -ge 25 ]
mkdir -p "$XDG_CONFIG_HOME/thimble"
ini=$XDG_CONFIG_HOME/thimble/thimble.ini

try 2 run
try 2 run $m hi --frobnicate
ok "the option is named" said "frobnicate"
try 2 run $m hi -p also
try 2 run $m one two
try 2 run $m hi --cold
ok "and the command it belongs to" said "bench"
try 2 run $m hi --temp
for bad in nan NaN -1 1e400 inf abc "" " 1" 1x; do
    try 2 run $m hi --temp "$bad"
    try 2 run $m hi --top-p "$bad"
    try 2 run $m hi --min-p "$bad"
    try 2 run $m hi --repeat-penalty "$bad"
done
for bad in -1 1.5 99999999999 x ""; do
    try 2 run $m hi --top-k "$bad"
    try 2 run $m hi -n "$bad"
    try 2 run $m hi -c "$bad"
    try 2 run $m hi -t "$bad"
    try 2 run $m hi --repeat-last-n "$bad"
done
try 2 run $m hi --top-p 1.5
try 2 run $m hi -c 0
try 2 run $m hi --seed -1
try 2 run $m hi --seed 99999999999999999999
for bad in 0 -1 8X G 1e99G 8G8 ""; do try 2 run $m hi --ram "$bad"; done
try 2 run $m hi --home nowhere
try 2 run $m hi --isa nonsense
try 2 run $m hi --stop ""
try 2 run $m hi --json=maybe

try 2 run $m hi --state-type q8_0
try 0 run $m --raw -q x -n 1 --state-type f16

# Option beats environment beats file.
printf 'predict = 3\ntemp=0\n' >"$ini"
try 0 run $m --raw -q x
ok "the file sets an option" is_out xxx
try_with "THIMBLE_PREDICT=2" 0 run $m --raw -q x
ok "the environment beats the file" is_out xx
try_with "THIMBLE_PREDICT=2" 0 run $m --raw -q x -n 1
ok "the command line beats both" is_out x
printf 'cache_type = f32\ncache-type = q9\n' >"$ini"
try 2 plan $m
ok "a bad value in the file is named" said "thimble.ini: cache-type"
printf 'help = 1\n' >"$ini"
try 2 run $m x
ok "help is no setting" said "thimble.ini: help: no such option"
printf 'no-such-key = 1\n' >"$ini"
try 2 plan $m
ok "an unknown key is an error" said "no-such-key"
try 0 version
try 0 help plan
printf '[section]\npredict = 1\n' >"$ini"
try 2 plan $m
printf 'this is no line\n' >"$ini"
try 2 plan $m
{ printf 'temp = 0\nsystem = %0500d' 0; printf ' # \n'; } >"$ini"
try 2 plan $m
ok "a line that is too long is named, not cut" said "thimble.ini: line 2 is too long"
printf 'temp = 0\r\npredict = 2' >"$ini"
try 0 run $m --raw -q x
ok "lines may end as elsewhere, or not at all" is_out xx
: >"$ini"
try_with "THIMBLE_TEMP=warm" 2 run $m x
ok "a bad variable is named" said "THIMBLE_TEMP"
try_with "THIMBLE_NO_SUCH_THING=1" 0 plan $m
ok "an unknown variable is said" said "THIMBLE_NO_SUCH_THING"
try_with "THIMBLE_RAW=on THIMBLE_QUIET=1" 0 run $m x -n 2 --temp 0
ok "flags work as variables" is_out xx
