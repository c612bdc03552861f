#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# bench/reduce/run.sh [BUILD] - all-reduce, reduce-scatter and broadcast of Oriel beside Open MPI,
# with 2 and 8 ranks on two cores.
# BUILD is a build folder (default build/release).  Prints one line per case: the least time of each
# in us, and their ratio.  Run it on an idle machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${1:-build/release}/bin
mpirun=$(command -v mpirun || true)
[ -x "$bin/versus_mpi_reduce" ] || mpirun=
[ -n "$mpirun" ] || echo "# no Open MPI: tools/deps.sh bench installs it"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for n in 2 8; do
	timeout 300 "$bin/oriel-run" -n $n "$bin/oriel_reduce" >>"$log"
	[ -z "$mpirun" ] ||
		timeout 300 "$mpirun" --allow-run-as-root --oversubscribe --bind-to none -np $n \
			"$bin/versus_mpi_reduce" >>"$log"
done
awk '$1 ~ /_least$/ {
	who = $1; sub(/_.*/, "", who)
	what = $1; sub(/^[a-z]*_/, "", what); sub(/_least$/, "", what)
	us[who, what] = $2
	if (!(what in seen)) { seen[what] = 1; order[++n] = what }
}
END {
	printf "%-20s %12s %12s %8s\n", "# case", "oriel", "mpi", "ratio"
	for (i = 1; i <= n; i++) {
		what = order[i]
		if (("mpi", what) in us)
			printf "%-20s %12.2f %12.2f %8.2f\n", what, us["oriel", what],
				us["mpi", what], us["oriel", what] / us["mpi", what]
		else
			printf "%-20s %12.2f\n", what, us["oriel", what]
	}
}' "$log"
