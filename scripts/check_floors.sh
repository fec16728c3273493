#!/bin/sh
# check_floors.sh: a file includes its own folder and lower floors, siblings never (docs/ARCHITECTURE.md).
# Prints every include that breaks this and fails.
cd "$(dirname "$0")/.." || exit 1
bad=0

allowed() { # folder -> folders it may include
    case $1 in
    base) echo "base" ;;
    os) echo "base os" ;;
    quant) echo "base quant" ;;
    gguf) echo "base os quant gguf" ;;
    kernel) echo "base quant kernel" ;;
    weights) echo "base os quant gguf kernel weights" ;;
    op) echo "base os quant gguf kernel weights op" ;;
    model) echo "base os quant gguf kernel weights op model" ;;
    text) echo "base gguf text" ;;
    session) echo "base os quant gguf kernel weights op model text session" ;;
    api) echo "base os quant gguf kernel weights op model text session api" ;;
    esac
}

for file in $(find src -name '*.c' -o -name '*.h' | sort); do
    folder=$(echo "$file" | cut -d/ -f2)
    for include in $(sed -n 's/^#include "\([a-z0-9_]*\)\/.*/\1/p' "$file" | sort -u); do
        [ "$include" = thimble ] && continue # the public header
        case " $(allowed "$folder") " in
        *" $include "*) ;;
        *)
            echo "$file: $folder may not include $include/"
            bad=1
            ;;
        esac
    done
done
for file in $(find tools examples -name '*.c' -o -name '*.h' 2>/dev/null | sort); do
    if grep -nE '^#include "(base|os|quant|gguf|kernel|weights|op|model|text|session|api)/' "$file"; then
        echo "$file: a client includes thimble.h and libraries, nothing of src/"
        bad=1
    fi
done
# Intrinsics and platform tests stay where they belong.
if grep -lE '#include <(immintrin|arm_neon)\.h>' -r src --include='*.[ch]' | grep -vE '^src/kernel/(x86|arm)/'; then
    echo "intrinsics outside src/kernel/x86 and src/kernel/arm"
    bad=1
fi
if grep -nE '#\s*if.*(__linux__|_WIN32|__APPLE__|__ANDROID__)' -r src --include='*.[ch]' | grep -v '^src/os/'; then
    echo "platform tests outside src/os"
    bad=1
fi
[ "$bad" -eq 0 ] && echo "floors: ok"
exit "$bad"
