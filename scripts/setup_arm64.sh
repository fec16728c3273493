#!/bin/sh
# setup_arm64.sh: what the aarch64 cross-build needs: compiler, emulator and Debian's arm64 libraries beside the native ones.
cd "$(dirname "$0")/.." || exit 1
. scripts/packages.sh
[ "$(uname -m)" = aarch64 ] && exit 0
if [ "$(id -u)" -eq 0 ] && ! dpkg --print-foreign-architectures | grep -qx arm64; then
    dpkg --add-architecture arm64 && apt-get update -q >/dev/null 2>&1
fi
want_packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user libpcre2-dev:arm64 libxxhash-dev:arm64 libjansson-dev:arm64 \
    libedit-dev:arm64 libinih-dev:arm64 libcmocka-dev:arm64 || { echo "the aarch64 tools could not be installed"; exit 1; }
