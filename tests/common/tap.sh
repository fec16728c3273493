# tap.sh: sourced by tests/cli/*.sh. `try CODE ARGS...` runs the program, keeps $out, $err (files) and $code and compares
# the exit code; `ok NAME COMMAND...` prints a TAP line. THIMBLE is the program; the project's root is the working folder.
THIMBLE=${THIMBLE:-build/thimble}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
out=$tmp/out err=$tmp/err n_tests=0 code=0
# Whatever the user has configured must not reach the tests.
unset $(env | sed -n 's/^\(THIMBLE_[A-Za-z0-9_]*\)=.*/\1/p')
XDG_CONFIG_HOME=$tmp/config XDG_CACHE_HOME=$tmp/cache HOME=$tmp
export XDG_CONFIG_HOME XDG_CACHE_HOME HOME
shared=../shared
scripted=tests/cli/scripted.gguf

result() { # 0|1 NAME
    n_tests=$((n_tests + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $n_tests - $2"
    else
        echo "not ok $n_tests - $2"
        echo "# exit $code, stdout: $(head -c 300 "$out" 2>/dev/null), stderr: $(head -c 600 "$err" 2>/dev/null)" | tr '\n' ' '
        echo
    fi
}
ok() { # NAME COMMAND...
    ok_name=$1
    shift
    "$@" >/dev/null 2>&1
    result $? "$ok_name"
}
skip() { # NAME WHY
    n_tests=$((n_tests + 1))
    echo "ok $n_tests - $1 # SKIP $2"
}
try() { # CODE ARGS...: one test of the exit code
    want=$1
    shift
    "$THIMBLE" "$@" >"$out" 2>"$err" </dev/null
    code=$?
    [ "$code" -eq "$want" ]
    result $? "exit $want: $*"
}
try_with() { # "VARIABLE=VALUE ..." CODE ARGS...
    variables=$1 want=$2
    shift 2
    env $variables "$THIMBLE" "$@" >"$out" 2>"$err" </dev/null
    code=$?
    [ "$code" -eq "$want" ]
    result $? "exit $want: $variables $*"
}
quiet_stdout() { [ ! -s "$out" ]; }
said() { grep -q -- "$1" "$err"; }     # on standard error
printed() { grep -q -- "$1" "$out"; }  # on standard output
is_out() { [ "$(cat "$out")" = "$1" ]; }
