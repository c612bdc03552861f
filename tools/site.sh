#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/site.sh - builds a site with search from the documents, into build/site/index.html.
#
# mkdocs comes from PyPI into an environment in the user's cache.  The site has the folders
# of the tree, so links between documents, examples and headers stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdocs_version=1.6.1
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
folder=${XDG_CACHE_HOME:-$HOME/.cache}/oriel/site-$version-$mkdocs_version

if [ ! -f "$folder/complete" ]; then
	rm -rf "$folder"
	python3 -m venv "$folder"
	timeout 300 "$folder/bin/python" -m pip install -q --disable-pip-version-check \
		"mkdocs==$mkdocs_version"
	touch "$folder/complete"
fi

rm -rf build/site-source build/site
mkdir -p build/site-source
cp -r README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md LICENSE docs examples include \
	tools/site.css build/site-source
NO_MKDOCS_2_WARNING=1 timeout 200 "$folder/bin/mkdocs" build -q -f tools/mkdocs.yml
[ -s build/site/index.html ] && [ -s build/site/search/search_index.json ]
echo "site: $(find build/site -name '*.html' | wc -l) pages in build/site/index.html"
