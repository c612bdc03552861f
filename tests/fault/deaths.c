/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/deaths.c - many small jobs; in each, one rank is killed, stopped or starved of memory
 * at a random moment of a named phase.
 *
 * Every survivor must get a status in time, with a text that names the fallen rank.  After the job
 * nothing is left: no process, no file, no descriptor and no mapping of a survivor.  Shared memory
 * has no name, so it ends with its processes.  A killed process leaves its files for oriel-doctor;
 * the next job removes them.
 *
 * DEATHS_COUNT jobs run, of the seeds from DEATHS_SEED on.  A failure prints its seed, and
 * DEATHS_COUNT=1 with that seed runs the job again: make deaths COUNT=1 SEED=n.
 */
#include <dirent.h>
#include <sys/stat.h>

#define POOL_WIDTH 16 /* jobs at once: their ranks also compute */

#include "../../src/boot/tcp.h"
#include "deaths_rank.h"
#include "pool.h"

#define DEADLINE_S 8.0 /* of jobs with a rank that only the deadline can find */
#define DEADLINE_TEXT "8"
#define COUNT 40
#define SEED 20261116
#define COUNT_MAX 100000

static const char *const kind_names[KINDS] = { "killed", "stopped", "starved" };
static const char *const transport_names[TRANSPORTS] = { "mapped", "queued", "mixed" };

/* What came of a job; shared with its process. */
struct verdict {
	int ran, named;
	int unharmed;   /* the rank had no memory to get, and needed none: nothing to name */
	double seconds; /* the slowest survivor, from the fall to its status */
};

static struct verdict *verdicts;
static uint64_t first_seed;

/* ---- what the seed decides ------------------------------------------------------------------- */

static uint64_t mixed(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Seeds that follow each other go through all phases, kinds and transports in turn. */
static void fate_draw(struct fate *f, uint64_t seed)
{
	uint64_t cell = seed * 31 % (PHASES * KINDS * TRANSPORTS), state = seed;

	memset(f, 0, sizeof(*f));
	f->phase = (enum phase)(cell % PHASES);
	f->kind = (enum kind)(cell / PHASES % KINDS);
	f->transport = (enum transport)(cell / PHASES / KINDS);
	f->nranks = f->transport == MIXED ? 3 + (int)(mixed(&state) % 2) :
					    2 + (int)(mixed(&state) % 3);
	f->victim = (int)(mixed(&state) % (uint64_t)f->nranks);
	f->variant = (int)(mixed(&state) % (uint64_t)phases[f->phase].variants);
	f->strike = 2 + (int)(mixed(&state) % DEATHS_ROUNDS);
	f->permille = (unsigned)(mixed(&state) % 1100);
}

static void set_transport(const struct fate *f)
{
	static const char *const topologies[TRANSPORTS][5] = {
		{ NULL },
		{ NULL, NULL, "0,1", "0,1,2", "0,1,2,3" },
		{ NULL, NULL, NULL, "0,0,1", "0,0,1,1" },
	};
	const char *topology = topologies[f->transport][f->nranks];

	if (topology)
		setenv("ORIEL_TOPOLOGY", topology, 1);
}

/* ---- a rank ---------------------------------------------------------------------------------- */

/* Mappings of this process whose name has that word. */
static int count_maps(const char *word)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	while (maps && fgets(line, sizeof(line), maps))
		n += strstr(line, word) != NULL;
	if (maps)
		fclose(maps);
	return n;
}

/* The rendezvous of rank 0 ends after its ranks, on its own thread. */
static void check_nothing_held(int fds_before)
{
	double until = scenario_now() + DEADLINE_S + JOB_SPARE_S;
	int fds;

	while ((fds = scenario_open_fds()) != fds_before && scenario_now() < until) {
		usleep(2000);
		ori_tcp_hub_reap();
	}
	CHECK_EQ(fds, fds_before);
	CHECK_EQ(count_maps("memfd:oriel"), 0);
}

static struct fate *fate; /* of this process's job; shared with its ranks */

/* "rank 1" is not named by "rank 12". */
static int names_rank(const char *text, int rank)
{
	char word[24];
	size_t bytes = (size_t)snprintf(word, sizeof(word), "rank %d", rank);

	for (const char *at = text; (at = strstr(at, word)); at += bytes)
		if (at[bytes] < '0' || at[bytes] > '9')
			return 1;
	return 0;
}

/*
 * Blocks of a kernel may wait for different ranks.  Each logs why it gave up, and the status tells
 * of the first block only.
 */
static int a_block_named(const struct job *job, int rank)
{
	char text[16000], head[32], *line, *rest;
	ssize_t n = pread(job->log_fd, text, sizeof(text) - 1, 0);
	size_t bytes = (size_t)snprintf(head, sizeof(head), "oriel: rank %d: error: ", rank);

	text[n < 0 ? 0 : n] = '\0';
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (!strncmp(line, head, bytes) && names_rank(line + bytes, fate->victim))
			return 1;
	return 0;
}

static void rank_main(struct job *job, int rank)
{
	struct mortal m = { .fate = fate, .rank = rank, .n = fate->nranks };
	uint64_t start = ori_now_ns();
	int fds = scenario_open_fds(), err;

	err = live(&m);
	job_note(job, rank, err, start);
	job->ranks[rank].told = fate->phase == BARRIER && a_block_named(job, rank);
	CHECK_EQ(count_maps("/dev/shm/"), 0); /* such memory would outlive its processes */
	/* a program that cannot go on tells the others */
	if (rank == fate->victim && err && m.comm)
		oriel_comm_abort(m.comm, err);
	take_down(&m);
	job->ranks[rank].told_status = (int)(m.slowest_ns / 1000000);
	if (rank != fate->victim)
		check_nothing_held(fds);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

/* A death is reported at once; of a rank that has not joined yet only the deadline can tell. */
static int waits_for_deadline(void)
{
	return fate->kind != KILLED || fate->phase == BOOT;
}

static void judge_survivor(const struct job *job, int r, struct verdict *v)
{
	const struct job_rank *one = &job->ranks[r];
	double most = waits_for_deadline() ? DEADLINE_S + JOB_SPARE_S : JOB_SOON_S;
	double seconds = one->at_ns > fate->fell_ns ? (double)(one->at_ns - fate->fell_ns) / 1e9 :
						      0;
	int named = one->status < 0 && (names_rank(one->error, fate->victim) || one->told);

	if (!one->ran || job->codes[r])
		check_fail(__FILE__, __LINE__, "rank %d ended with %d", r, job->codes[r]);
	if (!v->unharmed && !named)
		check_fail(__FILE__, __LINE__, "rank %d got %s, and does not name rank %d: \"%s\"",
			   r, oriel_status_name(one->status), fate->victim, one->error);
	if (v->unharmed && one->status)
		check_fail(__FILE__, __LINE__, "rank %d got %s, but rank %d was well: \"%s\"", r,
			   oriel_status_name(one->status), fate->victim, one->error);
	if (seconds > most || one->told_status / 1e3 > most)
		check_fail(__FILE__, __LINE__,
			   "rank %d: %.1f s to a status, %.1f s in a call that destroys", r,
			   seconds, one->told_status / 1e3);
	v->named = v->named && named;
	if (seconds > v->seconds)
		v->seconds = seconds;
}

/* Alive, a starved rank reports its own failure, or none if it needed no memory. */
static void judge(struct job *job, struct verdict *v)
{
	const struct job_rank *victim = &job->ranks[fate->victim];
	int code = job->codes[fate->victim];

	CHECK(fate->fell_ns != 0);
	if (fate->kind == STARVED) {
		v->unharmed = victim->ran && !victim->status;
		if (!victim->ran || code)
			check_fail(__FILE__, __LINE__, "the starved rank ended with %d", code);
	} else {
		CHECK_EQ(code, 128 + SIGKILL);
	}
	v->named = 1;
	for (int r = 0; r < fate->nranks; r++)
		if (r != fate->victim)
			judge_survivor(job, r, v);
}

/* ---- nothing is left ------------------------------------------------------------------------- */

static int count_files(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	int n = 0;

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

static void next_job_main(void)
{
	struct oriel_comm *comm;

	setenv("ORIEL_LAUNCHER", "none", 1);
	unsetenv("ORIEL_TOPOLOGY");
	_exit(oriel_init(&comm) || oriel_finalize(comm));
}

/* Only a rank that was killed leaves files, and the next job of the user removes them. */
static void check_files(const char *folder)
{
	int status = -1;
	pid_t pid;

	if (fate->kind == STARVED)
		CHECK_EQ(count_files(folder), 0);
	fflush(NULL);
	pid = fork();
	if (!pid)
		next_job_main();
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(count_files(folder), 0);
	CHECK_EQ(rmdir(folder), 0);
}

static void check_nothing_left(const char *folder, int fds_before)
{
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	check_files(folder);
	CHECK_EQ(scenario_open_fds(), fds_before);
}

/* ---- a job ----------------------------------------------------------------------------------- */

static void show(const struct job *job, uint64_t seed)
{
	const struct fate *f = fate;

	fprintf(stderr, "seed %" PRIu64 ": %s, rank %d of %d %s (%s), variant %d, round %d\n", seed,
		phases[f->phase].name, f->victim, f->nranks, kind_names[f->kind],
		transport_names[f->transport], f->variant, f->strike);
	for (int r = 0; r < f->nranks; r++)
		fprintf(stderr, "  rank %d: exit %d, %s after %.2f s: %s\n", r, job->codes[r],
			oriel_status_name(job->ranks[r].status), job->ranks[r].seconds,
			job->ranks[r].error);
}

static void run_job(uint64_t seed, struct verdict *v)
{
	char folder[] = "/tmp/oriel-deaths-XXXXXX";
	int fds = scenario_open_fds();
	struct job job;

	REQUIRE(mkdtemp(folder) != NULL);
	setenv("ORIEL_DOCTOR", folder, 1);
	set_transport(fate);
	if (job_open(&job, fate->nranks, waits_for_deadline() ? DEADLINE_TEXT : JOB_NEVER) ||
	    job_keep_log(&job))
		return;
	for (int r = 0; r < fate->nranks; r++)
		job_start(&job, r, NULL, rank_main);
	close(job.listen_fd); /* or the end of the rendezvous could not be seen */
	job.listen_fd = -1;
	for (int r = 0; r < fate->nranks; r++)
		if (r != fate->victim)
			job_wait(&job, r);
	if (fate->kind == STOPPED)
		job_kill(&job, fate->victim);
	job_wait(&job, fate->victim);
	judge(&job, v);
	if (check_failures)
		show(&job, seed);
	job_close(&job);
	check_nothing_left(folder, fds);
}

static void run_case(int i)
{
	uint64_t seed = first_seed + (uint64_t)i;

	prctl(PR_SET_CHILD_SUBREAPER, 1); /* a process that a rank left behind is found here */
	fate = pool_shared(sizeof(*fate));
	fate_draw(fate, seed);
	run_job(seed, &verdicts[i]);
	if (check_failures)
		fprintf(stderr, "again: make deaths COUNT=1 SEED=%" PRIu64 "\n", seed);
	munmap(fate, sizeof(*fate));
	__atomic_store_n(&verdicts[i].ran, 1, __ATOMIC_RELEASE);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void print_cell(int phase, int kind, int transport, int count)
{
	int jobs = 0, named = 0, unharmed = 0;
	double worst = 0;

	for (int i = 0; i < count; i++) {
		struct fate f;

		fate_draw(&f, first_seed + (uint64_t)i);
		if ((int)f.phase != phase || (int)f.kind != kind || (int)f.transport != transport)
			continue;
		jobs++;
		named += verdicts[i].named && !verdicts[i].unharmed;
		unharmed += verdicts[i].unharmed;
		if (verdicts[i].seconds > worst)
			worst = verdicts[i].seconds;
	}
	if (jobs)
		printf("| %-10s | %-7s | %-6s | %4d | %5d | %8d | %7.2f |\n", phases[phase].name,
		       kind_names[kind], transport_names[transport], jobs, named, unharmed, worst);
}

static void print_table(int count)
{
	printf("| phase      | rank is | peers  | jobs | named | unharmed | s worst |\n");
	printf("|---|---|---|---|---|---|---|\n");
	for (int p = 0; p < PHASES; p++)
		for (int k = 0; k < KINDS; k++)
			for (int t = 0; t < TRANSPORTS; t++)
				print_cell(p, k, t, count);
}

static int is_wanted(int i)
{
	(void)i;
	return 1;
}

static long number_of(const char *variable, long otherwise)
{
	const char *text = getenv(variable);

	return text && *text ? strtol(text, NULL, 10) : otherwise;
}

TEST(survivors_name_the_fallen_rank)
{
	struct pool pool = { .wanted = is_wanted, .run = run_case, .what = "job" };

	pool.count = (int)number_of("DEATHS_COUNT", COUNT);
	first_seed = (uint64_t)number_of("DEATHS_SEED", SEED);
	REQUIRE(pool.count > 0 && pool.count <= COUNT_MAX);
	verdicts = pool_shared((size_t)pool.count * sizeof(*verdicts));
	printf("%d jobs from seed %" PRIu64 "\n", pool.count, first_seed);
	pool_run(&pool);
	print_table(pool.count);
}
