#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# packages_smoke.sh - runs in a clean root: installs the packages beside this script, then uses the
# tools, compiles programs against them, and runs those.
set -eu
cd "$(dirname "$0")"
export DEBIAN_FRONTEND=noninteractive

say() { echo "packages: $*"; }
die() {
	say "FAILED: $*"
	[ ! -e out ] || cat out
	exit 1
}

say "installing $(ls ./*.deb | wc -l) packages"
# -dbgsym packages are for debuggers.
apt-get install -y -q --no-install-recommends $(ls ./*.deb | grep -v dbgsym) >out 2>&1 ||
	die "apt-get install"

oriel-info >out 2>&1 || die oriel-info
say "oriel-info: ok"
oriel-run -n 2 --timeout 60 oriel-perf put --quick >out 2>&1 || die oriel-perf
grep -q 'total wrong 0: OK' out || die "oriel-perf did not check its data"
say "oriel-run -n 2 oriel-perf: ok"

cc -Wall -Werror -o consumer consumer.c $(pkg-config --cflags --libs oriel) || die pkg-config
oriel-run -n 2 --timeout 30 ./consumer >out 2>&1 || die consumer
grep -qx 'rank 0 of 2 got 101' out && grep -qx 'rank 1 of 2 got 100' out || die consumer
say "pkg-config: ok"

oriel-oshcc -o hello shmem_consumer.c || die oriel-oshcc
oriel-oshrun -n 4 --timeout 30 ./hello >out 2>&1 || die oriel-oshrun
[ "$(grep -c '^PE [0-3] of 4 got ' out)" -eq 4 ] || die oriel-oshrun
say "oriel-oshcc: ok"

# has PACKAGE FILE: the package has this file, also where the system leaves out manual pages.
has() {
	dpkg -L "$1" >files
	grep -qx "$2" files || die "package $1 has no $2"
}
for name in oriel_init oriel_window_create oriel_put_signal oriel_allreduce; do
	has liboriel-dev /usr/share/man/man3/$name.3.gz
done
has liboriel-dev /usr/share/man/man7/oriel.7.gz
completions=/usr/share/bash-completion/completions
for name in run info perf tune doctor; do
	has oriel-tools /usr/share/man/man1/oriel-$name.1.gz
	has oriel-tools $completions/oriel-$name
done
for name in oriel-perf oriel-oshrun; do
	bash -c ". $completions/$name && complete -p $name" >out 2>&1 || die "completion of $name"
done
say "manual pages and completion: ok"

python3 -c 'import oriel; comm = oriel.Comm.from_env(); print("rank", comm.rank, "of", comm.size)' \
	>out 2>&1 || die "import oriel"
grep -qx 'rank 0 of 1' out || die "import oriel"
say "python3: ok"

apt-get purge -y -q liboriel0 >out 2>&1 || die "apt-get purge"
[ ! -e /usr/bin/oriel-perf ] || die "oriel-perf is there after its library was removed"
say "all ok"
