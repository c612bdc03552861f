/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/contract_rows.c - which rows of the contract suite a program has.
 *
 * Owns the tables of transports and groups, and the list of cases that a CUDA device leaves out.
 * Linked into every program of tests/contract/.  All of it runs before main().
 */
#include "contract.h"

#define CPU_THREADS 300   /* of all ranks and blocks of a row together */
#define CUDA_THREADS 8192 /* so that six programs fit on a GPU beside each other */
#define CPU_WIDE 256      /* from here on a row is left out by "quick" */
/* "few": one row in so many.  Ranks that are processes take seconds to start on CUDA. */
#define FEW_CPU_PROCESSES 3
#define FEW_PROCESSES 18
#define FEW_KILLED 4 /* there are few cases */
#define FEW_THREADS 2
#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

/* A new transport is one line: a comm topology for each number of ranks; "" leaves that one out. */
struct contract_transport {
	const char *name;
	const char *topology[5]; /* for 1, 2, 3, 4, 8 ranks; NULL: as found */
};

static const struct contract_transport cpu_transports[] = {
	{ "mapped", { NULL, NULL, NULL, "", NULL } },
	{ "queued", { "", "2x1", "3x1", "", "8x1" } },
	{ "mixed", { "", "", "0,0,1", "2x2", "2x4" } },
	{ "nodes", { "", "", "", "", "4x2" } },
};

static const struct contract_transport cuda_transports[] = {
	{ "mapped", { NULL, NULL, "", NULL, NULL } },
	{ "queued", { "", "2x1", "3x1", "", "" } },
	{ "mixed", { "", "", "", "2x2", "2x4" } },
};

/* What a machine without a GPU runs on the fake driver. */
static const struct contract_transport fake_transports[] = {
	{ "mapped", { "", NULL, "", NULL, "" } },
	{ "queued", { "", "2x1", "", "", "" } },
	{ "mixed", { "", "", "", "2x2", "" } },
};

/*
 * Ranks of two hosts: all in reach over the fabric; or, of each host, one in either of two nodes.
 */
static const struct contract_transport fabric_transports[] = {
	{ "fabric", { "", NULL, "", NULL, "" } },
	{ "fabricmixed", { "", "", "", "0,1,0,1", "" } },
};

/* What the mlx5 engine runs over the stub of its libraries. */
static const struct contract_transport mlx5_transports[] = {
	{ "mlx5", { NULL, "2x1", "", "4x1", "" } },
	{ "mlx5mixed", { "", "", "", "2x2", "" } },
};

static const int rank_counts[5] = { 1, 2, 3, 4, 8 };

struct contract_threads {
	int threads, launched, scope;
};

static const struct contract_threads cpu_groups[] = {
	{ 1, 1, ORIEL_GROUP_BLOCK },
	{ 4, 4, ORIEL_GROUP_BLOCK },
	{ 32, 32, ORIEL_GROUP_BLOCK },
};

static const struct contract_threads cuda_groups[] = {
	{ 1, 1, ORIEL_GROUP_BLOCK },     { 32, 32, ORIEL_GROUP_BLOCK },
	{ 128, 128, ORIEL_GROUP_BLOCK }, { 512, 512, ORIEL_GROUP_BLOCK },
	{ 32, 64, ORIEL_GROUP_WARP },    { 1, 32, ORIEL_GROUP_THREAD },
};

static const struct contract_threads fake_groups[] = {
	{ 1, 1, ORIEL_GROUP_BLOCK },
	{ 4, 4, ORIEL_GROUP_BLOCK },
	{ 1, 4, ORIEL_GROUP_THREAD },
};

static const struct contract_threads mlx5_groups[] = {
	{ 1, 1, ORIEL_GROUP_BLOCK },
	{ 4, 4, ORIEL_GROUP_BLOCK },
};

/* Cases that make no sense on a CUDA device, and why. */
static const struct contract_left_out {
	const char *name, *why;
} cuda_leaves_out[] = {
	{ "host_two_threads",
	  "both threads' operations would wait for each other on the comm's one "
	  "stream; with streams of their own: tests/cuda/streams.cu" },
	{ "memory_window_over_malloc",
	  "the host's memory is no CUDA window: tests/cuda/memory.cu" },
	{ "memory_window_over_malloc_on_one_rank",
	  "the host's memory is no CUDA window: tests/cuda/memory.cu" },
	{ "memory_buffer_of_malloc", "the host's memory is no CUDA window: tests/cuda/memory.cu" },
	{ "packet_longest", "the boxes do not fit in a GPU's control memory" },
	{ "regression_free_after_abort", "puts of a stream end at oriel_comm_sync(), and memory is "
					 "freed after it" },
	{ "regression_descriptors_of_windows", "the driver opens descriptors of its own" },
};

/* The word list of ORIEL_CONTRACT, taken out of the environment: the library knows no such name. */
static const char *words(void)
{
	static char kept[64];
	const char *set = getenv("ORIEL_CONTRACT");

	if (set) {
		snprintf(kept, sizeof(kept), "%s", set);
		unsetenv("ORIEL_CONTRACT");
	}
	return kept;
}

int contract_on_cuda(void)
{
	const char *device = getenv("ORIEL_DEVICE");

	return device && !strncmp(device, "cuda", 4);
}

int contract_is_fake(void)
{
	return strstr(words(), "fake") != NULL;
}

int contract_is_mlx5(void)
{
	return strstr(words(), "mlx5") != NULL;
}

static int is_fabric(void)
{
	return strstr(words(), "fabric") != NULL;
}

/* Fits, and is asked for; which of the rows that do are taken is said below. */
static int possible(const struct contract_case *c, const struct contract_row *row)
{
	int all = row->ranks * row->launched * (c->blocks ? c->blocks : 1);
	int gpu = contract_on_cuda() && !contract_is_fake();

	if (row->topology && !row->topology[0])
		return 0;
	if (row->ranks < c->min_ranks || (c->max_ranks && row->ranks > c->max_ranks))
		return 0;
	if (all > (gpu ? CUDA_THREADS : CPU_THREADS))
		return 0;
	if (!gpu && strstr(words(), all >= CPU_WIDE ? "quick" : "wide"))
		return 0;
	if (strstr(words(), row->processes ? "threads" : "processes"))
		return 0;
	if (is_fabric() && !row->processes)
		return 0;
	if (row->threads > 4 && strstr(words(), "narrow"))
		return 0;
	if (c->last_dies && strstr(words(), "nokill"))
		return 0;
	if (!c->last_dies && strstr(words(), "kill") && !strstr(words(), "nokill"))
		return 0;
	return !(row->processes ? c->only_threads : c->only_processes);
}

/*
 * Is this row one of the few?  By the names, so that each program has some, and together they meet
 * every layout, group and kind of rank.
 */
static int among_few(const struct contract_case *c, const struct contract_row *row, int layout,
		     int g)
{
	uint32_t x = 2166136261u ^ (uint32_t)(16 * layout + 2 * g + row->processes);
	uint32_t few = !row->processes ? FEW_THREADS : c->last_dies ? FEW_KILLED : FEW_PROCESSES;

	if (!strstr(words(), "few"))
		return 1;
	if (!contract_on_cuda())
		few = row->processes && !c->last_dies ? FEW_CPU_PROCESSES : 1;
	for (const char *at = c->name; *at; at++)
		x = (x ^ (uint32_t)(unsigned char)*at) * 16777619u;
	return x / 65536 % few == 0;
}

static int wanted_on_cpu(const struct contract_case *c, const struct contract_row *row, int layout,
			 int r, int g)
{
	if (!among_few(c, row, layout, g))
		return 0;
	if (c->shape == CONTRACT_HOST)
		return row->threads == 1;
	if (c->shape == CONTRACT_PAIRS && !c->only_threads && !c->only_processes)
		return row->processes == (r + g) % 2;
	return 1;
}

/*
 * A row costs a context for each rank there, and some kinds of group are alike: each case meets
 * every layout with one or two of the groups, another case with others; threads and processes in
 * turn.
 */
static int wanted_on_cuda(const struct contract_case *c, const struct contract_row *row, int layout,
			  int g, int ngroups)
{
	static const struct contract_case *last;
	static int nth;
	int count, turn;

	if (c != last) {
		last = c;
		nth++;
	}
	count = layout + nth;
	turn = count % ngroups;
	if (c->shape == CONTRACT_HOST && g)
		return 0;
	if (c->shape == CONTRACT_PAIRS && g != turn &&
	    (g != (turn + ngroups / 2) % ngroups || strstr(words(), "quick")))
		return 0;
	if (!among_few(c, row, layout, g))
		return 0;
	if (c->only_threads || c->only_processes || is_fabric() || strstr(words(), "processes"))
		return 1;
	/* so that every group meets threads and processes on every layout, over the cases */
	if (c->shape == CONTRACT_PAIRS)
		return row->processes == (count / ngroups + g) % 2;
	return row->processes == (count + g) % 2;
}

/* ---- making the tests ---------------------------------------------------------------------- */

static struct contract_test *make(const struct contract_case *c, const struct contract_row *row)
{
	struct contract_test *t = (struct contract_test *)calloc(1, sizeof(*t));

	if (!t)
		abort();
	t->c = c;
	if (row)
		t->row = *row;
	t->test.name = t->name;
	t->test.run = contract_run_row;
	return t;
}

/*
 * A process that has used CUDA cannot fork ranks that do, so rows with processes come first there.
 */
static void add(const struct contract_case *c, const struct contract_row *row)
{
	struct contract_test *t = make(c, row);
	char group[24];

	snprintf(group, sizeof(group), "%dthreads", row->threads);
	snprintf(t->name, sizeof(t->name), "%s/%s/%dranks/%s/%s", c->name, row->transport,
		 row->ranks,
		 row->scope == ORIEL_GROUP_BLOCK ? group :
		 row->scope == ORIEL_GROUP_WARP  ? "warp" :
						   "thread",
		 row->processes ? "processes" : "threads");
	if (row->processes && contract_on_cuda())
		check_register_early(&t->test);
	else
		check_register(&t->test);
}

static int left_out(const struct contract_case *c)
{
	for (int i = 0; i < COUNT(cuda_leaves_out) && contract_on_cuda(); i++) {
		struct contract_test *t;

		if (strcmp(cuda_leaves_out[i].name, c->name))
			continue;
		t = make(c, NULL);
		t->why_not = cuda_leaves_out[i].why;
		snprintf(t->name, sizeof(t->name), "%s/cuda", c->name);
		check_register(&t->test);
		return 1;
	}
	return 0;
}

static void add_groups(const struct contract_case *c, const struct contract_transport *transport,
		       int r, int layout)
{
	int cuda = contract_on_cuda(), fake = contract_is_fake(), mlx5 = contract_is_mlx5();
	const struct contract_threads *groups = mlx5 ? mlx5_groups :
						fake ? fake_groups :
						cuda ? cuda_groups :
						       cpu_groups;
	int ngroups = mlx5 ? COUNT(mlx5_groups) :
		      fake ? COUNT(fake_groups) :
		      cuda ? COUNT(cuda_groups) :
			     COUNT(cpu_groups);
	struct contract_row row;

	for (int g = 0; g < ngroups; g++)
		for (row.processes = 0; row.processes < 2; row.processes++) {
			row.transport = transport->name;
			row.topology = transport->topology[r];
			row.ranks = rank_counts[r];
			row.threads = groups[g].threads;
			row.launched = groups[g].launched;
			row.scope = groups[g].scope;
			row.hosts = is_fabric() ? 2 : 0;
			if (possible(c, &row) &&
			    (cuda ? wanted_on_cuda(c, &row, layout, g, ngroups) :
				    wanted_on_cpu(c, &row, layout, r, g)))
				add(c, &row);
		}
}

void contract_register(const struct contract_case *c)
{
	int fake = contract_is_fake(), mlx5 = contract_is_mlx5(), layout = 0;
	const struct contract_transport *transports = mlx5               ? mlx5_transports :
						      is_fabric()        ? fabric_transports :
						      fake               ? fake_transports :
						      contract_on_cuda() ? cuda_transports :
									   cpu_transports;
	int n = mlx5               ? COUNT(mlx5_transports) :
		is_fabric()        ? COUNT(fabric_transports) :
		fake               ? COUNT(fake_transports) :
		contract_on_cuda() ? COUNT(cuda_transports) :
				     COUNT(cpu_transports);

	if (left_out(c))
		return;
	for (int t = 0; t < n; t++)
		for (int r = 0; r < 5; r++) {
			const char *topology = transports[t].topology[r];

			if (topology && !topology[0])
				continue;
			add_groups(c, &transports[t], r, layout++);
		}
}
