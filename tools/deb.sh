#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/deb.sh [FOLDER] - builds the Debian packages of the last commit into FOLDER (default dist).
#
# The build runs in a temporary folder.  ORIEL_KERNELS=OFF leaves out the GPU kernels; otherwise
# nvcc, if it is there, compiles them for all GPUs.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-dist}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xf "$(tools/dist.sh "$work")" -C "$work"
(
	cd "$work"/oriel-*/
	dpkg-buildpackage -b -us -uc -j"$(nproc)"
) >"$work/log" 2>&1 || {
	tail -n 60 "$work/log"
	echo "deb: the packages do not build; tools/deps.sh deb installs what they need" >&2
	exit 1
}
mkdir -p "$folder"
cp "$work"/*.deb "$folder"
for file in "$work"/*.deb; do
	echo "$folder/$(basename "$file")"
done
