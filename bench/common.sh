# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154,SC2034,SC2016 # of the script that sources it
# Functions that bench/run.sh, bench/coll/run.sh and bench/reduce/run.sh share: messages, lines
# about the machine, one measurement, medians.
#
# A bash script sources this file after it has set name (for messages), root and build.  It sets log
# before it measures.

die() {
	echo "$name: $*" >&2
	exit 2
}

say() {
	echo "$@" | tee -a "$log"
}

busy_percent() { # of all cores, over one second
	local a b
	a=$(sed -n '1s/^cpu *//p' /proc/stat)
	sleep 1
	b=$(sed -n '1s/^cpu *//p' /proc/stat)
	printf '%s\n%s\n' "$a" "$b" | awk '
		{ t = 0; for (i = 1; i <= 8; i++) t += $i; idle = $4 + $5
		  if (NR == 1) { t0 = t; i0 = idle } }
		END { d = t - t0; printf "%.0f\n", (d > 0 ? 100 * (d - idle + i0) / d : 0) }'
}

cpu_model() {
	lscpu 2>/dev/null | sed -n 's/^Model name: *//p' | head -1
}

cache_entry() { # NAME: of the build's
	sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" 2>/dev/null
}

# say_machine COMMAND_LINE: logs the command and the machine.  Sets busy, the percentage of time
# that the cores are busy.
say_machine() {
	local memory compiler
	say "# $1"
	say "# date $(date -u +%Y-%m-%dT%H:%M:%SZ)"
	say "# commit $(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)"
	say "# host $(uname -n), kernel $(uname -srm)"
	memory=$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)
	compiler=$(cache_entry CMAKE_C_COMPILER | xargs -r -I{} sh -c '{} --version | head -1')
	say "# cpu $(cpu_model), $(nproc) cores, $memory"
	say "# compiler $compiler, $(cache_entry CMAKE_BUILD_TYPE)"
	busy=$(busy_percent)
	say "# load $(cut -d' ' -f1-3 /proc/loadavg), $busy% busy over one second before the start"
}

# mpirun needs these flags to start 8 ranks on 2 cores.  The programs pin themselves.
mpi_flags=(--allow-run-as-root --oversubscribe --bind-to none)

# measure REP COMMAND...: appends its lines "name value unit" to the log, with the repetition in
# front.
measure() {
	local rep=$1 out status
	shift
	if [ "$(type -t "$1")" = function ]; then
		out=$("$@" 2>>"$log")
	else
		out=$(timeout 120 "$@" 2>>"$log")
	fi
	status=$?
	[ $status -eq 0 ] || say "# FAILED with status $status in repetition $rep: $*"
	[ -z "$out" ] || awk -v rep="$rep" 'NF == 3 { print rep, $0 }' <<<"$out" >>"$log"
}

# The start of the awk programs that read the log.  fig[name, i] are the figures, n[name] is their
# number, unit[name] their unit.  stats(name) sets med, lo and hi, or returns 0 without a figure.
awk_figures='
	function sort(v, n,    i, j, x) {
		for (i = 2; i <= n; i++) {
			x = v[i]
			for (j = i - 1; j >= 1 && v[j] > x; j--) v[j + 1] = v[j]
			v[j + 1] = x
		}
	}
	function stats(name,    v, i, m) {
		m = n[name]
		if (!m) return 0
		for (i = 1; i <= m; i++) v[i] = fig[name, i]
		sort(v, m)
		med = m % 2 ? v[(m + 1) / 2] : (v[m / 2] + v[m / 2 + 1]) / 2
		lo = v[1]; hi = v[m]
		return 1
	}
	function num(x) { return x >= 1000 ? sprintf("%.0f", x) : sprintf("%.4g", x) }
	function spread(name) {
		return sprintf("%s %s (%s..%s)", num(med), unit[name], num(lo), num(hi))
	}
	/^[0-9]+ [a-z0-9_]+ [-+.0-9e]+ / { fig[$2, ++n[$2]] = $3; unit[$2] = $4 }
'
