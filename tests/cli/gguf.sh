#!/bin/sh
# gguf.sh: files that are damaged, hostile or something else: every command that opens one refuses it with exit 3 and one
# sentence on standard error, and writes nothing to standard output (faults B01-B05, B11).
thimble=${THIMBLE:-build/thimble}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
n=0
check() { # name, then a command that decides
    n=$((n + 1))
    name=$1
    shift
    if "$@"; then echo "ok $n - $name"; else echo "not ok $n - $name"; fi
}
refused() { # file: by all commands alike
    file=$1
    for command in info plan "tokenize -p x" "run -p x -n 1" "score --tokens 1,2"; do
        # shellcheck disable=SC2086
        set -- $command
        word=$1
        shift
        "$thimble" "$word" "$file" "$@" >"$dir/out" 2>"$dir/err" </dev/null
        code=$?
        if [ "$code" -ne 3 ] || [ -s "$dir/out" ] || [ "$(grep -c . "$dir/err")" -ne 1 ]; then
            echo "# thimble $word: exit $code: $(head -n 2 "$dir/err")"
            return 1
        fi
    done
}
says() { # file, words of the sentence
    "$thimble" info "$1" 2>&1 | grep -q "$2"
}

for bad in tests/fuzz/corpus/gguf/bad_*; do
    cp "$bad" "$dir/x.gguf"
    check "${bad##*/} is refused" refused "$dir/x.gguf"
done
# A key that the model's mathematics refuses: the file is named here, too.
LC_ALL=C sed 's/block_count/block_c0unt/' tests/golden/qwen3.gguf >"$dir/keyless.gguf"
for command in plan "score --tokens 1"; do
    set -- $command
    word=$1
    shift
    "$thimble" "$word" "$dir/keyless.gguf" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    check "$word names the file and the key" grep -q "^thimble: keyless.gguf: .*block_count" "$dir/err"
done
good=tests/fuzz/corpus/gguf/valid_v2
head -c 481 "$good" >"$dir/short.gguf"
check "a file one byte short is refused" refused "$dir/short.gguf"
check "and says so" says "$dir/short.gguf" "1 bytes short"
head -c 24 "$good" >"$dir/header.gguf"
check "a lone header is refused" refused "$dir/header.gguf"
: >"$dir/empty.gguf"
check "an empty file is refused" refused "$dir/empty.gguf"
check "and says so" says "$dir/empty.gguf" "0 bytes"
echo '<!DOCTYPE html><html></html>' >"$dir/page.gguf"
check "a web page is refused" refused "$dir/page.gguf"
check "and says so" says "$dir/page.gguf" "web page"
echo 'version https://git-lfs.github.com/spec/v1' >"$dir/lfs.gguf"
check "a Git-LFS pointer is refused" refused "$dir/lfs.gguf"
check "and says so" says "$dir/lfs.gguf" "git lfs pull"
cat "$good" "$good" >"$dir/joined.gguf"
check "joined files are refused" refused "$dir/joined.gguf"
check "and say so" says "$dir/joined.gguf" "joined with cat"
echo "1..$n"
