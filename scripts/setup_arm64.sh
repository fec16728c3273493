#!/bin/sh
# setup_arm64.sh: what the aarch64 cross-build needs: compiler, emulator and Debian's arm64 libraries beside the native ones.
cd "$(dirname "$0")/.." || exit 1
. scripts/packages.sh
[ "$(uname -m)" = aarch64 ] && exit 0
as_root="sudo -n"
[ "$(id -u)" -eq 0 ] && as_root=""
if ! dpkg --print-foreign-architectures | grep -qx arm64; then
    { $as_root dpkg --add-architecture arm64 && $as_root apt-get update -q; } >/dev/null 2>&1
fi
want_packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user libpcre2-dev:arm64 libxxhash-dev:arm64 libjansson-dev:arm64 \
    libedit-dev:arm64 libinih-dev:arm64 libcmocka-dev:arm64 || { echo "missing:$missing"; exit 1; }
