#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/python-env.sh [torch | --print] - makes the environment of the Python tests in the user's
# cache, from PyPI: numpy, and what builds a wheel.  With `torch` also Triton and torch.
#
# On x86-64 PyPI has torch only as a CUDA build of several gigabytes.  There it is left out, unless
# ORIEL_TORCH=1 asks for it.  Triton alone compiles kernels, so it is always installed.
# --print prints the interpreter and exits 1 if there is none.
set -euo pipefail

version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
folder=${XDG_CACHE_HOME:-$HOME/.cache}/oriel/python-$version
python=$folder/bin/python

if [ "${1-}" = --print ]; then
	[ -f "$folder/complete" ] || exit 1
	echo "$python"
	exit 0
fi
if [ ! -f "$folder/complete" ]; then
	rm -rf "$folder"
	python3 -m venv "$folder"
	timeout 300 "$python" -m pip install -q --disable-pip-version-check numpy setuptools wheel
	touch "$folder/complete"
	echo "python-env: numpy is in $folder"
fi
if [ "${1-}" != torch ] || "$python" -c 'import torch, triton' 2>/dev/null; then
	exit 0
fi
if ! "$python" -c 'import triton' 2>/dev/null; then
	timeout 600 "$python" -m pip install -q --disable-pip-version-check triton
	echo "python-env: Triton is in $folder"
fi
if [ "$(uname -m)" = x86_64 ] && [ "${ORIEL_TORCH-0}" != 1 ]; then
	echo "python-env: torch is left out: for x86-64 PyPI has only the CUDA build of several" \
		"gigabytes (ORIEL_TORCH=1 installs it)"
	exit 0
fi
timeout 900 "$python" -m pip install -q --disable-pip-version-check torch triton expecttest
echo "python-env: torch and Triton are in $folder"
