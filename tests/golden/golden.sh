#!/bin/sh
# golden.sh: architectures against the shared expected log-probabilities, where those are; and a file as the converter of
# stories260K wrote it: no pre-tokeniser, no base of rotation, 0xFFFFFFFF for tokens that are missing.
. tests/common/tap.sh
m=tests/golden/stories.gguf

if [ -d "$shared/vectors/arch-logits" ] && [ -x "$BUILD/tests/vectors" ]; then
    "$BUILD/tests/vectors" arch-logits "$shared/vectors/arch-logits" -v >"$out" 2>"$err"
    code=$?
    result $code "architectures against another engine"
else
    skip "architectures against another engine" "no $shared/vectors/arch-logits"
fi
try 0 tokenize $m "Once a time"
ok "BOS and pieces with their blanks" is_out "1 267 269 276"
try 0 run $m -p "Once a time" --predict 8 --temp 0
try 0 info $m --json
ok "the missing tokens are none" printed '"bos":1,"eos":2'
