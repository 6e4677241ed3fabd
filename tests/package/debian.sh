#!/usr/bin/env bash
# debian.sh BUILD SUITE: makes the Debian package, installs it in a fresh root of that suite (bookworm: Debian 12, noble:
# Ubuntu 24.04), uses it there, removes it and compares the root's files with those before. Exits 77 (skipped) where a
# root cannot be made. TRIREME_MIRROR names another mirror.
set -eu
build=$1 suite=${2:-bookworm}
[ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || { echo "skipped: needs root and debootstrap"; exit 77; }
work=$(mktemp -d)
root=$work/root
trap 'rm -rf "$work"' EXIT
(cd "$work" && cpack --config "$build/CPackConfig.cmake" -G DEB >/dev/null)
package=$(ls "$work"/*.deb)
dpkg-deb --info "$package" | sed -n '/Depends/p;/Recommends/p;/Installed-Size/p'

case $suite in
  noble)
    mirror=${TRIREME_MIRROR:-http://archive.ubuntu.com/ubuntu} components=main,universe
    how=(--no-check-gpg) script=(gutsy) ;; # Debian has neither Ubuntu's keys nor its newest suites; apt in the root checks
  *)
    mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\?\(http[^ ]*\).*/\2/p;s/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -1)
    mirror=${TRIREME_MIRROR:-${mirror:-http://deb.debian.org/debian}} components=main how=() script=() ;;
esac
debootstrap "${how[@]}" --variant=minbase --components="$components" "$suite" "$root" "$mirror" "${script[@]}" >"$work/log" 2>&1 ||
  { tail -3 "$work/log"; echo "skipped: no root of $suite can be made"; exit 77; }
cp -a /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/" 2>/dev/null || true # proxies
cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
in_root() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
in_root apt-get update >/dev/null 2>&1
cp "$package" "$root/tmp/trireme.deb"
# What the package needs and what apt installs with it (Python and numpy for the module), so that the comparison sees only its own files.
needs=$({ dpkg-deb -f "$package" Depends; echo ,; dpkg-deb -f "$package" Recommends; } | tr '\n' ' ' | sed 's/([^)]*)//g;s/|[^,]*//g;s/,/ /g')
in_root apt-get install -y --no-install-recommends $needs man-db >"$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
list() { (cd "$root" && find . -xdev \( -path ./tmp -o -path ./var/lib/dpkg -o -path ./var/cache -o -path ./var/log -o -path ./var/lib/apt \) -prune -o -print | sort); }
list >"$work/before"
in_root dpkg -i /tmp/trireme.deb >/dev/null
in_root trireme --version
in_root trireme plan --model llama-3.1-70b --cluster dgx-h100x8 --global-batch 512 --seq 8192 | sed -n 1,4p
in_root man trireme-plan | grep -q -- --global-batch
in_root bash -c 'source /usr/share/bash-completion/completions/trireme
                 COMP_WORDS=(trireme pl) COMP_CWORD=1; _trireme; [ "${COMPREPLY[*]}" = plan ]'
in_root python3 -c 'import sys, trireme
table = trireme.sweep("gpt2", "dgx-h100x1", global_batch=64)
print(len(table), "layouts, the fastest in", table.step_seconds.min(), "s, from Python", sys.version.split()[0])
print(trireme.plan("gpt2", "dgx-h100x1", global_batch=64).best.layout.short)'
in_root trireme doctor | head -3
in_root dpkg --purge trireme >/dev/null
list >"$work/after"
diff "$work/before" "$work/after" && echo "ok: removal leaves nothing"
