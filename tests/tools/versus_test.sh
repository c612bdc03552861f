#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# versus_test.sh - table, plot and README of make versus and make versus-gpu, from logs that are
# known.  Nothing is measured here.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
export PYTHONDONTWRITEBYTECODE=1
if ! command -v gnuplot >/dev/null; then
	echo "skipped: package gnuplot-nox is not installed; tools/deps.sh bench installs it"
	exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

die() {
	echo "versus: FAILED: $*"
	exit 1
}

has() { grep -qF -- "$2" "$1" || die "$1 has no '$2': $(cat "$1")"; }

cat >log <<'LOG'
# date 2026-01-02T03:04:05Z
# cpu A processor, 2 cores, 8 GiB
# skipped: OpenSHMEM of Open MPI: package libopenmpi-dev (tools/deps.sh bench)
1 oriel_putsignal2_8 0.3 us
2 oriel_putsignal2_8 0.1 us
3 oriel_putsignal2_8 0.2 us
1 oriel_putsignal2_64 0.4 us
1 mpi_putsignal2_8 0.8 us
1 mpi_sendrecv2_8 0.6 us
1 mpi_putsignal2_64 1.5 us
1 oriel_sum8_1m 2500 us
1 mpi_sum8_1m 5000 us
1 oriel_sum2_8 1 us
LOG
printf 'before\n<!-- versus begin -->\nold table\n<!-- versus end -->\nafter\n' >README.md
mkdir out
python3 "$root/bench/versus.py" log out --readme README.md --results docs/results/x/README.md ||
	die "versus.py: status $?"
# The median, not the mean or the last; of MPI the faster way; the ratio of the two.
has out/table.md '| 2 | 8 | 0.2 (0.1..0.3) | - | 0.6 (0.6..0.6, send) | - | 3.00 |'
has out/table.md '| 8 | 1048576 | 2500 (2500..2500) | - | 5000 (5000..5000) | - | 2.00 |'
has out/table.md 'A processor, 2 cores, 8 GiB'
has out/table.md 'package libopenmpi-dev'
! grep -q '| 2 | 64 |' out/table.md || die "a size of the plot is in the table"
has README.md '0.2 (0.1..0.3)'
has README.md 'docs/images/versus.svg'
! grep -q 'old table' README.md || die "the old table is still in the README"
[ "$(head -n 1 README.md) $(tail -n 1 README.md)" = 'before after' ] || die "the rest changed"
# A second time the README changes no more.
cp README.md once.md
python3 "$root/bench/versus.py" log out --readme README.md --results docs/results/x/README.md
cmp README.md once.md || die "publishing twice differs"
python3 -c 'import sys, xml.dom.minidom as d; d.parse(sys.argv[1])' out/versus.svg || die "no SVG"
has out/versus.svg 'Open MPI, send and receive'

echo 'no markers' >README.md
! python3 "$root/bench/versus.py" log out --readme README.md 2>/dev/null || die "no markers"
grep -v oriel_ log >none
! python3 "$root/bench/versus.py" none out 2>/dev/null || die "a log without Oriel is accepted"

logs=$root/docs/results/2026-11-15-h200-lean
python3 "$root/bench/versus_gpu.py" out "$logs/gpu-bench.txt" "$logs/collectives-bench.txt" ||
	die "versus_gpu.py: status $?"
has out/table.md '| put, 16 blocks | GB/s | 784 (782 .. 785) | 762 (761 .. 762) | 295 (295'
has out/table.md '| all-gather, 8 ranks, 1 KiB | us | 13.9'
has out/versus-gpu.svg 'NVSHMEM'
echo "versus: ok"
