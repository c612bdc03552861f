/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/memory.c - contract of memory: which memory a window may use, what may be freed
 * when, registered buffers and their references, sources.
 */
#include "contract.h"

#define BYTES 8192

static int use_window(struct contract_env *e, struct oriel_comm *comm, struct oriel_window *w,
		      const void *memory)
{
	struct oriel_source s;
	uint8_t mine[64], got[64], *in = (uint8_t *)oriel_window_buffer(w);
	int next = (e->rank + 1) % e->nranks, last = (e->rank + e->nranks - 1) % e->nranks,
	    wrong = 0;

	wrong += in != memory;
	for (int i = 0; i < 64; i++)
		mine[i] = contract_byte(2, e->rank, next, (uint64_t)i);
	/* any local memory is a source */
	wrong += oriel_window_source(w, contract_scratch(e, mine, sizeof(mine)), sizeof(mine),
				     &s) != 0;
	wrong += oriel_window_put_signal(w, next, 100, &s, 0, 64, 0, ORIEL_ADD, 1, NULL) != 0;
	wrong += oriel_window_wait_signal(w, last, 0, ORIEL_GE, 1, NULL) != 0;
	wrong += oriel_comm_sync(comm, NULL) != 0;
	contract_read(e, got, in + 100, sizeof(got));
	for (int i = 0; i < 64; i++)
		wrong += got[i] != contract_byte(2, last, e->rank, (uint64_t)i);
	return wrong;
}

/* ---- windows over memory ------------------------------------------------------------------- */

CASE(memory_window_over_alloc, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	const size_t offs[3] = { 0, 4096, 192 };
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;
	uint8_t *p = (uint8_t *)contract_alloc(e, 3 * BYTES);

	REQUIRE(p);
	for (int i = 0; i < 3; i++) {
		contract_fill_bytes(e, p, i, 3 * BYTES);
		o.buffer = p + offs[i];
		o.bytes = BYTES;
		REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
		CHECK_EQ(use_window(e, e->comm, w, p + offs[i]), 0);
		/* the user's memory is as it was, but for what was put */
		CHECK_EQ(contract_bytes_not(e, p + offs[i], i, 100), 0);
		CHECK_EQ(contract_bytes_not(e, p + offs[i] + 164, i, BYTES - 164), 0);
		REQUIRE_OK(oriel_window_destroy(w));
	}
}

/* Each rank at another place of its allocation; two windows over one allocation. */
CASE(memory_windows_share_memory, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *first, *second;
	uint8_t *p = (uint8_t *)contract_alloc(e, 16 * BYTES);
	size_t off = (size_t)e->rank * 320;

	REQUIRE(p);
	o.bytes = BYTES;
	o.buffer = p + off;
	REQUIRE_OK(oriel_window_create(e->comm, &o, &first));
	o.buffer = p + off + BYTES;
	REQUIRE_OK(oriel_window_create(e->comm, &o, &second));
	CHECK_EQ(use_window(e, e->comm, first, p + off), 0);
	CHECK_EQ(use_window(e, e->comm, second, p + off + BYTES), 0);
	REQUIRE_OK(oriel_window_destroy(first));
	REQUIRE_OK(oriel_window_barrier(second, 0, NULL));
	REQUIRE_OK(oriel_window_destroy(second));
}

/* The memory of one rank is too short, or is invalid: every rank gets the same status and text. */
static void refused_window(struct contract_env *e, void *buffer, uint64_t bytes, int status,
			   const char *text)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;
	void *other = contract_alloc(e, BYTES);

	REQUIRE(other);
	o.buffer = e->rank == e->nranks - 1 ? buffer : other;
	o.bytes = bytes;
	CHECK_EQ(oriel_window_create(e->comm, &o, &w), status);
	CHECK_HAS(oriel_last_error(), text);
	CHECK(w == NULL);
	CHECK_EQ(oriel_comm_status(e->comm), 0);
}

CASE(memory_window_too_long, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	uint8_t *p = (uint8_t *)contract_alloc(e, BYTES), *neighbour;
	uint8_t *small = (uint8_t *)contract_alloc(e, 100);

	neighbour = (uint8_t *)contract_alloc(e, BYTES);
	REQUIRE(p && small && neighbour);
	refused_window(e, p + 1, BYTES, ORIEL_ERANGE, "leave their memory");
	refused_window(e, p + BYTES - 1, 2, ORIEL_ERANGE, "leave their memory");
	/* what was asked for counts, not the page it got */
	refused_window(e, small, 101, ORIEL_ERANGE, "oriel_alloc gave 100 bytes");
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

CASE(memory_window_on_no_memory, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	refused_window(e, (void *)8, 64, ORIEL_EINVAL, "memory of this process");
	refused_window(e, (void *)(UINTPTR_MAX - 15), 64, ORIEL_ERANGE, "pass the last address");
}

CASE(memory_source_and_buffer_refused, c.shape = CONTRACT_HOST)
{
	uint8_t *p = (uint8_t *)contract_alloc(e, BYTES);
	struct oriel_buffer *b = NULL;
	struct oriel_source s = { 1, 2, { 3 } };

	REQUIRE(p);
	CHECK_EQ(oriel_window_source(e->window, p, SIZE_MAX, &s), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_source(e->window, p, BYTES + 1, &s), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_source(e->window, (void *)8, 8, &s), ORIEL_EINVAL);
	CHECK(s.address == 1 && s.bytes == 2 && s.key[0] == 3);
	CHECK_EQ(oriel_buffer_register(e->comm, p, SIZE_MAX, &b), ORIEL_ERANGE);
	CHECK_EQ(oriel_buffer_register(e->comm, p, BYTES + 1, &b), ORIEL_ERANGE);
	CHECK_EQ(oriel_buffer_register(e->comm, (void *)8, 8, &b), ORIEL_EINVAL);
	CHECK(b == NULL);
	/* exactly what there is */
	REQUIRE_OK(oriel_window_source(e->window, p, BYTES, &s));
	REQUIRE_OK(oriel_buffer_register(e->comm, p, BYTES, &b));
	REQUIRE_OK(oriel_buffer_release(b));
	REQUIRE_OK(oriel_window_source_release(e->window, &s));
}

/* Threads of one process see all memory; another process only what was made for it. */
static int some_pair_is_mapped(struct contract_env *e)
{
	/* nodes of more than one rank, seen by every rank alike */
	return oriel_comm_nodes(e->comm) < e->nranks;
}

static void window_over_malloc(struct contract_env *e, int on_this_rank)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;
	void *made = contract_alloc(e, BYTES), *plain = calloc(1, BYTES);
	int err;

	REQUIRE(made && plain);
	o.bytes = BYTES;
	o.buffer = on_this_rank ? plain : made;
	err = oriel_window_create(e->comm, &o, &w);
	if (e->processes && some_pair_is_mapped(e)) {
		CHECK_EQ(err, ORIEL_EEXPORT);
		CHECK_HAS(oriel_last_error(), "oriel_alloc");
		CHECK(w == NULL);
	} else {
		CHECK_EQ(err, 0);
		if (!err)
			CHECK_EQ(use_window(e, e->comm, w, o.buffer), 0);
		CHECK_EQ(oriel_window_destroy(w), 0);
	}
	free(plain);
	CHECK_EQ(oriel_comm_status(e->comm), 0);
}

CASE(memory_window_over_malloc, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	window_over_malloc(e, 1);
}

/* One rank's memory cannot be exported: all ranks are told. */
CASE(memory_window_over_malloc_on_one_rank, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	window_over_malloc(e, e->rank == 0);
}

/* ---- alloc, free --------------------------------------------------------------------------- */

CASE(memory_free_in_use, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_buffer *buffer;
	struct oriel_window *w;
	void *p;

	REQUIRE_OK(oriel_alloc(e->comm, BYTES, &p));
	o.buffer = p;
	o.bytes = BYTES;
	REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
	CHECK_EQ(oriel_free(e->comm, p), ORIEL_EBUSY);
	CHECK_EQ(use_window(e, e->comm, w, p), 0);
	REQUIRE_OK(oriel_window_destroy(w));
	REQUIRE_OK(oriel_buffer_register(e->comm, p, BYTES, &buffer));
	CHECK_EQ(oriel_free(e->comm, p), ORIEL_EBUSY);
	REQUIRE_OK(oriel_buffer_release(buffer));
	REQUIRE_OK(oriel_free(e->comm, p));
	CHECK_EQ(oriel_free(e->comm, p), ORIEL_EINVAL);
}

CASE(memory_refused, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_buffer *buffer = NULL;
	void *p = NULL;
	char here;

	CHECK_EQ(oriel_alloc(e->comm, 0, &p), ORIEL_EINVAL);
	CHECK_EQ(oriel_alloc(e->comm, 64, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_alloc(NULL, 64, &p), ORIEL_EINVAL);
	CHECK(oriel_alloc(e->comm, (size_t)1 << 62, &p) < 0);
	CHECK(oriel_alloc(e->comm, SIZE_MAX, &p) < 0);
	CHECK(p == NULL); /* outputs are written on success only */
	CHECK_EQ(oriel_free(e->comm, &here), ORIEL_EINVAL);
	CHECK_EQ(oriel_free(e->comm, NULL), 0);
	CHECK_EQ(oriel_buffer_register(e->comm, NULL, 64, &buffer), ORIEL_EINVAL);
	CHECK_EQ(oriel_buffer_register(e->comm, &here, 0, &buffer), ORIEL_EINVAL);
	CHECK_EQ(oriel_buffer_register(e->comm, &here, 1, NULL), ORIEL_EINVAL);
	CHECK(buffer == NULL);
	CHECK_EQ(oriel_buffer_release(NULL), 0);
	CHECK(oriel_buffer_mapped(NULL, 0) == NULL);
	CHECK_EQ(oriel_comm_status(e->comm), 0);
}

CASE(memory_alloc_is_zeroed, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	for (int round = 0; round < 4; round++) {
		void *p;

		REQUIRE_OK(oriel_alloc(e->comm, 10000, &p));
		CHECK_EQ(contract_bytes_not(e, p, 0, 10000), 0);
		contract_fill_bytes(e, p, 0xff, 10000);
		REQUIRE_OK(oriel_free(e->comm, p));
	}
}

/* ---- buffers ------------------------------------------------------------------------------- */

/* Stores through every mapped pointer; each owner finds what was stored. */
static void store_and_look(struct contract_env *e, struct oriel_buffer *buffer, uint8_t *p,
			   int round)
{
	for (int r = 0; r < e->nranks; r++) {
		uint8_t *theirs = (uint8_t *)oriel_buffer_mapped(buffer, r);
		uint8_t value = contract_byte((uint64_t)round, e->rank, r, 0);
		int kind = oriel_comm_peer_kind(e->comm, r);

		CHECK_EQ(theirs != NULL, kind == ORIEL_PEER_SELF || kind == ORIEL_PEER_MAPPED);
		if (theirs)
			contract_write(e, theirs + e->rank, &value, 1);
	}
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	for (int r = 0; r < e->nranks; r++)
		if (oriel_buffer_mapped(buffer, r))
			CHECK_EQ(contract_bytes_not(e, p + r,
						    contract_byte((uint64_t)round, r, e->rank, 0),
						    1),
				 0);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

CASE(memory_register_twice, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_buffer *one, *two;
	uint8_t *p = (uint8_t *)contract_alloc(e, BYTES);

	REQUIRE(p);
	REQUIRE_OK(oriel_buffer_register(e->comm, p, BYTES, &one));
	if (e->nranks > 1)
		CHECK(oriel_buffer_mapped(one, (e->rank + 1) % e->nranks) == NULL);
	REQUIRE_OK(oriel_buffer_exchange(e->comm, one));
	REQUIRE_OK(oriel_buffer_register(e->comm, p, BYTES, &two));
	CHECK(one == two);
	store_and_look(e, one, p, 1);
	REQUIRE_OK(oriel_buffer_release(two));
	store_and_look(e, one, p, 2); /* one reference is left */
	CHECK(oriel_buffer_mapped(one, -1) == NULL);
	CHECK(oriel_buffer_mapped(one, e->nranks) == NULL);
	CHECK(oriel_buffer_mapped(one, e->rank) == p);
	REQUIRE_OK(oriel_buffer_release(one));
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD)); /* nobody registers in between */
	CHECK_EQ(oriel_buffer_release(one), ORIEL_EINVAL);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
}

/* Again and again, and several parts of one allocation at a time. */
CASE(memory_exchange_rounds, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_buffer *part[4];
	uint8_t *p = (uint8_t *)contract_alloc(e, 4 * BYTES);

	REQUIRE(p);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 4; i++) {
			REQUIRE_OK(oriel_buffer_register(e->comm, p + i * BYTES + i * 16, BYTES / 2,
							 &part[i]));
			REQUIRE_OK(oriel_buffer_exchange(e->comm, part[i]));
		}
		for (int i = 0; i < 4; i++)
			store_and_look(e, part[i], p + i * BYTES + i * 16, round * 4 + i);
		for (int i = 0; i < 4; i++)
			REQUIRE_OK(oriel_buffer_release(part[(i + round) % 4]));
	}
}

/* Plain memory may be registered by anyone, but shown to threads only. */
CASE(memory_buffer_of_malloc, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_buffer *buffer;
	uint8_t *p = (uint8_t *)calloc(1, BYTES);
	int err;

	REQUIRE(p);
	REQUIRE_OK(oriel_buffer_register(e->comm, p, BYTES, &buffer));
	err = oriel_buffer_exchange(e->comm, buffer);
	if (e->processes && some_pair_is_mapped(e)) {
		CHECK_EQ(err, ORIEL_EEXPORT);
		CHECK_HAS(oriel_last_error(), "oriel_alloc");
	} else {
		CHECK_EQ(err, 0);
		store_and_look(e, buffer, p, 1);
	}
	REQUIRE_OK(oriel_buffer_release(buffer));
	free(p);
}

/* A comm with buffers registered is in use. */
CASE(memory_comm_in_use, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_buffer *buffer;
	struct oriel_comm *comm;
	void *p;

	REQUIRE_OK(contract_comm(e, 30, &comm));
	REQUIRE_OK(oriel_alloc(comm, BYTES, &p));
	REQUIRE_OK(oriel_buffer_register(comm, p, BYTES, &buffer));
	CHECK_EQ(oriel_comm_destroy(comm), ORIEL_EBUSY);
	CHECK_EQ(oriel_comm_size(comm), e->nranks);
	REQUIRE_OK(oriel_buffer_release(buffer));
	REQUIRE_OK(oriel_free(comm, p));
	REQUIRE_OK(oriel_comm_destroy(comm));
}

/* ---- kept memory ---------------------------------------------------------------------------- */

/* Kept memory has its bytes after the comm has ended. */
CASE(memory_kept_outlives_comm, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_memory *kept, *again = NULL;
	struct oriel_window *w;
	struct oriel_comm *comm;
	void *p;

	REQUIRE_OK(contract_comm(e, 30, &comm));
	REQUIRE_OK(oriel_alloc(comm, BYTES, &p));
	REQUIRE_OK(oriel_memory_keep(comm, p, &kept));
	CHECK_EQ(oriel_memory_keep(comm, p, &again), ORIEL_EBUSY);
	CHECK_EQ(oriel_free(comm, p), ORIEL_EBUSY);
	CHECK_HAS(oriel_last_error(), "oriel_memory_drop");
	o.buffer = p;
	o.bytes = BYTES;
	REQUIRE_OK(oriel_window_create(comm, &o, &w));
	CHECK_EQ(oriel_memory_drop(kept), ORIEL_EBUSY); /* the window uses it */
	CHECK_EQ(use_window(e, comm, w, p), 0);
	REQUIRE_OK(oriel_window_destroy(w));
	contract_fill_bytes(e, p, 5, BYTES);
	REQUIRE_OK(oriel_comm_destroy(comm));
	CHECK_EQ(contract_bytes_not(e, p, 5, BYTES), 0);
	REQUIRE_OK(oriel_memory_drop(kept));
	CHECK(again == NULL);
}

/* Dropped before the comm ends; and of a comm that failed. */
CASE(memory_kept_is_dropped, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_memory *kept[2], *none = NULL;
	struct oriel_comm *comm;
	void *p[2];

	REQUIRE_OK(contract_comm(e, 30, &comm));
	for (int i = 0; i < 2; i++) {
		REQUIRE_OK(oriel_alloc(comm, BYTES, &p[i]));
		REQUIRE_OK(oriel_memory_keep(comm, p[i], &kept[i]));
	}
	CHECK_EQ(oriel_memory_keep(comm, (char *)p[0] + 16, &none), ORIEL_EINVAL);
	CHECK_EQ(oriel_memory_keep(comm, p[0], NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_memory_drop((struct oriel_memory *)(void *)comm), ORIEL_EINVAL);
	CHECK_EQ(oriel_memory_drop(NULL), 0);
	REQUIRE_OK(oriel_memory_drop(kept[0]));
	CHECK_EQ(oriel_memory_drop(kept[0]), ORIEL_ESTALE);
	contract_fill_bytes(e, p[1], 6, BYTES);
	REQUIRE_OK(oriel_comm_barrier(comm, ORIEL_WORLD));
	REQUIRE_OK(oriel_comm_abort(comm, ORIEL_EABORTED));
	REQUIRE_OK(oriel_comm_destroy(comm));
	CHECK_EQ(contract_bytes_not(e, p[1], 6, BYTES), 0);
	REQUIRE_OK(oriel_memory_drop(kept[1]));
}

/* The windows of mapped peers are in this address space; those of queued peers are not. */
CASE(memory_window_mapped, c.shape = CONTRACT_HOST)
{
	uint8_t mark = (uint8_t)(e->rank + 1), got;

	contract_write(e, oriel_window_buffer(e->window), &mark, 1);
	REQUIRE_OK(oriel_window_barrier(e->window, 0, NULL));
	for (int r = 0; r < e->nranks; r++) {
		void *theirs = oriel_window_mapped(e->window, r);

		CHECK_EQ(!theirs, oriel_comm_peer_kind(e->comm, r) == ORIEL_PEER_QUEUED);
		if (theirs) {
			contract_read(e, &got, theirs, 1);
			CHECK_EQ(got, r + 1);
		}
	}
	CHECK(oriel_window_mapped(e->window, e->rank) == oriel_window_buffer(e->window));
	CHECK(oriel_window_mapped(e->window, e->nranks) == NULL);
	CHECK(oriel_window_mapped(e->window, -1) == NULL);
	REQUIRE_OK(oriel_window_barrier(e->window, 0, NULL));
}
