#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# run.sh LIBRARY MODULE... - runs test modules of the Python package with this liboriel.so.
#
# The interpreter is PYTHON, else the environment of tools/python-env.sh, else python3 if it has
# numpy.  Exits 77 (skipped) without one, or if every test was skipped; in CI that is a failure.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
library=$1
shift

python=${PYTHON:-$("$here/../tools/python-env.sh" --print || echo python3)}
if ! "$python" -c 'import numpy' 2>/dev/null; then
	echo "skipped: $python has no numpy; tools/deps.sh python makes an environment that has it"
	[ "${CI-}" != true ] || exit 1
	exit 77
fi
export PYTHONPATH=$here ORIEL_LIBRARY=$library PYTHONDONTWRITEBYTECODE=1
exec "$python" -W error::ResourceWarning -m tests.run "$@"
