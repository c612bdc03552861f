#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# run_mps_test.sh ORIEL_RUN - tests oriel-run --mps with a fake control program.  The daemon runs
# before the ranks, serves only this job, and ends with it in every case.  Exits 0 if every check
# passed.
#
# The script finds processes by the pids that its own daemons and ranks wrote.  It signals only
# processes that it started.
#
# shellcheck disable=SC2016 # the ranks' shell expands what stands in single quotes

run=$1
[ -x "$run" ] || { echo "usage: $0 path-of-oriel-run" >&2; exit 2; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin" "$dir/tmp"
export FAKE_MPS="$dir" FAKE_MPS_MANNER="" TMPDIR="$dir/tmp"
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
failures=0
checks=0

# The daemon goes into the background, with a server as its child.  Commands reach it through files.
cat >"$dir/bin/nvidia-cuda-mps-control" <<'END'
#!/bin/sh
folder=$CUDA_MPS_PIPE_DIRECTORY
case $1 in
-d)
	case $FAKE_MPS_MANNER in
	refuse) echo "cannot make a pipe" >&2; exit 3 ;;
	hang) echo $$ >"$FAKE_MPS/daemon.hangs"; exec sleep 60 ;;
	mute) exit 0 ;;
	esac
	env >"$FAKE_MPS/daemon.env"
	setsid "$0" --daemon &
	until [ -e "$folder/control" ]; do sleep 0.01; done
	;;
--daemon)
	[ "$FAKE_MPS_MANNER" = stubborn ] && trap "" TERM
	echo $$ >"$FAKE_MPS/daemon.pid"
	sleep 60 &
	echo $! >"$FAKE_MPS/server.pid"
	mkdir "$folder/logs"
	echo up >"$folder/logs/control.log"
	: >"$folder/control"
	until [ -e "$folder/quit" ]; do sleep 0.02; done
	[ "$FAKE_MPS_MANNER" = stubborn ] && while :; do sleep 1; done
	kill $!
	: >"$FAKE_MPS/quit.well"
	rm -f "$folder/control"
	;;
*)
	read -r command
	[ -e "$folder/control" ] || { echo "Cannot find MPS control daemon process"; exit 1; }
	case $command in
	get_default_active_thread_percentage) echo 100.0 ;;
	quit) : >"$folder/quit" ;;
	*) echo "unknown command: $command"; exit 1 ;;
	esac
	;;
esac
END
chmod +x "$dir/bin/nvidia-cuda-mps-control"
without=$PATH
PATH=$dir/bin:$PATH

fail() {
	echo "FAILED $name: $*" >&2
	sed 's/^/    stdout: /' "$dir/out" >&2
	sed 's/^/    stderr: /' "$dir/err" >&2
	failures=$((failures + 1))
}

# begin NAME [MANNER]
begin() {
	name=$1
	FAKE_MPS_MANNER=${2:-}
	rm -f "$dir"/daemon.* "$dir"/server.* "$dir"/quit.well "$dir"/rank.*
	: >"$dir/out"
	: >"$dir/err"
}

run_it() {
	timeout 100 "$run" "$@" >"$dir/out" 2>"$dir/err"
	status=$?
}

expect_status() {
	checks=$((checks + 1))
	[ "$status" -eq "$1" ] || fail "exit status $status, not $1"
}

expect() {
	checks=$((checks + 1))
	grep -Eq -e "$2" "$dir/$1" || fail "no line of $1 matches: $2"
}

expect_lines() {
	checks=$((checks + 1))
	lines=$(wc -l <"$dir/$1")
	[ "$lines" -eq "$2" ] || fail "$1 has $lines lines, not $2"
}

wait_for() {
	for file in "$@"; do
		tries=0
		until [ -s "$file" ]; do
			tries=$((tries + 1))
			[ $tries -le 1200 ] || { fail "$file never came"; return; }
			sleep 0.05
		done
	done
}

is_gone() {
	state=$(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null) || return 0
	[ -z "$state" ] || [ "$state" = Z ]
}

# gone WAIT: daemon, server and folder are gone, at most so many tenths of a second later
gone() {
	checks=$((checks + 1))
	tries=0
	while :; do
		left=
		for file in "$dir/daemon.pid" "$dir/server.pid"; do
			[ -s "$file" ] && ! is_gone "$(cat "$file")" && left="$left $file"
		done
		[ -z "$(ls -A "$dir/tmp")" ] || left="$left $(ls -d "$dir"/tmp/*)"
		[ -n "$left" ] || return
		tries=$((tries + 1))
		[ $tries -le "$1" ] || { fail "left behind:$left"; return; }
		sleep 0.1
	done
}

ended_by_quit() {
	checks=$((checks + 1))
	[ -e "$dir/quit.well" ] || fail "the daemon was not ended by \"quit\""
	gone 0
}

begin plain
run_it -n 2 --mps --tag sh -c '[ -e "$CUDA_MPS_PIPE_DIRECTORY/control" ] && echo there; env'
expect_status 0
expect out '^\[0\] there$'
expect out '^\[1\] there$'
expect out "^\[1\] CUDA_MPS_PIPE_DIRECTORY=$dir/tmp/oriel-mps-"
expect out "^\[1\] CUDA_MPS_LOG_DIRECTORY=$dir/tmp/oriel-mps-"
expect_lines err 0
checks=$((checks + 1))
grep -q ACTIVE_THREAD "$dir/out" && fail "a limit nobody asked for"
ended_by_quit

begin percent
CUDA_VISIBLE_DEVICES=1 run_it -n 2 --mps=12 --tag env
expect_status 0
expect out '^\[0\] CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12$'
expect out '^\[1\] CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12$'
expect out '^\[1\] CUDA_VISIBLE_DEVICES=1$'
checks=$((checks + 1))
grep -Eq 'ACTIVE_THREAD|VISIBLE' "$dir/daemon.env" && fail "the daemon got the ranks' own limits"
ended_by_quit

begin not_asked_for
run_it -n 1 env
expect_status 0
checks=$((checks + 2))
grep -q MPS_PIPE "$dir/out" && fail "MPS without --mps"
[ ! -e "$dir/daemon.pid" ] || fail "a daemon without --mps"

begin own_folder_is_private
run_it -n 1 --mps sh -c 'stat -c "%a" "$CUDA_MPS_PIPE_DIRECTORY"'
expect_status 0
expect out '^700$'
ended_by_quit

begin job_fails
run_it -n 3 --mps sh -c '[ $RANK = 1 ] && exit 5; exec sleep 60'
expect_status 5
ended_by_quit

begin rank_killed
run_it -n 2 --mps sh -c '[ $RANK = 1 ] && kill -9 $$; exec sleep 60'
expect_status 137
ended_by_quit

begin program_not_found
run_it -n 2 --mps /no/such/program
expect_status 127
ended_by_quit

begin timeout_of_the_job
run_it -n 2 --mps --timeout 0.3 sleep 60
expect_status 124
ended_by_quit

# The daemon must not hold the job's output open.
begin output_ends
timeout 100 sh -c '"$0" -n 1 --mps echo said 2>/dev/null | cat' "$run" >"$dir/out"
status=$?
expect_status 0
expect out '^said$'
ended_by_quit

for sig in INT TERM; do
	begin "signal_$sig"
	"$run" -n 2 --mps sh -c 'echo $$ >'"$dir"'/rank.$RANK; exec sleep 60' >"$dir/out" \
		2>"$dir/err" &
	job=$!
	wait_for "$dir/rank.0" "$dir/rank.1"
	kill -s $sig $job
	wait $job
	status=$?
	case $sig in
	INT) expect_status 130 ;;
	TERM) expect_status 143 ;;
	esac
	ended_by_quit
done

# Only the keeper is left to say "quit".
begin signal_KILL
"$run" -n 1 --mps sh -c 'echo $$ >'"$dir"'/rank.$RANK; exec sleep 60' >"$dir/out" 2>"$dir/err" &
job=$!
wait_for "$dir/rank.0"
kill -KILL $job
wait $job 2>/dev/null
gone 600
ended_by_quit

begin signal_during_start hang
"$run" -n 1 --mps true >"$dir/out" 2>"$dir/err" &
job=$!
wait_for "$dir/daemon.hangs"
kill -INT $job
wait $job
status=$?
expect_status 130
gone 0

begin no_program
PATH=$without
if command -v nvidia-cuda-mps-control >/dev/null; then
	echo "run_mps_test: no_program left out: the real control program is in PATH"
else
	run_it -n 2 --mps true
	expect_status 1
	expect_lines err 1
	expect err '^oriel-run: --mps: nvidia-cuda-mps-control is not in PATH'
	gone 0
fi
PATH=$dir/bin:$PATH

begin refused refuse
run_it -n 2 --mps true
expect_status 1
expect_lines err 1
expect err '^oriel-run: --mps: nvidia-cuda-mps-control -d failed with status 3: cannot make a pipe$'
gone 0

begin no_answer mute
run_it -n 2 --mps true
expect_status 1
expect_lines err 1
expect err 'did not answer within 15 s; the last attempt: Cannot find MPS control daemon process$'
gone 0

begin stubborn stubborn
run_it -n 2 --mps true
expect_status 0
expect err '^oriel-run: --mps: the MPS daemon did not end after "quit"; killing it$'
gone 0

for bad in 0 101 x 5x -1; do
	begin "usage: $bad"
	run_it -n 1 "--mps=$bad" true
	expect_status 2
	expect_lines err 1
done

if [ $failures -gt 0 ]; then
	echo "oriel-run --mps: $failures of $checks checks failed"
	exit 1
fi
echo "oriel-run --mps: all $checks checks passed"
