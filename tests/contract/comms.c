/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/comms.c - contract of comms: host exchange in both scopes, splits, several comms
 * in any order, bad and destroyed handles.
 */
#include "contract.h"

/* ---- allgather, barrier -------------------------------------------------------------------- */

static void gather(struct contract_env *e, struct oriel_comm *comm, enum oriel_scope scope, int n,
		   int bytes)
{
	uint8_t *mine = (uint8_t *)malloc((size_t)bytes + 1);
	uint8_t *all = (uint8_t *)malloc((size_t)bytes * (size_t)n + 1);
	int me = oriel_comm_rank(comm), wrong = 0;

	REQUIRE(mine && all);
	for (int i = 0; i < bytes; i++)
		mine[i] = contract_byte(9, me, 0, (uint64_t)i);
	all[bytes * n] = CONTRACT_GUARD;
	CHECK_EQ(oriel_comm_allgather(comm, scope, mine, all, (size_t)bytes), 0);
	for (int r = 0, at = 0; r < oriel_comm_size(comm); r++) {
		if (scope == ORIEL_NODE && oriel_comm_node(comm, r) != oriel_comm_node(comm, me))
			continue;
		for (int i = 0; i < bytes; i++)
			wrong += all[at * bytes + i] != contract_byte(9, r, 0, (uint64_t)i);
		at++;
	}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(all[bytes * n], CONTRACT_GUARD);
	free(mine);
	free(all);
	(void)e;
}

CASE(comm_allgather, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	const int sizes[5] = { 1, 8, 1000, 65536, 0 };

	for (int i = 0; i < 5; i++) {
		gather(e, e->comm, ORIEL_WORLD, e->nranks, sizes[i]);
		gather(e, e->comm, ORIEL_NODE, oriel_comm_node_size(e->comm, e->rank), sizes[i]);
	}
}

/* Ranks that are threads look at each other's words while they are stored. */
static void store_word(struct contract_env *e, uint64_t *word, uint64_t value)
{
	if (e->cuda)
		contract_write(e, word, &value, sizeof(value));
	else
		__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint64_t load_word(struct contract_env *e, const uint64_t *word)
{
	return e->cuda ? contract_word(e, word) : __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Nobody leaves before the last has come. */
CASE(comm_barrier, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_buffer *buffer;
	uint64_t *word = (uint64_t *)contract_alloc(e, 4096);

	REQUIRE(word);
	REQUIRE_OK(oriel_buffer_register(e->comm, word, 4096, &buffer));
	REQUIRE_OK(oriel_buffer_exchange(e->comm, buffer));
	for (uint64_t round = 1; round <= 30; round++) {
		store_word(e, word, round);
		REQUIRE_OK(oriel_comm_barrier(e->comm, round % 2 ? ORIEL_WORLD : ORIEL_NODE));
		for (int r = 0; r < e->nranks; r++) {
			uint64_t *theirs = (uint64_t *)oriel_buffer_mapped(buffer, r);

			if (theirs)
				CHECK(load_word(e, theirs) >= round);
		}
	}
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	REQUIRE_OK(oriel_buffer_release(buffer));
}

CASE(comm_refused, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_comm *sub = NULL;
	char byte = 0, all[8];

	CHECK_EQ(oriel_comm_rank(NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_size(NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_nodes(NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_status(NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_barrier(NULL, ORIEL_WORLD), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_split(NULL, 0, 0, &sub), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_abort(NULL, ORIEL_EABORTED), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_abort(e->comm, 0), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_allgather(NULL, ORIEL_WORLD, &byte, all, 1), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_create(NULL, NULL, &sub), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_device(e->comm, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_comm_node(e->comm, -1), ORIEL_ERANGE);
	CHECK_EQ(oriel_comm_node(e->comm, e->nranks), ORIEL_ERANGE);
	CHECK_EQ(oriel_comm_node_rank(e->comm, e->nranks), ORIEL_ERANGE);
	CHECK_EQ(oriel_comm_node_size(e->comm, -1), ORIEL_ERANGE);
	CHECK_EQ(oriel_comm_peer_kind(e->comm, e->nranks), ORIEL_ERANGE);
	CHECK(oriel_comm_connect(e->comm, NULL, 1) < 0);
	CHECK_EQ(oriel_comm_destroy(NULL), 0);
	CHECK_EQ(oriel_boot_destroy(NULL), 0);
	CHECK(oriel_boot_rank(NULL) < 0);
	CHECK_EQ(oriel_boot_rank(e->boot), e->rank);
	CHECK_EQ(oriel_boot_nranks(e->boot), e->nranks);
	CHECK_EQ(oriel_comm_status(e->comm), 0); /* refusals are no failures of the comm */
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

CASE(comm_connect, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	int ranks[8], bad = e->nranks;

	for (int r = 0; r < e->nranks; r++)
		ranks[r] = r;
	REQUIRE_OK(oriel_comm_connect(e->comm, ranks, e->nranks));
	REQUIRE_OK(oriel_comm_connect(e->comm, NULL, 0));
	CHECK_EQ(oriel_comm_connect(e->comm, &bad, 1), ORIEL_ERANGE);
}

/*
 * Tests how a window of the comm reaches `peer`: a put of some bytes and a signal, for which the
 * receiver waits.
 */
static int put_to(struct contract_env *e, struct oriel_comm *comm, struct oriel_window *w, int peer)
{
	struct oriel_source src;
	int err = oriel_window_source(w, e->local, 64, &src);

	if (!err)
		err = oriel_window_put_signal(w, peer, 64 * (uint64_t)e->rank, &src, 0, 64, 2,
					      ORIEL_ADD, 1, NULL);
	return contract_issued(e, comm, w, err);
}

static int is_queued(struct oriel_comm *comm, int rank)
{
	return oriel_comm_peer_kind(comm, rank) == ORIEL_PEER_QUEUED;
}

/* Puts to the ranks at these distances arrive, from there too. */
static void check_ring(struct contract_env *e, struct oriel_comm *comm, int distance)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int n = e->nranks, right = (e->rank + distance) % n, left = (e->rank + n - distance) % n;
	struct oriel_window *w;
	uint8_t got[64];

	o.bytes = 64 * 8;
	REQUIRE_OK(oriel_window_create(comm, &o, &w));
	contract_fill_bytes(e, e->local, 1 + e->rank, 64);
	REQUIRE_OK(put_to(e, comm, w, right));
	REQUIRE_OK(oriel_window_wait_signal(w, left, 2, ORIEL_EQ, 1, NULL));
	REQUIRE_OK(oriel_comm_sync(comm, NULL));
	contract_read(e, got, (uint8_t *)oriel_window_buffer(w) + 64 * left, sizeof(got));
	for (int i = 0; i < 64; i++)
		CHECK_EQ(got[i], 1 + left);
	REQUIRE_OK(oriel_window_destroy(w));
}

/* In a window without queues to a peer, what needs them is refused, and nothing else suffers. */
static void check_refused(struct contract_env *e, struct oriel_comm *comm, int peer, int all)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;

	o.bytes = 64 * 8;
	REQUIRE_OK(oriel_window_create(comm, &o, &w));
	CHECK_EQ(put_to(e, comm, w, peer), ORIEL_ENOTCONN);
	if (all && !e->cuda) {
		CHECK_EQ(oriel_window_barrier(w, 0, NULL), ORIEL_ENOTCONN);
		CHECK_EQ(oriel_window_signal(w, peer, 0, ORIEL_ADD, 1, NULL), ORIEL_ENOTCONN);
	}
	/* nobody got it, this rank itself is still reached where the window has not failed */
	if (!e->cuda) {
		CHECK_EQ(oriel_window_status(w), 0);
		REQUIRE_OK(put_to(e, comm, w, e->rank));
		REQUIRE_OK(oriel_window_wait_signal(w, e->rank, 2, ORIEL_EQ, 1, NULL));
	}
	CHECK_EQ(oriel_comm_status(comm), 0);
	REQUIRE_OK(oriel_window_destroy(w));
}

/* Queues for the peers that are asked for, by either end; the same comm gets more later. */
CASE(comm_connects_some, c.shape = CONTRACT_HOST, c.min_ranks = 2)
{
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;
	int right = (e->rank + 1) % e->nranks, both[8], bad = -1, queued = -1;
	struct oriel_comm *comm;

	o.timeout = 60;
	o.topology = e->row->topology;
	o.connect = ORIEL_CONNECT_NONE;
	REQUIRE_OK(oriel_comm_create(e->boot, &o, &comm));
	for (int r = 0; r < e->nranks; r++)
		queued = is_queued(comm, r) ? r : queued;
	if (queued >= 0)
		check_refused(e, comm, queued, 1);
	/* one rank's mistake is told to all, and connects nobody */
	CHECK_EQ(oriel_comm_connect(comm, e->rank == 1 ? &bad : &right, 1), ORIEL_ERANGE);
	CHECK_EQ(oriel_comm_connect(comm, NULL, e->rank == 0 ? -1 : 0), ORIEL_EINVAL);
	/* only even ranks name their neighbours, twice: the others are named */
	both[0] = both[2] = right;
	both[1] = both[3] = (e->rank + e->nranks - 1) % e->nranks;
	REQUIRE_OK(oriel_comm_connect(comm, both, e->rank % 2 ? 0 : 4));
	check_ring(e, comm, 1);
	/* pairs that nobody named */
	if (e->nranks >= 4 && oriel_comm_nodes(comm) == e->nranks) {
		check_refused(e, comm, (e->rank + 2) % e->nranks, 0);
		both[0] = (e->rank + 2) % e->nranks;
		REQUIRE_OK(oriel_comm_connect(comm, both, 1));
		check_ring(e, comm, 2);
	}
	for (int r = 0; r < e->nranks; r++)
		both[r] = r;
	REQUIRE_OK(oriel_comm_connect(comm, both, e->rank ? 0 : e->nranks));
	REQUIRE_OK(oriel_comm_connect(comm, both, e->nranks));
	check_ring(e, comm, e->nranks - 1);
	REQUIRE_OK(oriel_comm_destroy(comm));
}

/* ---- split --------------------------------------------------------------------------------- */

/* Rank r of `sub` is world rank want[r]; and the comm works. */
static void check_sub(struct contract_env *e, struct oriel_comm *sub, const int *want, int n)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;
	int all[8] = { 0 };

	CHECK_EQ(oriel_comm_size(sub), n);
	REQUIRE_OK(oriel_comm_allgather(sub, ORIEL_WORLD, &e->rank, all, sizeof(int)));
	for (int r = 0; r < n; r++)
		CHECK_EQ(all[r], want[r]);
	CHECK_EQ(all[oriel_comm_rank(sub)], e->rank);
	o.bytes = 4096;
	REQUIRE_OK(oriel_window_create(sub, &o, &w));
	for (int r = 0; r < n; r++)
		REQUIRE_OK(oriel_window_signal(w, r, 1, ORIEL_ADD, (uint64_t)e->rank + 1, NULL));
	for (int r = 0; r < n; r++)
		REQUIRE_OK(
			oriel_window_wait_signal(w, r, 1, ORIEL_EQ, (uint64_t)want[r] + 1, NULL));
	REQUIRE_OK(oriel_window_destroy(w));
}

CASE(comm_split_by_colour_and_key, c.shape = CONTRACT_HOST)
{
	struct oriel_comm *sub = NULL;
	int want[8], n = 0;

	/* odd and even; the largest rank first */
	REQUIRE_OK(oriel_comm_split(e->comm, e->rank % 2, -e->rank, &sub));
	for (int r = e->nranks - 1; r >= 0; r--)
		if (r % 2 == e->rank % 2)
			want[n++] = r;
	check_sub(e, sub, want, n);
	REQUIRE_OK(oriel_comm_destroy(sub));
	/* equal keys: by rank; any colour names a group */
	REQUIRE_OK(oriel_comm_split(e->comm, 1000000, 7, &sub));
	for (int r = 0; r < e->nranks; r++)
		want[r] = r;
	check_sub(e, sub, want, e->nranks);
	REQUIRE_OK(oriel_comm_destroy(sub));
}

CASE(comm_split_leaves_out, c.shape = CONTRACT_HOST)
{
	struct oriel_comm *sub = (struct oriel_comm *)(void *)e;
	int want[8], n = 0;

	/* all but rank 0, which stays in the parent alone */
	REQUIRE_OK(oriel_comm_split(e->comm, e->rank ? 3 : -1, 0, &sub));
	if (e->rank == 0) {
		CHECK(sub == NULL);
	} else {
		for (int r = 1; r < e->nranks; r++)
			want[n++] = r;
		check_sub(e, sub, want, n);
	}
	REQUIRE_OK(oriel_comm_destroy(sub));
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

static int count_failures(void)
{
	return __atomic_load_n(&check_failures, __ATOMIC_RELAXED);
}

static void split_of_a_split(struct contract_env *e)
{
	struct oriel_comm *a, *b, *c;
	int want[8], n = 0;

	REQUIRE_OK(contract_comm(e, 30, &a));
	REQUIRE_OK(oriel_comm_split(a, 0, 0, &b));
	REQUIRE_OK(oriel_comm_split(b, e->rank / 2, 0, &c));
	REQUIRE_OK(oriel_comm_destroy(a));
	for (int r = 0; r < e->nranks; r++)
		if (r / 2 == e->rank / 2)
			want[n++] = r;
	check_sub(e, c, want, n);
	REQUIRE_OK(oriel_comm_destroy(b));
	check_sub(e, c, want, n);
	REQUIRE_OK(oriel_comm_destroy(c));
}

/*
 * A split of a split, and parents that go before their children.  Thread ranks on a GPU begin new
 * streams at the same moment here, which hung in about one round of 60 before decision 0024.
 */
CASE(comm_split_outlives_parent, c.shape = CONTRACT_HOST)
{
	int rounds = e->cuda && !e->processes && e->nranks > 1 && !contract_is_fake() ? 30 : 2;
	int failures = count_failures();

	for (int i = 0; i < rounds && count_failures() == failures; i++)
		split_of_a_split(e);
}

/* Several comms of all ranks at once, each with a window; they do not go in the order they came. */
CASE(comm_several, c.shape = CONTRACT_HOST)
{
	struct oriel_comm *c[3];
	struct oriel_window *w[3];

	for (int i = 0; i < 3; i++) {
		struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

		if (i == 1)
			REQUIRE_OK(oriel_comm_split(e->comm, 0, -e->rank, &c[i]));
		else
			REQUIRE_OK(contract_comm(e, 30, &c[i]));
		o.bytes = 4096;
		REQUIRE_OK(oriel_window_create(c[i], &o, &w[i]));
	}
	for (int i = 0; i < 3; i++) {
		int next = (oriel_comm_rank(c[i]) + 1) % e->nranks;

		REQUIRE_OK(oriel_window_signal(w[i], next, 0, ORIEL_ADD, 5, NULL));
		REQUIRE_OK(oriel_window_wait_signal(w[i], -1, 0, ORIEL_GE, 5, NULL));
	}
	CHECK_EQ(oriel_comm_destroy(c[1]), ORIEL_EBUSY); /* its window lives */
	REQUIRE_OK(oriel_window_barrier(w[1], 0, NULL));
	for (int i = 0; i < 3; i++) {
		REQUIRE_OK(oriel_window_destroy(w[(i + 1) % 3]));
		REQUIRE_OK(oriel_comm_destroy(c[(i + 1) % 3]));
	}
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

/*
 * A rank creates its own comm and destroys it while a kernel of another rank waits for this rank.
 * Neither call may wait for that kernel, because the signal that ends the kernel comes later.
 */
CASE(comm_goes_beside_a_wait, c.shape = CONTRACT_HOST, c.min_ranks = 2)
{
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_boot *mine;
	struct oriel_comm *comm;

	if (e->rank == 0)
		REQUIRE_OK(oriel_window_wait_signal(e->window, 1, 3, ORIEL_EQ, 1, NULL));
	if (e->cuda) /* the host has only launched it */
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	if (e->rank) {
		o.timeout = 30;
		REQUIRE_OK(oriel_boot_threads(1, &mine));
		REQUIRE_OK(oriel_comm_create(mine, &o, &comm));
		REQUIRE_OK(oriel_boot_destroy(mine));
		REQUIRE_OK(oriel_comm_barrier(comm, ORIEL_WORLD));
		REQUIRE_OK(oriel_comm_destroy(comm));
	}
	if (e->rank == 1)
		REQUIRE_OK(oriel_window_signal(e->window, 0, 3, ORIEL_ADD, 1, NULL));
	REQUIRE_OK(oriel_comm_sync(e->comm, NULL));
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

/* ---- destroyed handles --------------------------------------------------------------------- */

/*
 * Between barriers: while no rank makes anything, no new object can lie where an old one lay, and
 * the answer is exact.
 */
static void use_after(struct contract_env *e, struct oriel_comm *comm, struct oriel_window *w,
		      struct oriel_buffer *buffer)
{
	struct oriel_window_dev win;
	struct oriel_source src;
	struct oriel_comm *sub;
	void *p = NULL;

	memset(&src, 0, sizeof(src));
	CHECK_EQ(oriel_comm_rank(comm), ORIEL_ESTALE);
	CHECK_EQ(oriel_comm_size(comm), ORIEL_ESTALE);
	CHECK_EQ(oriel_comm_status(comm), ORIEL_ESTALE);
	CHECK_EQ(oriel_comm_barrier(comm, ORIEL_WORLD), ORIEL_ESTALE);
	CHECK_EQ(oriel_comm_split(comm, 0, 0, &sub), ORIEL_ESTALE);
	CHECK_EQ(oriel_comm_subset(comm, &e->rank, 1, 0, &sub), ORIEL_ESTALE);
	CHECK_EQ(oriel_comm_abort(comm, ORIEL_EABORTED), ORIEL_ESTALE);
	CHECK_EQ(oriel_comm_destroy(comm), ORIEL_ESTALE);
	CHECK_EQ(oriel_alloc(comm, 4096, &p), ORIEL_ESTALE);
	CHECK_EQ(oriel_window_status(w), ORIEL_ESTALE);
	CHECK_EQ(oriel_window_device(w, &win), ORIEL_ESTALE);
	CHECK_EQ(oriel_window_put(w, 0, 0, &src, 0, 0, NULL), ORIEL_ESTALE);
	CHECK_EQ(oriel_window_barrier(w, 0, NULL), ORIEL_ESTALE);
	CHECK_EQ(oriel_window_destroy(w), ORIEL_ESTALE);
	CHECK(oriel_window_buffer(w) == NULL);
	CHECK_EQ(oriel_buffer_release(buffer), ORIEL_EINVAL); /* released too often */
	CHECK(oriel_buffer_mapped(buffer, 0) == NULL);
	(void)e;
}

CASE(comm_handles_after_destroy, c.shape = CONTRACT_HOST)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_comm *comm;
	struct oriel_window *w;
	struct oriel_buffer *buffer;
	void *p;

	o.bytes = 4096;
	REQUIRE_OK(contract_comm(e, 30, &comm));
	REQUIRE_OK(oriel_window_create(comm, &o, &w));
	REQUIRE_OK(oriel_alloc(comm, 4096, &p));
	REQUIRE_OK(oriel_buffer_register(comm, p, 4096, &buffer));
	REQUIRE_OK(oriel_buffer_release(buffer));
	REQUIRE_OK(oriel_free(comm, p));
	REQUIRE_OK(oriel_window_destroy(w));
	REQUIRE_OK(oriel_comm_destroy(comm));
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	use_after(e, comm, w, buffer);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	/* one kind of handle in the place of another */
	CHECK_EQ(oriel_comm_rank((struct oriel_comm *)(void *)e->window), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_status((struct oriel_window *)(void *)e->comm), ORIEL_EINVAL);
	/* and pointers that never were handles */
	CHECK_EQ(oriel_comm_rank((struct oriel_comm *)(void *)e), ORIEL_ESTALE);
}

/* The boot may go first. */
CASE(comm_outlives_boot, c.shape = CONTRACT_HOST, c.max_ranks = 1)
{
	struct oriel_boot *mine;
	struct oriel_comm *comm;

	(void)e;
	REQUIRE_OK(oriel_boot_threads(1, &mine));
	REQUIRE_OK(oriel_comm_create(mine, NULL, &comm));
	REQUIRE_OK(oriel_boot_destroy(mine));
	CHECK_EQ(oriel_comm_size(comm), 1);
	REQUIRE_OK(oriel_comm_barrier(comm, ORIEL_WORLD));
	REQUIRE_OK(oriel_comm_destroy(comm));
}
