#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# run_test.sh ORIEL_RUN - tests of the launcher: exit statuses, signals, tags, descriptors,
# environment, and that nothing is left behind.  Exits 0 if every check passed.
#
# The script finds processes by the pids that its own ranks wrote.  It signals only processes that
# it started.
# It waits for visible events, never for time to pass, because any process may be delayed for
# seconds.  --grace is short if the ranks certainly live longer, and long if they must end within
# it.
#
# shellcheck disable=SC2016 # the ranks' shell expands what stands in single quotes
# shellcheck disable=SC2013 # pids are words

run=$(realpath "$1")
[ -x "$run" ] || { echo "usage: $0 path-of-oriel-run" >&2; exit 2; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0
checks=0

# A leak check takes seconds on some machines: the run named "leaks" at the end makes it once.
leak_options=${ASAN_OPTIONS:-}
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

fail() {
	echo "FAILED $name: $*" >&2
	sed 's/^/    stdout: /' "$dir/out" >&2
	sed 's/^/    stderr: /' "$dir/err" >&2
	failures=$((failures + 1))
}

# run_it NAME args...: runs oriel-run with a limit; leaves $status, $dir/out, $dir/err
run_it() {
	name=$1
	shift
	timeout 100 "$run" "$@" >"$dir/out" 2>"$dir/err"
	status=$?
}

expect_status() {
	checks=$((checks + 1))
	[ "$status" -eq "$1" ] || fail "exit status $status, not $1"
}

# expect FILE REGEX: a line matches
expect() {
	checks=$((checks + 1))
	grep -Eq -e "$2" "$dir/$1" || fail "no line of $1 matches: $2"
}

expect_lines() {
	checks=$((checks + 1))
	lines=$(wc -l <"$dir/$1")
	[ "$lines" -eq "$2" ] || fail "$1 has $lines lines, not $2"
}

# is_gone PID: no such process, or a zombie that somebody else has to collect
is_gone() {
	state=$(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null) || return 0
	[ -z "$state" ] || [ "$state" = Z ]
}

# all_gone FILE...: every pid written in the files goes away
all_gone() {
	checks=$((checks + 1))
	for pid in $(cat "$@"); do
		tries=0
		until is_gone "$pid"; do
			tries=$((tries + 1))
			[ $tries -le 600 ] || { fail "process $pid is left behind"; return; }
			sleep 0.05
		done
	done
}

# wait_for FILE...: until the files exist and are not empty
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

# wait_err REGEX: until a line of the last job's stderr matches
wait_err() {
	tries=0
	until grep -Eq -e "$1" "$dir/err"; do
		tries=$((tries + 1))
		[ $tries -le 1200 ] || { fail "it never said: $1"; return; }
		sleep 0.05
	done
}

# ---- plain runs ----------------------------------------------------------------------------------

run_it success -n 3 sh -c 'echo "out $RANK"; echo "err $RANK" >&2'
expect_status 0
expect_lines out 3
expect out '^out 1$'
expect err '^\[2\] err 2$'

run_it tag -n 3 --tag sh -c 'echo "out $RANK"; printf "half $RANK"'
expect_status 0
expect_lines out 6
expect out '^\[1\] out 1$'
expect out '^\[2\] half 2$'

# A message of the library or of a tool names its own rank once.  A line about another rank is not
# changed.
run_it once -n 2 sh -c 'echo "oriel: rank $RANK: warning: a" >&2; echo "oriel: rank 7: b" >&2
	echo "oriel-perf: rank $RANK: c" >&2; echo "oriel: rank $RANK:" >&2; echo oriel: >&2'
expect_lines err 10
expect err '^\[0\] oriel-perf: c$'
expect err '^\[0\] oriel: rank 0:$'
expect err '^\[0\] oriel:$'
expect err '^\[1\] oriel: warning: a$'
expect err '^\[1\] oriel: rank 7: b$'

run_it partial -n 2 sh -c 'printf "first\nno end" >&2'
expect_lines err 4
expect err '^\[1\] no end$'

# lines of the library name the rank themselves: it is said once, and another rank's number stays
run_it rank_once -n 2 sh -c 'echo "oriel: rank 1: error: why" >&2; echo "x oriel: rank 1: y" >&2'
expect_lines err 4
expect err '^\[1\] oriel: error: why$'
expect err '^\[0\] oriel: rank 1: error: why$'
expect err '^\[1\] x oriel: rank 1: y$'

# 10000 bytes are three pieces; 4000 bytes and their newline are one line and nothing more
run_it long -n 2 sh -c 'head -c 10000 /dev/zero | tr "\0" x >&2; echo >&2;
	head -c 4000 /dev/zero | tr "\0" y >&2; echo >&2'
expect_lines err 8
checks=$((checks + 1))
[ "$(grep -o x "$dir/err" | wc -l)" -eq 20000 ] || fail "bytes of long lines are lost"

run_it whole_lines -n 8 --tag sh -c \
	'i=0; while [ $i -lt 200 ]; do echo "$RANK line $i"; i=$((i + 1)); done'
expect_lines out 1600
checks=$((checks + 1))
[ "$(grep -Ec '^\[([0-7])\] \1 line [0-9]+$' "$dir/out")" -eq 1600 ] || fail "lines are mixed up"

run_it many -n 64 /bin/true
expect_status 0

run_it options_of_the_program -n 1 -- echo -n --tag --timeout
expect_status 0
checks=$((checks + 1))
[ "$(cat "$dir/out")" = "--tag --timeout" ] || fail "the program's options were touched"

run_it ends_early -n 3 sh -c '[ $RANK = 0 ] && exit 0; sleep 0.2; echo later'
expect_status 0
expect_lines out 2

name=stdin
echo "for rank 0" | timeout 100 "$run" -n 3 --tag cat >"$dir/out" 2>"$dir/err"
status=$?
expect_status 0
expect_lines out 1
expect out '^\[0\] for rank 0$'

# ---- what a rank is born with --------------------------------------------------------------------

run_it environment -n 4 --topology 2x2 --tag env
expect_status 0
for rank in 0 1 2 3; do
	expect out "^\[$rank\] RANK=$rank\$"
	expect out "^\[$rank\] LOCAL_RANK=$rank\$"
done
expect out '^\[3\] WORLD_SIZE=4$'
expect out '^\[3\] LOCAL_WORLD_SIZE=4$'
expect out '^\[3\] MASTER_ADDR=127.0.0.1$'
expect out '^\[3\] MASTER_PORT=[0-9]+$'
expect out '^\[3\] ORIEL_PORT=[0-9]+$'
expect out '^\[3\] ORIEL_TOPOLOGY=2x2$'
expect out '^\[3\] ORIEL_SECRET=[0-9a-f]{64}$'
expect out '^\[0\] ORIEL_LISTEN_FD=[0-9]+$'
expect out '^\[3\] ORIEL_LISTENING=1$'
checks=$((checks + 2))
[ "$(grep -c ORIEL_LISTEN_FD "$dir/out")" -eq 1 ] || fail "ORIEL_LISTEN_FD is not rank 0's alone"
[ "$(grep -o 'ORIEL_SECRET=.*' "$dir/out" | sort -u | wc -l)" -eq 1 ] || fail "secrets differ"

name=own_secret
ORIEL_SECRET=mine timeout 100 "$run" -n 2 --tag env >"$dir/out" 2>"$dir/err"
status=$?
expect_status 0
expect out '^\[1\] ORIEL_SECRET=mine$'

name=debug
ORIEL_LATE=7 timeout 100 "$run" -n 2 --debug --tag env >"$dir/out" 2>"$dir/err"
status=$?
expect_status 0
expect out '^\[1\] ORIEL_CHECKED=1$'
expect out '^\[1\] ORIEL_STRICT=1$'
expect out '^\[1\] ORIEL_LATE=7$'
expect out '^\[1\] ORIEL_LOG=info$'
run_it no_debug -n 1 --tag env
checks=$((checks + 1))
! grep -q ORIEL_CHECKED "$dir/out" || fail "ORIEL_CHECKED is set without --debug"

# Descriptor 9 is ours; ls itself adds one for the folder.
name=descriptors
timeout 100 "$run" -n 3 --tag ls -l /proc/self/fd >"$dir/out" 2>"$dir/err" 9<"$0"
status=$?
expect_status 0
checks=$((checks + 3))
[ "$(grep -c '^\[0\].*-> ' "$dir/out")" -eq 5 ] || fail "rank 0 should have 0, 1, 2, the socket"
[ "$(grep -c '^\[1\].*-> ' "$dir/out")" -eq 4 ] || fail "rank 1 should have 0, 1, 2"
[ "$(grep -c '^\[2\].*-> ' "$dir/out")" -eq 4 ] || fail "rank 2 should have 0, 1, 2"
expect out '^\[0\].*-> socket:'

# ---- failures ------------------------------------------------------------------------------------

# The other ranks end after oriel-run has reaped rank 3: then its pid does not exist any more.
run_it exit_code -n 4 --grace 60 sh -c '[ $RANK = 3 ] && { echo $$ >'"$dir"'/first; exit 5; }
	until [ -s '"$dir"'/first ] && read -r pid <'"$dir"'/first && ! kill -0 "$pid" 2>/dev/null
	do sleep 0.02; done
	echo "lost 3" >&2; exit 1'
expect_status 5
expect err '^oriel-run: rank 3 \(pid [0-9]+\) exited with status 5; ending the job$'
expect err '^\[0\] lost 3$'
expect err '^oriel-run: ranks 0-2 then exited with status 1$'

run_it killed -n 3 --grace 0.2 sh -c \
	'echo $$ >'"$dir"'/killed.$RANK; [ $RANK = 1 ] && kill -9 $$; exec sleep 60'
expect_status 137
expect err '^oriel-run: rank 1 \(pid [0-9]+\) was killed by signal 9 \(Killed\); ending the job$'
expect err '^oriel-run: ending ranks 0,2, still running 0.2 s later$'
all_gone "$dir"/killed.*

# Rank 1 is killed.  The kernel first closes its end of the fifo, then frees its memory, then
# reports its status.  Rank 0 has ended long before that, but only because of rank 1.
memory=/dev/shm
[ -w $memory ] || memory=$dir
mkfifo "$dir/life"
run_it slow_death -n 3 --grace 60 sh -c 'case $RANK in
	1) exec 3>'"$memory"'/oriel_test.$$ 9>'"$dir"'/life; rm '"$memory"'/oriel_test.$$
	   head -c 512M /dev/zero >&3 9>&-; kill -9 $$ ;;
	0) exec 3<'"$dir"'/life; read -r line <&3; exit 5 ;;
	esac'
expect_status 137
expect err '^oriel-run: rank 1 \(pid [0-9]+\) was killed by signal 9'
expect err '^oriel-run: rank 0 then exited with status 5$'

# If ranks exit by themselves, the first one counts, even if oriel-run finds several at once.
name=first_exit
"$run" -n 3 --grace 60 sh -c 'echo $$ >'"$dir"'/exits.$RANK
	until [ -e '"$dir"'/go.$RANK ]; do sleep 0.02; done; exit $((RANK + 1))' >"$dir/out" \
		2>"$dir/err" &
job=$!
wait_for "$dir/exits.0" "$dir/exits.1" "$dir/exits.2"
kill -STOP $job
for rank in 2 0 1; do
	touch "$dir/go.$rank"
	all_gone "$dir/exits.$rank"
done
kill -CONT $job
wait $job
status=$?
expect_status 3
expect err '^oriel-run: rank 2 \(pid [0-9]+\) exited with status 3$'

# A rank that aborts because another one was killed does not hide that one.
name=killed_then_aborted
"$run" -n 2 --grace 60 sh -c 'echo $$ >'"$dir"'/aborts.$RANK; ulimit -c 0
	until [ -e '"$dir"'/end.$RANK ]; do sleep 0.02; done
	[ $RANK = 0 ] && kill -ABRT $$; kill -SEGV $$' \
	>"$dir/out" 2>"$dir/err" &
job=$!
wait_for "$dir/aborts.0" "$dir/aborts.1"
kill -STOP $job
for rank in 0 1; do
	touch "$dir/end.$rank"
	all_gone "$dir/aborts.$rank"
done
kill -CONT $job
wait $job
status=$?
expect_status 139

run_it own_words_first -n 2 sh -c '[ $RANK = 1 ] && { echo why >&2; exit 3; }; exit 0'
expect_status 3
checks=$((checks + 1))
[ "$(head -n 1 "$dir/err")" = "[1] why" ] || fail "the rank's own line is not first"

run_it timeout -n 3 --timeout 0.3 sh -c \
	'echo $$ >'"$dir"'/timeout.$RANK; [ $RANK = 1 ] || exec sleep 60'
expect_status 124
# Rank 1 has usually ended by then.
expect err '^oriel-run: .*--timeout.*ranks 0(,|-)2'
all_gone "$dir"/timeout.*

run_it not_found -n 8 /no/such/program
expect_status 127
expect_lines err 1
expect err "^oriel-run: cannot run '/no/such/program': No such file or directory$"

# A program of this folder, named as mpirun would take it.
printf '#!/bin/sh\n' >"$dir/here" && chmod +x "$dir/here"
cd "$dir" && run_it in_this_folder -n 2 here
cd "$OLDPWD" || exit 1
expect_status 127
expect err "^oriel-run: cannot run 'here': .*; write \./here for the file in this folder$"

run_it not_executable -n 8 /etc/passwd
expect_status 126
expect_lines err 1
expect err "^oriel-run: cannot run '/etc/passwd': Permission denied$"

run_it as_mpirun -np 2 true
expect_status 0

for bad in '' '-n' '-n 0 true' '-n x true' '-n 4' '-n 9999999 true' '--unknown -n 2 true' '-x' \
	'-n 2 --timeout 0 true' '-n 2 --timeout -1 true' '-n 2 --timeout nan true' \
	'-n 2 --grace 0 true' '-n 4 --topology 2x3 true' '-n 4 --topology 0,0,1 true' \
	'-n 1 --topology -1 true'; do
	# shellcheck disable=SC2086 # the words are the arguments
	run_it "usage: $bad" $bad
	expect_status 2
	expect_lines err 1
	expect_lines out 0
done

run_it help --help
expect_status 0
expect out '^Usage: oriel-run -n N'
expect_lines err 0

# ---- signals to oriel-run ------------------------------------------------------------------------

# A rank that ends at SIGINT, one that does not, and a grandchild in a session of its own.
stubborn='echo $$ >DIR/FILE.$RANK
case $RANK in
0) exec sleep 60 ;;
1) trap "" INT TERM; sleep 60 & echo $! >DIR/FILE.sub; wait; sleep 60 ;;
2) setsid sleep 60 & echo $! >DIR/FILE.session; wait ;;
esac'

# start NAME GRACE: a job of three such ranks in the background; $job is its pid
start() {
	name=$1
	: >"$dir/err"
	script=$(echo "$stubborn" | sed "s,DIR,$dir,g; s,FILE,$1,g")
	"$run" -n 3 --grace "$2" sh -c "$script" >"$dir/out" 2>"$dir/err" &
	job=$!
	wait_for "$dir/$1.0" "$dir/$1.1" "$dir/$1.2" "$dir/$1.sub" "$dir/$1.session"
}

start interrupt 0.3
kill -INT $job
wait $job
status=$?
expect_status 130
expect err '^oriel-run: signal 2 \(Interrupt\); ending the job$'
all_gone "$dir"/interrupt.*

# without the second one it would wait for two minutes
start interrupt_twice 120
kill -INT $job
wait_err 'signal 2 \(Interrupt\)'
before=$(date +%s)
kill -INT $job
wait $job
status=$?
expect_status 130
checks=$((checks + 1))
[ $(($(date +%s) - before)) -lt 60 ] || fail "the second interrupt did not kill at once"
all_gone "$dir"/interrupt_twice.*

start terminate 0.3
kill -TERM $job
wait $job
status=$?
expect_status 143
all_gone "$dir"/terminate.*

# A child of a rank gets the signal too, and can clean up before it is killed.
name=family
"$run" -n 1 --grace 60 sh -c \
	'sh -c "trap \"echo asked >$0/asked; exit\" TERM; echo \$\$ >$0/family
		while :; do sleep 0.05; done" & wait' \
	"$dir" >"$dir/out" 2>"$dir/err" &
job=$!
wait_for "$dir/family"
kill -TERM $job
wait $job
status=$?
expect_status 143
all_gone "$dir/family"
checks=$((checks + 1))
[ -s "$dir/asked" ] || fail "the rank's child was not asked to end"

# SIGKILL: the ranks end with oriel-run, and so do their children, also in other sessions.
start kill 2
kill -KILL $job
wait $job 2>/dev/null
all_gone "$dir"/kill.*

# No oriel-run process whose command line names the folder of this test is left.
checks=$((checks + 1))
tries=0
while grep -lsa "$dir/kill\." /proc/[0-9]*/cmdline >"$dir/out"; do
	tries=$((tries + 1))
	[ $tries -le 600 ] || { fail "a process of oriel-run's own is left behind"; break; }
	sleep 0.05
done

# A job within a job: the inner one's processes have both marks.
name=kill_nested
"$run" -n 1 "$run" -n 2 sh -c 'setsid sleep 60 & echo $! >'"$dir"'/nested.$RANK; wait' >"$dir/out" \
	2>"$dir/err" &
job=$!
wait_for "$dir/nested.0" "$dir/nested.1"
kill -KILL $job
wait $job 2>/dev/null
all_gone "$dir"/nested.*

# A daemon is ended with the job, even if the job succeeded.
run_it left_behind -n 2 --grace 0.2 sh -c 'setsid sleep 60 & echo $! >'"$dir"'/left.$RANK; exit 0'
expect_status 0
expect err '^oriel-run: ending processes that the ranks started and left running$'
all_gone "$dir"/left.*

# ---- output that nobody reads --------------------------------------------------------------------

name=broken_pipe
timeout 100 sh -c '"$0" -n 2 --tag yes 2>"$1/err"; echo $? >"$1/code"' "$run" "$dir" |
	head -n 3 >"$dir/out"
status=$(cat "$dir/code")
expect_status 141
expect_lines out 3

name=full_disk
timeout 100 "$run" -n 2 --tag sh -c 'echo result' >/dev/full 2>"$dir/err"
status=$?
expect_status 1
checks=$((checks + 1))
[ "$(grep -c 'cannot write standard output: No space left on device' "$dir/err")" -eq 1 ] ||
	fail "it is not said once"

# The failure of a rank takes precedence.  If standard error is full, there is no place for a
# message.
name=full_disk_and_failure
timeout 100 "$run" -n 2 --tag sh -c 'echo result; exit 7' >/dev/full 2>"$dir/err"
status=$?
expect_status 7

name=full_stderr
timeout 100 "$run" -n 2 sh -c 'echo result >&2' >"$dir/out" 2>/dev/full
status=$?
: >"$dir/err"
expect_status 1

export ASAN_OPTIONS="$leak_options"
run_it leaks -n 2 --tag sh -c 'echo something; exit $RANK'
expect_status 1

if [ $failures -gt 0 ]; then
	echo "oriel-run: $failures of $checks checks failed"
	exit 1
fi
echo "oriel-run: all $checks checks passed"
