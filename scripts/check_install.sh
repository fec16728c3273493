#!/bin/sh
# check_install.sh: installs into a scratch folder, builds the example against the installed library (shared and static)
# through pkg-config and runs it on a tiny model.
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0
root=$(mktemp -d) || exit 1
trap 'rm -rf "$root"' EXIT
check() {
    name=$1
    shift
    if "$@" >"$root/out" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $name"; tail -n 20 "$root/out"; fi
}
model=tests/cli/scripted.gguf
check "make install" make -s install PREFIX="$root/usr"
for file in bin/thimble lib/libthimble.a lib/libthimble.so include/thimble/thimble.h lib/pkgconfig/thimble.pc share/man/man1/thimble.1; do
    check "installed $file" test -f "$root/usr/$file"
done
export PKG_CONFIG_PATH="$root/usr/lib/pkgconfig"
cc=${CC:-gcc}
# shellcheck disable=SC2046
check "example, shared" $cc -std=c11 -Wall -Wextra -Werror examples/continue.c -o "$root/shared" $(pkg-config --cflags --libs thimble)
# shellcheck disable=SC2046
check "example, static library" $cc -std=c11 -Wall -Wextra -Werror examples/continue.c -o "$root/static" \
    -I"$root/usr/include" "$root/usr/lib/libthimble.a" $(pkg-config --libs-only-l --static thimble | sed 's/-lthimble//') -lm -pthread
check "example runs, shared" env LD_LIBRARY_PATH="$root/usr/lib" "$root/shared" "$model" 256M "hello" 8
check "example runs, static library" "$root/static" "$model" 256M "hello" 8
check "example refuses a missing file" sh -c "! '$root/static' no-such.gguf 256M hello 8"
check "a C++ program can include the header" sh -c "command -v g++ >/dev/null || exit 0; echo '#include <thimble/thimble.h>' | g++ -I'$root/usr/include' -Wall -Werror -x c++ -fsyntax-only -"
check "the shared library exports thimble_ names only" sh -c "! nm -D --defined-only '$root/usr/lib/libthimble.so' | awk '{print \$3}' | grep -v '^thimble_'"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
