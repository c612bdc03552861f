#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# packages_test.sh - builds the Debian packages of the last commit, installs them into a clean root
# of this machine's Debian release, and uses them there: packages_smoke.sh.
#
# The root has a C compiler and pkg-config, and nothing else that Debian does not require.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

skip() {
	echo "skipped: $*"
	exit 77
}

for pair in dpkg-buildpackage:dpkg-dev dh:debhelper dh_python3:dh-python mmdebstrap:mmdebstrap; do
	command -v "${pair%:*}" >/dev/null ||
		skip "package ${pair#*:} is not installed; tools/deps.sh deb installs it"
done
[ "$(id -u)" -eq 0 ] || skip "a clean root needs the user root"
git -C "$root" rev-parse --git-dir >/dev/null 2>&1 || skip "packages are built from a git commit"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Without GPU kernels: nvcc takes minutes, and nothing here runs them.
mkdir "$work/in"
ORIEL_KERNELS=OFF "$root/tools/deb.sh" "$work/in"
cp "$here/packages_smoke.sh" "$here/consumer.c" "$here/shmem_consumer.c" "$work/in"

# The release and the archives of this machine, with its settings for the transfer.
. /etc/os-release
options=()
while read -r line; do
	options+=(--aptopt="$line")
done < <(apt-config dump Acquire | grep -E '^Acquire::(https?::|Check-Valid)[^"]* "[^"]+";$')
sources=(/etc/apt/sources.list.d/*.sources)
[ -e "${sources[0]}" ] || sources=(/etc/apt/sources.list)
if ! timeout 900 mmdebstrap --quiet --variant=minbase --format=null "${options[@]}" \
	--include=gcc,libc6-dev,pkg-config \
	--customize-hook="copy-in '$work/in' /" \
	--customize-hook='chroot "$1" sh /in/packages_smoke.sh' \
	"$VERSION_CODENAME" /dev/null "${sources[@]}" >"$work/log" 2>&1; then
	tail -n 80 "$work/log"
	grep -qE '^packages: ' "$work/log" || skip "no clean root could be made (no network?)"
	exit 1
fi
grep '^packages: ' "$work/log"
grep -qx 'packages: all ok' "$work/log"
