#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# run.sh LIBRARY FRONT_TEST [--long] python|shmem INJECT PROGRAM - runs front_test.py with the
# interpreter that the tests of the Python package use, which also runs a PROGRAM that is a script.
# Exits 77 (skipped) if it has no numpy and the program needs it; in CI that is a failure.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
export ORIEL_LIBRARY=$1
shift
python=${PYTHON:-$("$here/tools/python-env.sh" --print || echo python3)}
program=("${@: -1}")
if [[ ${program[0]} == *.py ]]; then
	if ! "$python" -c 'import numpy' 2>/dev/null; then
		echo "skipped: $python has no numpy: run tools/deps.sh python"
		[ "${CI-}" != true ] || exit 1
		exit 77
	fi
	export PYTHONPATH=$here/python PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=1
	program=("$python" "${program[0]}")
fi
exec "$python" "${@:1:$#-1}" "${program[@]}"
