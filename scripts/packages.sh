# packages.sh: sourced by demo.sh and check.sh. want_packages NAME...: installs what is missing, if this user may; otherwise
# says what is missing and returns 1, so that the caller goes on with what is there.
want_packages() {
    missing=""
    for package in "$@"; do
        case $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null) in
        *"install ok installed"*) ;; # printed once for each architecture it is installed for
        *) missing="$missing $package" ;;
        esac
    done
    [ -n "$missing" ] || return 0
    as_root=""
    if [ "$(id -u)" -ne 0 ]; then
        if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
            as_root="sudo -n"
        else
            echo "missing packages (ask an administrator: apt-get install$missing)" >&2
            return 1
        fi
    fi
    echo "installing:$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    # shellcheck disable=SC2086
    if $as_root apt-get install -y -q --no-install-recommends $missing >"$log" 2>&1 ||
        { $as_root apt-get update -q >>"$log" 2>&1 && $as_root apt-get install -y -q --no-install-recommends $missing >>"$log" 2>&1; }; then
        rm -f "$log"
        return 0
    fi
    tail -n 5 "$log" >&2
    rm -f "$log"
    echo "could not install:$missing" >&2
    return 1
}

BUILD_PACKAGES="gcc libc6-dev make pkg-config libpcre2-dev libxxhash-dev libjansson-dev libedit-dev libinih-dev"
