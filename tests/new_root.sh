#!/usr/bin/env bash
# Tries the README's commands, all of them, in a fresh Debian root.  Needs root, debootstrap and a package mirror; takes some minutes.
# usage: new_root.sh [SUITE [MIRROR]]       default: bookworm, and the mirror that this machine's apt uses
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:-bookworm}
mirror=${2:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)}
root=$(mktemp -d)
chmod 755 "$root" # it becomes /, which everybody may enter
cleanup() {
    umount "$root/proc" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}
trap cleanup EXIT

debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1 || { tail "$root.log"; exit 1; }
rm -f "$root.log"
# The network as here: resolver, and how apt gets out.
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
[ -d /etc/ssl/certs ] && mkdir -p "$root/etc/ssl" && cp -rL /etc/ssl/certs "$root/etc/ssl/" 2>/dev/null || true
mount -t proc proc "$root/proc"
mkdir "$root/ldr"
git archive HEAD | tar -x -C "$root/ldr"
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb chroot "$root" bash -euc '
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends make >/dev/null    # all that is asked for beforehand
    cd /ldr
    make deps demo
    test -s build/demo/contact.png
    make deps check
    # The other commands of the page, as printed, on the pictures of the demo.
    mkdir -p photos && ln -s ../build/demo/photos photos/train
    cp "$(find photos/train/ -name "*.jpg" | head -n 1)" photo.jpg
    grep "^    build/release/ldr" README.md | sed "s/#.*//" >commands
    test "$(wc -l <commands)" -ge 7
    bash -ex commands >/dev/null
    sed -n "/^\`\`\`c$/,/^\`\`\`$/p" README.md | grep -v "^\`\`\`" >program.c
    grep -E "^    (make install|PKG_CONFIG_PATH|LD_LIBRARY_PATH)" README.md | sed "s/#.*//" >embedding
    test "$(wc -l <embedding)" = 3
    bash -ex embedding | tail -n 1'
echo "new_root: every command of the README works in a fresh $suite"
