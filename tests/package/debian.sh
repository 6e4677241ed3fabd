#!/usr/bin/env bash
# debian.sh BUILD SUITE: makes the Debian package, installs it in a fresh root of that suite, uses it there, removes it
# and compares the root's files with those before. Exits 77 (skipped) where a root cannot be made.
set -eu
build=$1 suite=${2:-bookworm}
[ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || { echo "skipped: needs root and debootstrap"; exit 77; }
work=$(mktemp -d)
root=$work/root
trap 'rm -rf "$work"' EXIT
(cd "$work" && cpack --config "$build/CPackConfig.cmake" -G DEB >/dev/null)
package=$(ls "$work"/*.deb)
dpkg-deb --info "$package" | sed -n '/Depends/p;/Installed-Size/p'
mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\?\(http[^ ]*\).*/\2/p;s/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -1)
debootstrap --variant=minbase "$suite" "$root" "${TRIREME_MIRROR:-${mirror:-http://deb.debian.org/debian}}" >"$work/log" 2>&1 ||
  { tail -3 "$work/log"; echo "skipped: no root of $suite can be made"; exit 77; }
cp -a /etc/apt/. "$root/etc/apt/" && cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
in_root() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
in_root apt-get update >/dev/null 2>&1
cp "$package" "$root/tmp/trireme.deb"
# What the package needs, so that the comparison sees only its own files.
needs=$(dpkg-deb -f "$package" Depends | sed 's/([^)]*)//g;s/|[^,]*//g;s/,/ /g')
in_root apt-get install -y --no-install-recommends $needs python3-numpy man-db >/dev/null 2>&1
list() { (cd "$root" && find . -xdev \( -path ./tmp -o -path ./var/lib/dpkg -o -path ./var/cache -o -path ./var/log -o -path ./var/lib/apt \) -prune -o -print | sort); }
list >"$work/before"
in_root dpkg -i /tmp/trireme.deb >/dev/null
in_root trireme --version
in_root trireme plan --model llama-3.1-70b --cluster dgx-h100x8 --global-batch 512 --seq 8192 | sed -n 1,4p
in_root man -w trireme-plan
in_root test -s /usr/share/bash-completion/completions/trireme
in_root python3 -c 'import trireme; print(len(trireme.sweep("gpt2", "dgx-h100x1", global_batch=64)), "layouts from Python")'
in_root trireme doctor | head -3
in_root find /usr/lib/python3/dist-packages/trireme -name __pycache__ -prune -exec rm -r {} + # written by this run of root
in_root dpkg --purge trireme >/dev/null
list >"$work/after"
diff "$work/before" "$work/after" && echo "ok: removal leaves nothing"
