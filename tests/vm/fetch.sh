#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/vm/fetch.sh - gets the kernel that the VM tests boot.  Downloads the kernel package of the
# distribution, keeps the kernel and the few modules that the tests load, and installs nothing.
# The files go to ${XDG_CACHE_HOME:-~/.cache}/oriel/vm.  If they are there, it does nothing.
# `tools/deps.sh vm` calls it; the tests themselves never download.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/oriel/vm
# The modules that the guest loads, in this order, each after its dependencies.  A name that the
# kernel has built in is skipped.
wanted="crc32_generic rdma_rxe ib_uverbs virtio_mmio virtio_pci virtio_net 9p 9pnet_virtio"

die() {
	echo "vm/fetch: $*" >&2
	exit 1
}

if [ -f "$cache/complete" ]; then
	echo "vm/fetch: $(cat "$cache/complete") is in $cache"
	exit 0
fi
case $(uname -m) in
aarch64) flavour=arm64 ;;
x86_64) flavour=amd64 ;;
*) die "no kernel is known for $(uname -m)" ;;
esac
for tool in apt-get apt-cache dpkg-deb depmod modprobe; do
	command -v $tool >/dev/null || die "$tool is missing (Debian: apt, dpkg, kmod)"
done
package=$(apt-cache depends "linux-image-$flavour" 2>/dev/null |
	sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | sed -n 1p)
[ -n "$package" ] || die "this distribution has no package linux-image-$flavour"

mkdir -p "$cache"
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
echo "vm/fetch: downloading $package"
timeout 300 apt-get -q download "$package" || die "cannot download $package"
mkdir root
dpkg-deb --fsys-tarfile "$package"_*.deb |
	tar -x -C root --wildcards './boot/vmlinuz-*' './lib/modules/*' \
	--exclude='*/drivers/media/*' --exclude='*/drivers/gpu/*' --exclude='*/sound/*'
version=$(ls root/lib/modules)
depmod -b root "$version" 2>/dev/null || die "depmod failed on $version"

mkdir new new/modules
: >new/order
for module in $wanted; do
	modprobe -d root -S "$version" --show-depends "$module" 2>/dev/null |
		sed -n 's/^insmod \([^ ]*\).*/\1/p' |
		while read -r file; do
			name=$(basename "$file")
			[ -f "new/modules/$name" ] && continue
			cp "$file" new/modules/
			echo "$name" >>new/order
		done
done
grep -q '^rdma_rxe.ko' new/order || die "$package has no rdma_rxe module"
cp root/boot/vmlinuz-"$version" new/vmlinuz
rm -rf "$cache/modules" "$cache/order" "$cache/vmlinuz"
mv new/* "$cache/"
cd "$cache"
rm -rf "$work"
echo "$package" >"$cache/complete"
echo "vm/fetch: $package is in $cache ($(du -sh "$cache" | cut -f1))"
