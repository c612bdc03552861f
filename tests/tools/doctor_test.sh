#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/tools/doctor_test.sh DOCTOR RUN PLAY PLAY_FAKE - oriel-doctor on jobs that hang on purpose.
# PLAY is doctor_play; PLAY_FAKE is the same on the fake CUDA driver.  A check that fails prints
# what it wanted.  Exit status: 1 if a check failed.
set -u
doctor=$1
run=$2
play=$3
play_fake=$4
failed=0
dir=$(mktemp -d) || exit 1
for name in $(compgen -e | grep '^ORIEL_') RANK WORLD_SIZE MASTER_ADDR MASTER_PORT; do
	unset "$name"
done
mkdir -m 700 "$dir/doctor"
export ORIEL_DOCTOR=$dir/doctor ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
job=
server=

fail() {
	echo "doctor_test.sh: $*" >&2
	failed=1
}

end_job() {
	[ -n "$job" ] && kill "$job" 2>/dev/null && wait "$job" 2>/dev/null
	job=
}
trap '[ -n "$server" ] && kill "$server"; end_job; rm -rf "$dir"' EXIT

# start RANKS PROGRAM PLAY [VARIABLE=VALUE...]: a job that hangs for a minute.
start() {
	local n=$1 program=$2 name=$3
	shift 3
	env ORIEL_TIMEOUT=60 PLAY_S=60 "$@" "$run" -n "$n" --grace 0.1 "$program" "$name" \
		>"$dir/job" 2>&1 &
	job=$!
}

# member PATH: prints a member of the last JSON.
member() {
	python3 -c "import json, sys; print(json.load(open(sys.argv[1]))$1)" "$dir/json"
}

# holds EXPRESSION: is true for the object d, which is the last JSON; r is its list of ranks.
holds() {
	python3 - "$dir/json" "$1" <<-'PY'
		import json, sys
		d = json.load(open(sys.argv[1], encoding="utf-8"))
		r = d["ranks"]
		sys.exit(0 if eval("(" + sys.argv[2] + ")") else 1)
	PY
}

# judge VERDICT WAITERS [CONDITION]: asks until the doctor says so and as many ranks wait.  Ranks
# come to their wait one after another, and the first ones make a verdict already; on a busy machine
# seconds may lie between them.  The doctor counts a wait from 0.1 s on; longer ones count here, so
# that it says the same when asked again.  The text is in out, the JSON in json.
judge() {
	local old="any(w['seconds'] >= 0.5 for w in x['waits'])" tries=100
	local want="d['verdict'] == '$1' and sum(1 for x in r if $old) == $2 and (${3:-True})"
	until timeout 30 "$doctor" --json >"$dir/json" 2>"$dir/err"
		[ -s "$dir/json" ] && holds "$want"; do
		tries=$((tries - 1))
		if [ "$tries" = 0 ]; then
			fail "not in time: $want: $(cat "$dir/json" "$dir/err"; tail "$dir/job")"
			break
		fi
		sleep 0.1
	done
	timeout 30 "$doctor" >"$dir/out" 2>&1
}

# json EXPRESSION: holds, or the test fails.
json() {
	holds "$1" || fail "not true of the JSON: $1: $(cat "$dir/json")"
}

# has FILE TEXT...: each text occurs in the file.
has() {
	local file=$1 text
	shift
	for text in "$@"; do
		grep -qF -- "$text" "$dir/$file" ||
			fail "no \"$text\" in $file: $(head -n 20 "$dir/$file")"
	done
}

# Without a job; and the command line.
"$doctor" >"$dir/out" 2>&1
[ $? = 1 ] || fail "exit status without a job is not 1"
has out "no job of this user runs here"
for option in -h --help --version; do
	"$doctor" $option >"$dir/out" || fail "$option fails"
	has out oriel-doctor
done
"$doctor" --jsno >"$dir/out" 2>&1
[ $? = 2 ] || fail "exit status of a wrong option is not 2"
"$doctor" 1 2 >"$dir/out" 2>&1
[ $? = 2 ] || fail "exit status of two jobs is not 2"
"$doctor" x >"$dir/out" 2>&1
[ $? = 2 ] || fail "exit status of a bad job is not 2"

# Two ranks, mapped, then queued; a ring of three; kernels on CPU threads and on the fake GPU.
start 2 "$play" ring
judge deadlock 2
has out "deadlock: rank 0 waits for 1 waits for 0" \
	"in oriel_window_wait_signal for signal 5 of window 0 from rank 1: have 0, want 7"
json 'd["schema"] == 1 and d["deadlocks"] == [[0, 1]] and d["late"] == []'
json 'r[0]["waits"][0]["call"] == "oriel_window_wait_signal" and r[0]["waits"][0]["peers"] == [1]'
json '[r[0]["waits"][0][k] for k in ("window", "id", "have", "want")] == [0, 5, 0, 7]'
json 'r[1]["mark"] == "deadlock" and r[0]["kinds"] == "sm"'

# The picture, the list, and every way to name the job.
"$doctor" --svg >"$dir/svg"
[ $? = 3 ] || fail "exit status of a deadlock is not 3"
python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$dir/svg" ||
	fail "the SVG is not XML"
[ "$(grep -c 'class="wait"' "$dir/svg")" = 2 ] || fail "the SVG does not have two arrows"
has svg "deadlock: rank 0 waits for 1 waits for 0"
"$doctor" --list >"$dir/out"
has out "2 ranks"
number=$(member '["job"]')
pid=$(member '["ranks"][1]["pid"]')
for name in "$number" "$pid" "$job"; do
	"$doctor" "$name" >"$dir/out" 2>&1
	[ $? = 3 ] || fail "job $name is not found: $(cat "$dir/out")"
done
"$doctor" 1 >"$dir/out" 2>&1
[ $? = 1 ] || fail "job 1 is found"

# SIGUSR1: the rank prints the graph, and nothing else changes.
kill -USR1 "$pid"
for _ in $(seq 300); do
	grep -q "doctor: deadlock: rank 0 waits for 1 waits for 0" "$dir/job" && break
	sleep 0.1
done
has job "who waits for whom, after SIGUSR1" "doctor: deadlock: rank 0 waits for 1 waits for 0"
kill -0 "$pid" || fail "the rank has ended after SIGUSR1"

# A record is private.
[ -z "$(find "$dir/doctor" -name '*.job' -perm /077)" ] || fail "others may read a record"

# The page: only with its token, only on the loopback interface.
"$doctor" --serve >"$dir/url" &
server=$!
for _ in $(seq 300); do
	[ -s "$dir/url" ] && break
	sleep 0.1
done
python3 - "$(cat "$dir/url")" <<-'PY' || fail "the page"
	import json, sys, urllib.error, urllib.request

	def get(url, host=None):
	    request = urllib.request.Request(url, headers={"Host": host} if host else {})
	    try:
	        with urllib.request.urlopen(request, timeout=20) as answer:
	            return answer.status, answer.headers, answer.read().decode()
	    except urllib.error.HTTPError as error:
	        return error.code, error.headers, error.read().decode()

	url = sys.argv[1]
	base, token = url.split("?")
	assert base.startswith("http://127.0.0.1:") and len(token) == len("token=") + 32
	status, headers, text = get(url)
	assert status == 200 and "Who waits for whom" in text and "<script>" in text
	assert headers["Content-Type"].startswith("text/html")
	assert "default-src 'none'" in headers["Content-Security-Policy"]
	status, headers, text = get(base + "job.json?" + token)
	job = json.loads(text)
	assert status == 200 and job["deadlocks"] == [[0, 1]], job
	status, headers, text = get(base + "graph.svg?" + token)
	assert status == 200 and text.startswith("<svg") and "deadlock" in text
	assert get(base + "nothing?" + token)[0] == 404
	for bad in (base, base + "job.json", base + "job.json?token=" + "0" * 32):
	    status, headers, text = get(bad)
	    assert status == 403 and "rank" not in text, bad
	assert get(url, host="example.org")[0] == 403
PY
kill "$server"
wait "$server" 2>/dev/null
server=
end_job
[ -z "$(ls "$dir/doctor")" ] || "$doctor" --list >/dev/null # removes records of killed ranks
[ -z "$(ls "$dir/doctor")" ] || fail "records are left: $(ls "$dir/doctor")"

start 2 "$play" ring ORIEL_TOPOLOGY=2x1
judge deadlock 2
has out "deadlock: rank 0 waits for 1 waits for 0"
json 'r[0]["kinds"] == "sq" and "soft" in r[0]["engine"]'
end_job

start 3 "$play" ring
judge deadlock 3
has out "deadlock: rank 0 waits for 1 waits for 2 waits for 0"
json 'd["deadlocks"] == [[0, 1, 2]]'
end_job

start 3 "$play" kernel
judge deadlock 3
json 'd["deadlocks"] == [[0, 1, 2]] and r[0]["waits"][0]["call"] == "oriel_wait_signal_from"'
end_job

for topology in 1x2 2x1; do
	start 2 "$play_fake" kernel ORIEL_DEVICE=cuda ORIEL_TOPOLOGY=$topology
	judge deadlock 2
	json 'd["deadlocks"] == [[0, 1]] and r[0]["device"] == "cuda"'
	json 'r[0]["waits"][0]["text"] == "signal 5 of window 0 from rank 1: have 0, want 7"'
	end_job
done

# One asleep: everybody waits for rank 1 in the end.
for topology in 1x4 4x1; do
	start 4 "$play" asleep ORIEL_TOPOLOGY=$topology
	judge late 3
	has out "late: rank 1 waits for nothing in Oriel; 3 ranks wait for it (0,2-3)"
	json 'd["late"] == [{"rank": 1, "waiting": 3, "ranks": "0,2-3"}] and d["deadlocks"] == []'
	end_job
done

# One stopped: it does not answer, and the others know what it waits for.
start 3 "$play" ring
judge deadlock 3
pid=$(member '["ranks"][2]["pid"]')
kill -STOP "$pid"
judge deadlock 3 'not r[2]["answers"]'
has out "rank 2 does not answer: process $pid is stopped" "rank 2 waits"
json 'not r[2]["answers"] and "stopped" in r[2]["silent"] and r[2]["waits"][0]["peers"] == [0]'
kill -CONT "$pid"
end_job

# A rank without a record, like one on another machine: it is asked through the boot.
for topology in 1x3 3x1; do
	start 3 "$play" ring ORIEL_TOPOLOGY=$topology PLAY_AWAY=1
	judge deadlock 3 'r[1]["answers"]'
	[ "$(ls "$dir/doctor"/*.job | wc -l)" = 2 ] || fail "rank 1 has a record"
	json 'd["deadlocks"] == [[0, 1, 2]] and r[1]["answers"] and r[1]["pid"] > 0'
	json 'r[1]["waits"][0]["call"] == "oriel_window_wait_signal" and r[1]["windows"] == 1'
	end_job
done

# A signal that a NIC loses: its sender waits for its own operation, with the state of the queue.
start 2 "$play" lost ORIEL_TOPOLOGY=2x1 ORIEL_SOFT_FAULTS=seed=1,stall_at=1
judge late 2
has out "late: rank 1 waits for completion on lane 0 of window 0 for operations to rank 0" \
	"rank 1 queue to 0, lane 0: 1 posted, 0 seen complete" \
	"rank 0 waits" "in oriel_window_wait_signal for signal 5 of window 0 from rank 1"
json 'd["late"][0]["rank"] == 1 and r[1]["queues"] == [
	{"peer": 0, "lane": 0, "posted": 1, "seen_complete": 0, "status": 0}]'
end_job

# A barrier names its call and who is missing.
start 3 "$play" barrier
judge late 2
has out "in oriel_window_barrier for barrier 2 of window 0" "late: rank 2 waits for nothing"
end_job

# A collective call of the host needs all ranks that have not come.
start 3 "$play" crossed
judge deadlock 3
has out "rank 0 waits" "in oriel_comm_barrier for ranks that have not called it" \
	"deadlock: rank 0 waits for 1 waits for 0"
json 'r[0]["waits"][0]["peers"] == [1, 2] and r[2]["mark"] == "stuck"'
end_job

# A cycle over two comms, whose ranks have different numbers.
start 2 "$play" two_comms
judge deadlock 2
json 'd["deadlocks"] == [[0, 1]] and r[0]["waits"][0]["comm"] != r[1]["waits"][0]["comm"]'
end_job

# Ranks that are threads of one process.
start 1 "$play" threads
judge deadlock 3
json 'd["deadlocks"] == [[0, 1, 2]] and len({rank["pid"] for rank in r}) == 1'
kill -USR1 "$(member '["ranks"][1]["pid"]')"
for _ in $(seq 300); do
	grep -q "doctor: deadlock: rank 0 waits for 1 waits for 2 waits for 0" "$dir/job" && break
	sleep 0.1
done
[ "$(grep -c "who waits for whom, after SIGUSR1" "$dir/job")" = 1 ] ||
	fail "not one graph of thread ranks: $(cat "$dir/job")"
end_job

# At a deadline one rank prints the graph.
start 2 "$play" ring ORIEL_TIMEOUT=5
wait "$job"
job=
[ "$(grep -c "who waits for whom, at a deadline" "$dir/job")" = 1 ] ||
	fail "not one graph at a deadline: $(cat "$dir/job")"
has job "doctor: deadlock: rank 0 waits for 1 waits for 0"

# All ranks pass the deadline at the same time, most of them in a collective call of the host.  They
# stay until the graph is collected.
for topology in 1x3 3x1; do
	start 3 "$play" forgotten ORIEL_TIMEOUT=5 ORIEL_LATE=0.3 ORIEL_TOPOLOGY=$topology
	wait "$job"
	job=
	[ "$(grep -c "who waits for whom, at a deadline" "$dir/job")" = 1 ] ||
		fail "not one graph at the deadline of a call: $(cat "$dir/job")"
	grep -q "have 0, want 7; rank 2 itself waits [.0-9]* s in oriel_finalize for" \
		"$dir/job" || fail "rank 2 is not in oriel_finalize: $(cat "$dir/job")"
	has job "doctor: deadlock: rank 1 waits for 2 waits for 1"
	grep -q "nothing is known" "$dir/job" && fail "a rank left early: $(cat "$dir/job")"
done

start 3 "$play" too_late ORIEL_TIMEOUT=4
wait "$job"
job=
[ "$(grep -c "who waits for whom, at a deadline" "$dir/job")" = 1 ] ||
	fail "not one graph when a rank comes after the deadline: $(cat "$dir/job")"
has job "doctor: late: rank 2 waits for nothing in Oriel; 2 ranks wait for it (0-1)"

# Without a directory, or with off, the job runs and is not found.
start 2 "$play" ring ORIEL_DOCTOR=off ORIEL_TIMEOUT=2
sleep 1
"$doctor" >"$dir/out" 2>&1
[ $? = 1 ] || fail "a job with ORIEL_DOCTOR=off is found"
wait "$job"
job=
chmod 755 "$dir/doctor"
"$doctor" >"$dir/out" 2>&1
[ $? = 1 ] || fail "a directory that others may read is used"
has out "belongs to this user alone"
start 2 "$play" ring ORIEL_TIMEOUT=5 ORIEL_LOG=info
wait "$job"
job=
has job "oriel-doctor cannot ask this process"

exit $failed
