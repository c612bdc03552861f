#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/dist.sh [FOLDER] - packs the sources of the last commit as FOLDER/oriel-VERSION.tar.gz
# (default dist) and prints the file's name.
#
# The archive builds by itself, without git.  The same commit gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-dist}
if ! git rev-parse --git-dir >/dev/null 2>&1; then
	echo "dist: this is no git repository: an archive can be made of a commit only" >&2
	exit 1
fi
if [ -n "$(git status --porcelain)" ]; then
	echo "dist: warning: changes that are not committed are not in the archive" >&2
fi
version=$(git show HEAD:CMakeLists.txt | sed -n 's/^project(oriel VERSION \([0-9.]*\) .*/\1/p')
mkdir -p "$folder"
git archive --format=tar --prefix="oriel-$version/" HEAD | gzip -n9 >"$folder/oriel-$version.tar.gz"
echo "$folder/oriel-$version.tar.gz"
