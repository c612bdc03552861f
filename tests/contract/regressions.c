/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/regressions.c - bugs of device calls that were found and fixed, each with a case
 * that fails without its fix: order of plain puts, deadlines of barriers, messages, stale handles,
 * overlap.  Those of host calls are in regressions_host.c.
 */
#include <sched.h>
#include <unistd.h>

#include "contract.h"

#define SLOTS 512 /* places of the fence case, a line each */
#define LINE 128
#define BURST 64        /* rounds between two looks at the peer's answer */
#define DEADLINE_S 60.0 /* of comms whose calls should fail at once, and of all others */

/* ---- a comm and a window of its own ---------------------------------------------------------- */

struct setup {
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct contract_args a;
};

/* Checked, staged, over `buffer` or memory of its own.  0 or -1. */
static int set_up(struct contract_env *e, double timeout_s, void *buffer, struct setup *s)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	void *local = contract_alloc(e, 4096);
	int err;

	memset(s, 0, sizeof(*s));
	o.bytes = 4096;
	o.buffer = buffer;
	o.checked = 1;
	o.staging_slot_bytes = 64;
	s->a = contract_args(e);
	s->a.local = (uint8_t *)local;
	err = !local || contract_comm(e, timeout_s, &s->comm) ||
	      oriel_window_create(s->comm, &o, &s->window) ||
	      oriel_window_device(s->window, &s->a.win) ||
	      oriel_window_source(s->window, local, 4096, &s->a.src);
	if (err)
		check_fail(__FILE__, __LINE__, "rank %d: set up: %s", e->rank, oriel_last_error());
	return err ? -1 : 0;
}

/* Of this handle's waits: those that shall end by it, and nothing else, get a short one. */
static void set_deadline(struct setup *s, double seconds)
{
	s->a.win.comm.timeout_ns = (uint64_t)(seconds * 1e9);
}

static void tear_down(struct setup *s)
{
	if (s->window)
		CHECK_EQ(oriel_window_destroy(s->window), 0);
	if (s->comm)
		CHECK_EQ(oriel_comm_destroy(s->comm), 0);
}

/* ---- fence ----------------------------------------------------------------------------------- */

/* Polls until the word is `want` or more, without the acquire that a wait of the library has. */
ORIEL_DEV int poll_word(const struct oriel_window_dev *w, const uint64_t *word, uint64_t want)
{
	struct ori_spin s;
	uint64_t have;
	int err = 0;

	ori_spin_begin(&s, &w->comm, w->failure, ORIEL_OP_SIGNAL, 0, 0, w->number, want);
	while (!err && (have = ori_load_relaxed_sys(word)) < want)
		err = ori_spin(&s, have);
	ori_spin_end(&s);
	return err;
}

/* Writer of the fence case: data, fence, flag; a place is written again only after it was read. */
ORIEL_DEV int write_fenced(const struct contract_args *a, struct oriel_group g, int peer)
{
	const struct oriel_window_dev *w = &a->win;
	const uint64_t *answer = (const uint64_t *)(const void *)(w->buffer + 8);
	uint64_t n;
	int err = 0;

	for (n = 1; n <= (uint64_t)a->rounds && !err; n++) {
		err = oriel_put_value(w, g, peer, LINE + n % SLOTS * LINE, &n, 8);
		if (!err)
			err = oriel_fence(w, g, peer);
		if (!err)
			err = oriel_put_value(w, g, peer, 0, &n, 8);
		if (!err && n % BURST == 0)
			err = poll_word(w, answer, n - BURST / 2);
	}
	return err;
}

/*
 * Reader: if it sees flag n, it must see data n or later.  The acquire is the reader's half of the
 * order, because plain loads may pass each other here.  The writer's half is only the fence.
 */
ORIEL_DEV int read_fenced(const struct contract_args *a, struct oriel_group g, int peer,
			  uint64_t *wrong)
{
	const struct oriel_window_dev *w = &a->win;
	const uint64_t *word = (const uint64_t *)(const void *)w->buffer;
	uint64_t flag, seen = 0;
	int err = 0;

	while (!err && seen < (uint64_t)a->rounds) {
		err = poll_word(w, word, seen + 1);
		flag = ori_load_acquire_sys(word);
		if (!err)
			*wrong += ori_load_relaxed_sys(word + (1 + flag % SLOTS) * (LINE / 8)) <
				  flag;
		seen = flag;
		if (!err)
			err = oriel_put_value(w, g, peer, 8, &seen, 8);
	}
	return err;
}

CONTRACT_KERNEL(fenced_kernel)
{
	uint64_t wrong = 0;
	int err;

	if (oriel_rank(&a->win) == 0)
		err = write_fenced(a, g, 1);
	else
		err = read_fenced(a, g, 0, &wrong);
	contract_report(a, g, err, wrong);
}

/* Ranks that take turns on one core see each other's stores in order, fence or not. */
static void take_own_core(int rank)
{
	cpu_set_t have, mine;

	if (sched_getaffinity(0, sizeof(have), &have) || CPU_COUNT(&have) < 2)
		return;
	CPU_ZERO(&mine);
	for (int cpu = 0, nth = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &have) && nth++ == rank)
			CPU_SET(cpu, &mine);
	CHECK_EQ(sched_setaffinity(0, sizeof(mine), &mine), 0);
}

/* An empty fence let a flag overtake its data.  Processes: loads and plain puts race by intent. */
CASE(regression_fence_orders_puts, c.shape = CONTRACT_HOST, c.min_ranks = 2, c.max_ranks = 2,
     c.only_processes = 1, c.window.bytes = LINE * (SLOTS + 1))
{
	struct contract_args a = contract_args(e);

	if (!e->cuda)
		take_own_core(e->rank);
	a.rounds = e->row->topology ? 2000 : 500000; /* queues are slower */
	contract_launch(e, &fenced_kernel, 1, &a);
}

/* ---- single calls ---------------------------------------------------------------------------- */

enum {
	BARRIER,
	SYNC,
	ADVANCE,
	ADVANCE_FROM,
	WAIT,
	WAIT_FROM,
	SIGNAL,
	SEND,
	RECV,
	PUT,
	GET,
	PUT_SIGNAL
};

CONTRACT_KERNEL(call_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int err;

	switch (a->mode) {
	case BARRIER:
		err = oriel_barrier(w, g, a->id);
		break;
	case SYNC:
		err = oriel_barrier_arrive_wait(w, g, a->id);
		break;
	case ADVANCE:
		err = oriel_signal_advance(w, g, a->id, a->value);
		break;
	case ADVANCE_FROM:
		err = oriel_signal_advance_from(w, g, a->peer, a->id, a->value);
		break;
	case WAIT:
		err = oriel_wait_signal(w, g, a->id, a->value);
		break;
	case WAIT_FROM:
		err = oriel_wait_signal_from(w, g, a->peer, a->id, ORIEL_GE, a->value);
		break;
	case SIGNAL:
		err = oriel_signal(w, g, a->peer, a->id, ORIEL_ADD, a->value);
		break;
	case SEND:
		err = oriel_send(w, g, a->peer, 0, a->local, a->bytes);
		break;
	case RECV:
		err = oriel_recv(w, g, a->peer, 0, a->local, a->bytes);
		break;
	case PUT:
		err = oriel_put(w, g, a->peer, a->dst_off, &a->src, a->src_off, a->bytes);
		break;
	case GET:
		err = oriel_get(w, g, a->peer, a->dst_off, &a->src, a->src_off, a->bytes);
		break;
	default:
		err = oriel_put_signal(w, g, a->peer, a->dst_off, &a->src, a->src_off, a->bytes,
				       a->id, ORIEL_ADD, a->value);
	}
	contract_report(a, g, err, 0);
}

static void expect(struct contract_env *e, struct contract_args *a, int mode, int status)
{
	a->mode = mode;
	contract_launch_expect(e, &call_kernel, 1, a, status);
}

#define LATE_S 0.2
#define TRIES 30

/* 1: rank 0 gave up after one deadline.  What stood still for a while proves nothing. */
static int gave_up_in_time(struct contract_env *e)
{
	struct setup s;
	int mine = 0, all[3] = { 0 };

	if (!set_up(e, DEADLINE_S, NULL, &s)) {
		double start;

		set_deadline(&s, LATE_S);
		s.a.mode = BARRIER;
		CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
		usleep((useconds_t)(e->rank * 0.8 * LATE_S * 1e6));
		start = contract_now();
		mine = contract_launch_status(e, &call_kernel, &s.a) == ORIEL_ETIMEDOUT &&
		       contract_now() - start < 1.5 * LATE_S;
	}
	CHECK_EQ(oriel_comm_allgather(e->comm, ORIEL_WORLD, &mine, all, sizeof(mine)), 0);
	tear_down(&s);
	return all[0];
}

/*
 * Each rank comes 0.8 of a deadline after the previous one.  If the deadline started again with
 * every peer, rank 0 would always stay for two deadlines.  If it is kept, at least one of the tries
 * shows it, also on a busy machine.
 */
CASE(regression_barrier_one_deadline, c.no_window = 1, c.min_ranks = 3, c.max_ranks = 3)
{
	int tries = 0;

	while (tries < TRIES && !gave_up_in_time(e))
		tries++;
	CHECK(tries < TRIES);
}

/* The start moved past what has arrived: there is less than nothing yet, not nearly 2^64. */
CASE(regression_advance_before_arrival, c.no_window = 1, c.max_ranks = 2)
{
	struct setup s;

	if (!set_up(e, DEADLINE_S, NULL, &s)) {
		s.a.peer = e->rank;
		for (s.a.id = 0; s.a.id < 2; s.a.id++) {
			int wait = s.a.id ? WAIT_FROM : WAIT;

			s.a.value = 5;
			expect(e, &s.a, s.a.id ? ADVANCE_FROM : ADVANCE, 0);
			s.a.value = 1;
			set_deadline(&s, 0.02);
			expect(e, &s.a, wait, ORIEL_ETIMEDOUT);
			set_deadline(&s, DEADLINE_S);
			s.a.value = 6;
			expect(e, &s.a, SIGNAL, 0);
			s.a.value = 1;
			expect(e, &s.a, wait, 0);
		}
	}
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
	tear_down(&s);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Rank 0 sends `sent` bytes, rank 1 wants others: rank 0 learns of it in its next call. */
static void mismatch(struct contract_env *e, uint64_t sent, uint64_t wanted)
{
	struct setup s;
	double start;

	if (!set_up(e, DEADLINE_S, NULL, &s)) {
		s.a.peer = 1 - e->rank;
		s.a.bytes = e->rank ? wanted : sent;
		start = contract_now();
		if (e->rank == 0) {
			expect(e, &s.a, SEND, 0);
			expect(e, &s.a, SYNC, ORIEL_EMISMATCH);
		} else {
			usleep(5000); /* most often the sender waits by then */
			expect(e, &s.a, RECV, ORIEL_EMISMATCH);
		}
		CHECK_EQ(oriel_window_status(s.window), ORIEL_EMISMATCH);
		CHECK(contract_now() - start < DEADLINE_S / 2);
	}
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
	tear_down(&s);
}

CASE(regression_mismatch_reaches_sender, c.no_window = 1, c.min_ranks = 2, c.max_ranks = 2,
     c.shape = CONTRACT_FULL)
{
	mismatch(e, 8, 16);
}

CASE(regression_nothing_sent_for_8_bytes, c.no_window = 1, c.min_ranks = 2, c.max_ranks = 2)
{
	mismatch(e, 0, 8);
}

CASE(regression_8_bytes_sent_for_nothing, c.no_window = 1, c.min_ranks = 2, c.max_ranks = 2)
{
	mismatch(e, 8, 0);
}

/* An empty message is waited for, and what was put before it is there. */
CASE(regression_empty_messages_meet, c.min_ranks = 2, c.max_ranks = 2,
     c.window.staging_slot_bytes = 64, c.window.staging_depth = 2)
{
	struct contract_args a = contract_args(e);

	a.peer = 1 - e->rank;
	a.bytes = 8;
	contract_fill_bytes(e, e->local, 0x5a, 8);
	for (int i = 0; i < 5; i++) { /* more than the slots */
		a.dst_off = (uint64_t)i * 8;
		a.bytes = 8;
		if (e->rank == 0) {
			usleep(2000); /* most often the receiver waits by then */
			expect(e, &a, PUT, 0);
			a.bytes = 0;
			expect(e, &a, SEND, 0);
		} else {
			a.bytes = 0;
			expect(e, &a, RECV, 0);
			CHECK_EQ(contract_bytes_not(e, e->buffer + i * 8, 0x5a, 8), 0);
		}
	}
}

/* ---- atomics, stale handles, ranges ---------------------------------------------------------- */

CONTRACT_KERNEL(atomics_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	uint64_t old, wrong = 0;
	int err = oriel_fetch_add(w, g, a->peer, a->dst_off, 1, &old);

	wrong += oriel_swap(w, g, a->peer, a->dst_off, 1, &old) != err;
	wrong += oriel_compare_swap(w, g, a->peer, a->dst_off, 1, 2, &old) != err;
	contract_report(a, g, err, wrong);
}

/* The last rank's memory begins at half a word: its alignment counts, not that of the caller's. */
CASE(regression_atomic_peer_misaligned, c.no_window = 1, c.only_threads = 1, c.min_ranks = 2,
     c.max_ranks = 3)
{
	int last = e->nranks - 1;
	uint8_t *made = (uint8_t *)(e->cuda ? contract_alloc(e, 4096 + 8) : calloc(1, 4096 + 8));
	struct setup s;

	if (made && !set_up(e, DEADLINE_S, made + (e->rank == last ? 4 : 0), &s)) {
		s.a.peer = last;
		s.a.dst_off = 8;
		contract_launch_expect(e, &atomics_kernel, 1, &s.a, ORIEL_EINVAL);
		s.a.dst_off = 12;
		contract_launch(e, &atomics_kernel, 1, &s.a);
		s.a.peer = 0;
		contract_launch_expect(e, &atomics_kernel, 1, &s.a, ORIEL_EINVAL);
		s.a.dst_off = 16;
		contract_launch(e, &atomics_kernel, 1, &s.a);
		CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
		tear_down(&s);
	}
	if (!e->cuda)
		free(made);
}

/* A signal word of `w` that lies where the old window kept its generation, or -1. */
static int word_over(const struct oriel_window_dev *w, const struct oriel_window_dev *old)
{
	for (int id = 0; id < (int)w->signals; id++)
		if (&w->signal_words[id] == old->generation_word)
			return id;
	return -1;
}

/* Generations were 1, 2, 3: numbers that a user's signal may well have. */
CASE(regression_stale_handle_over_words, c.no_window = 1, c.max_ranks = 1)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *first, *second, *over;
	struct contract_args a = contract_args(e), stale = a;
	int id;

	o.bytes = 64;
	o.checked = 1;
	REQUIRE_OK(oriel_window_create(e->comm, &o, &first));
	REQUIRE_OK(oriel_window_create(e->comm, &o, &second));
	REQUIRE_OK(oriel_window_device(second, &stale.win));
	REQUIRE_OK(oriel_window_destroy(first));
	REQUIRE_OK(oriel_window_destroy(second));
	o.signals = 4096;
	REQUIRE_OK(oriel_window_create(e->comm, &o, &over));
	REQUIRE_OK(oriel_window_device(over, &a.win));
	REQUIRE_OK(oriel_window_source(over, oriel_window_buffer(over), 64, &stale.src));
	id = word_over(&a.win, &stale.win);
	CHECK(id >= 0); /* else this case proves nothing: find another place */
	for (int i = 0; i < 64 && id >= 0; i++) {
		expect(e, &stale, PUT, ORIEL_ESTALE);
		expect(e, &stale, SIGNAL, ORIEL_ESTALE);
		REQUIRE_OK(oriel_window_signal(over, 0, id, ORIEL_ADD, 1, NULL));
	}
	REQUIRE_OK(oriel_window_destroy(over));
}

/* No memory at all is no address to compute with. */
CASE(regression_nothing_of_nothing, c.no_window = 1, c.max_ranks = 3)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct contract_args a = contract_args(e);
	struct oriel_window *w;

	REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
	REQUIRE_OK(oriel_window_device(w, &a.win));
	REQUIRE_OK(oriel_window_source(w, NULL, 0, &a.src));
	a.value = 1;
	for (a.peer = 0; a.peer < e->nranks; a.peer++) {
		expect(e, &a, PUT_SIGNAL, 0);
		expect(e, &a, GET, 0);
		CHECK_EQ(oriel_window_put_signal(w, a.peer, 0, &a.src, 0, 0, 0, ORIEL_ADD, 1, NULL),
			 0);
	}
	CHECK_EQ(oriel_window_wait_signal(w, -1, 0, ORIEL_GE, 2 * (uint64_t)e->nranks, NULL), 0);
	REQUIRE_OK(oriel_window_barrier(w, 0, NULL));
	REQUIRE_OK(oriel_window_destroy(w));
}

/* Within one memory a copy may not overlap, but the same place and the next one are fine. */
CASE(regression_overlap, c.max_ranks = 1, c.window.checked = 1)
{
	struct contract_args a = contract_args(e);
	uint8_t bytes[3 * 256];

	REQUIRE_OK(oriel_window_source(e->window, e->buffer, e->bytes, &a.src));
	for (int i = 0; i < 256; i++)
		bytes[i] = (uint8_t)i;
	contract_write(e, e->buffer + 1024, bytes, 256);
	a.bytes = 256;
	a.src_off = 1024;
	for (int mode = PUT; mode <= GET; mode++) {
		a.dst_off = 1024 + 255;
		expect(e, &a, mode, ORIEL_EINVAL);
		a.dst_off = 1024 - 1;
		expect(e, &a, mode, ORIEL_EINVAL);
		a.dst_off = 1024;
		expect(e, &a, mode, 0);
	}
	a.dst_off = 1024 + 256;
	expect(e, &a, PUT, 0);
	a.dst_off = 1024 - 256;
	expect(e, &a, PUT, 0);
	contract_read(e, bytes, e->buffer + 1024 - 256, sizeof(bytes));
	for (int i = 0; i < 3 * 256; i++)
		CHECK_EQ(bytes[i], i % 256);
}
