/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/transport.c - contract of the transport layer: the calls of device/mapped.h and
 * device/queued.h on memory that the test allocates, registers and exchanges itself.
 *
 * Every pair of ranks is tested in each way by which it is reached.  Self is left out, because it
 * has no queue and is not a peer here.  There is no window: words and data are in one exchanged
 * buffer per rank.
 */
#include "contract.h"

#define PIECE 4096u /* data from one rank */
#define RANKS 8
#define LINE 128u

/*
 * The exchanged buffer: data, then lines of words, each by source (or by peer, where written here).
 */
#define WORDS (RANKS * PIECE)
#define COUNTERS (WORDS + RANKS * LINE)
#define SLOTS (COUNTERS + RANKS * LINE) /* two slots, two lengths and a ready word from one rank */
#define SLOT_BYTES 256u
#define CHANNEL 1024u
#define FREES (SLOTS + RANKS * CHANNEL)
#define BUFFER (FREES + RANKS * LINE)

/* Words from one source. */
enum word { ARRIVED, ACKNOWLEDGED, SET, RESET, NWORDS };

enum mode {
	PUT_THEN_SIGNAL,
	PUT_SIGNAL,
	PUT_SIGNAL_COUNTER,
	PUT_THEN_FENCED_SIGNAL,
	TICKET_THEN_SIGNAL_COUNTER,
	FENCE_AND_FLUSH,
	RESET_THEN_SIGNAL,
	PUT_SIGNAL_SET,
	MODES
};

/* In memory the kernel can read; contract_args.local points at it. */
struct transport {
	struct oriel_comm_dev comm;
	int32_t kind[RANKS];
	uint8_t *mine;                     /* own exchanged buffer */
	uint8_t *mapped[RANKS];            /* mapped peers' */
	struct oriel_remote remote[RANKS]; /* queued peers' */
	uint8_t *local;                    /* source of puts, PIECE a peer */
	struct oriel_source source;        /* the same */
	struct oriel_source counters;      /* own exchanged buffer, as queues name it */
	uint64_t totals[RANKS][NWORDS];
	uint64_t cursor[RANKS][2];
	uint64_t counted[RANKS];
};

ORIEL_DEV uint64_t *word_at(uint8_t *buffer, int source, int word)
{
	return (uint64_t *)(void *)(buffer + WORDS + (uint64_t)source * LINE) + word;
}

ORIEL_DEV struct oriel_queue_word queue_word(struct transport *t, int peer, int word)
{
	struct oriel_queue_word w;

	w.memory = t->remote[peer];
	w.offset = WORDS + (uint64_t)t->comm.rank * LINE + 8u * (uint64_t)word;
	w.total = &t->totals[peer][word];
	return w;
}

/* ---- one piece to a peer, in one of the ways there are --------------------------------------- */

ORIEL_DEV int send_mapped(struct transport *t, struct oriel_group g, int peer, int mode,
			  uint64_t bytes, uint64_t round)
{
	uint8_t *to = t->mapped[peer] + (uint64_t)t->comm.rank * PIECE;
	const uint8_t *from = t->local + (uint64_t)peer * PIECE;
	int err = 0;

	if (mode == RESET_THEN_SIGNAL)
		err = oriel_mapped_signal(&t->comm, g, peer,
					  word_at(t->mapped[peer], t->comm.rank, RESET), ORIEL_SET,
					  round);
	if (err)
		return err;
	if (mode == PUT_SIGNAL_SET || mode == PUT_SIGNAL)
		return oriel_mapped_put_signal(&t->comm, g, peer, to, from, bytes,
					       word_at(t->mapped[peer], t->comm.rank,
						       mode == PUT_SIGNAL ? ARRIVED : SET),
					       mode == PUT_SIGNAL ? ORIEL_ADD : ORIEL_SET,
					       mode == PUT_SIGNAL ? 1 : round);
	err = oriel_mapped_put(&t->comm, g, to, from, bytes);
	return err ? err :
		     oriel_mapped_signal(&t->comm, g, peer,
					 word_at(t->mapped[peer], t->comm.rank, ARRIVED), ORIEL_ADD,
					 1);
}

/* The count is exact: one for each operation, however many threads made the call. */
ORIEL_DEV int wait_count(struct transport *t, struct oriel_group g, int peer, uint64_t *wrong)
{
	const uint64_t *word =
		(const uint64_t *)(const void *)(t->mine + COUNTERS + (uint64_t)peer * LINE);
	uint64_t want = t->counted[peer] + 1;
	int err = oriel_mapped_wait(&t->comm, g, peer, word, ORIEL_GE, want);

	*wrong += !err && ori_load_acquire_sys(word) != want;
	if (!err)
		err = oriel_group_sync(g);
	if (!err && oriel_group_is_leader(g))
		t->counted[peer] = want;
	return err ? err : oriel_group_sync(g);
}

/* Complete means that the source may be written: what arrives must still be the piece. */
ORIEL_DEV int put_and_spoil(struct transport *t, struct oriel_group g, int peer, uint64_t bytes)
{
	struct oriel_ticket ticket;
	int err;

	memset(&ticket, 0, sizeof(ticket));
	err = oriel_queue_take_ticket(&t->comm, g, peer, &ticket);
	if (!err)
		err = oriel_queue_wait_local(&t->comm, g, &ticket, 0);
	if (!err)
		contract_set(g, t->local + (uint64_t)peer * PIECE, bytes, 0x33);
	return err;
}

ORIEL_DEV int send_queued(struct transport *t, struct oriel_group g, int peer, int mode,
			  uint64_t bytes, uint64_t round, uint64_t *wrong)
{
	struct oriel_queue_word arrived = queue_word(t, peer, ARRIVED);
	struct oriel_queue_word other = queue_word(t, peer, mode == PUT_SIGNAL_SET ? SET : RESET);
	const struct oriel_remote *to = &t->remote[peer];
	uint64_t dst = (uint64_t)t->comm.rank * PIECE, src = (uint64_t)peer * PIECE;
	uint64_t counter = COUNTERS + (uint64_t)peer * LINE;
	int err = 0;

	if (mode == PUT_SIGNAL || mode == PUT_SIGNAL_SET)
		return oriel_queue_put_signal(&t->comm, g, peer, to, dst, &t->source, src, bytes,
					      mode == PUT_SIGNAL ? &arrived : &other,
					      mode == PUT_SIGNAL ? ORIEL_ADD : ORIEL_SET,
					      mode == PUT_SIGNAL ? 1 : round);
	if (mode == PUT_SIGNAL_COUNTER) {
		err = oriel_queue_put_signal_counter(&t->comm, g, peer, to, dst, &t->source, src,
						     bytes, &arrived, ORIEL_ADD, 1, &t->counters,
						     counter);
		return err ? err : wait_count(t, g, peer, wrong);
	}
	err = oriel_queue_put(&t->comm, g, peer, to, dst, &t->source, src, bytes);
	if (!err && mode == TICKET_THEN_SIGNAL_COUNTER) {
		err = put_and_spoil(t, g, peer, bytes);
		if (!err)
			err = oriel_queue_signal_counter(&t->comm, g, peer, &arrived, ORIEL_ADD, 1,
							 &t->counters, counter);
		return err ? err : wait_count(t, g, peer, wrong);
	}
	if (!err && mode == RESET_THEN_SIGNAL)
		err = oriel_queue_reset(&t->comm, g, peer, &other, round);
	if (!err && mode == FENCE_AND_FLUSH)
		err = oriel_queue_fence(&t->comm, g, peer);
	if (err)
		return err;
	if (mode == PUT_THEN_FENCED_SIGNAL)
		return oriel_queue_signal_fence(&t->comm, g, peer, &arrived, ORIEL_ADD, 1);
	err = oriel_queue_signal(&t->comm, g, peer, &arrived, ORIEL_ADD, 1);
	if (!err && mode == FENCE_AND_FLUSH)
		err = oriel_queue_flush(&t->comm, g, peer);
	return err;
}

ORIEL_DEV int acknowledge(struct transport *t, struct oriel_group g, int peer)
{
	struct oriel_queue_word w = queue_word(t, peer, ACKNOWLEDGED);

	if (t->kind[peer] == ORIEL_PEER_QUEUED)
		return oriel_queue_signal(&t->comm, g, peer, &w, ORIEL_ADD, 1);
	return oriel_mapped_signal(&t->comm, g, peer,
				   word_at(t->mapped[peer], t->comm.rank, ACKNOWLEDGED), ORIEL_ADD,
				   1);
}

/* ---- every rank to its right neighbour, at every distance ------------------------------------ */

/* What the left neighbour sent: seen, right to the byte, and nothing beyond it. */
ORIEL_DEV int receive(struct transport *t, struct oriel_group g, int peer, int mode, uint64_t bytes,
		      uint64_t round, uint64_t arrivals, uint64_t *wrong)
{
	uint8_t *piece = t->mine + (uint64_t)peer * PIECE;
	int err;

	err = mode == PUT_SIGNAL_SET ?
		      oriel_mapped_wait(&t->comm, g, peer, word_at(t->mine, peer, SET), ORIEL_EQ,
					round) :
		      oriel_mapped_wait(&t->comm, g, peer, word_at(t->mine, peer, ARRIVED),
					ORIEL_EQ, arrivals);
	if (err)
		return err;
	*wrong += contract_wrong(g, piece, bytes, round, peer, t->comm.rank);
	*wrong += contract_not(g, piece + bytes, PIECE - bytes, CONTRACT_GUARD);
	if (mode == RESET_THEN_SIGNAL)
		*wrong += ori_load_acquire_sys(word_at(t->mine, peer, RESET)) != round;
	err = oriel_group_sync(g);
	contract_set(g, piece, PIECE, CONTRACT_GUARD);
	return err ? err : acknowledge(t, g, peer);
}

CONTRACT_KERNEL(pieces_kernel)
{
	struct transport *t = (struct transport *)(void *)a->local;
	int me = t->comm.rank, n = t->comm.nranks, err = 0, i, d;
	uint64_t wrong = 0, bytes, round, arrivals = a->value;

	/* One block works: the last, so that its lane is not always the first. */
	for (i = 0; g.block + 1 == g.nblocks && i < a->rounds && !err; i++) {
		bytes = (uint64_t)((i * 613 + a->mode * 17) % (int)PIECE);
		round = a->dst_off + (uint64_t)i + 1;
		arrivals += a->mode != PUT_SIGNAL_SET;
		for (d = 1; d < n && !err; d++) {
			int right = (me + d) % n, left = (me + n - d) % n;

			contract_fill(g, t->local + (uint64_t)right * PIECE, bytes, round, me,
				      right);
			err = oriel_group_sync(g);
			if (!err && t->kind[right] == ORIEL_PEER_QUEUED)
				err = send_queued(t, g, right, a->mode, bytes, round, &wrong);
			else if (!err)
				err = send_mapped(t, g, right, a->mode, bytes, round);
			if (!err)
				err = receive(t, g, left, a->mode, bytes, round, arrivals, &wrong);
			if (!err)
				err = oriel_mapped_wait(&t->comm, g, right,
							word_at(t->mine, right, ACKNOWLEDGED),
							ORIEL_EQ, round);
		}
	}
	/*
	 * Waits for completion before any memory is freed: lost packets are sent again until then.
	 */
	for (d = 0; d < n && !err && g.block + 1 == g.nblocks; d++)
		if (t->kind[d] == ORIEL_PEER_QUEUED)
			err = oriel_queue_flush(&t->comm, g, d);
	contract_report(a, g, err, wrong);
}

/* ---- staged streams of mapped peers ---------------------------------------------------------- */

/* The channel from `source` to `target` as rank `me`, one of the two, sees it. */
ORIEL_DEV struct oriel_mapped_channel channel(struct transport *t, int source, int target)
{
	int me = t->comm.rank, peer = me == source ? target : source;
	uint8_t *at_target = me == target ? t->mine : t->mapped[target];
	uint8_t *at_source = me == source ? t->mine : t->mapped[source];
	uint8_t *base = at_target + SLOTS + (uint64_t)source * CHANNEL;
	struct oriel_mapped_channel c;

	c.slots = base;
	c.lengths = (uint64_t *)(void *)(base + 2 * SLOT_BYTES);
	c.ready = c.lengths + 16;
	c.free_count = (uint64_t *)(void *)(at_source + FREES + (uint64_t)target * LINE);
	c.cursor = &t->cursor[peer][me == source];
	c.slot_bytes = SLOT_BYTES;
	c.depth = 2;
	c.peer = peer;
	return c;
}

/*
 * Pairs one after the other, the same way on all ranks, so that messages may be larger than the
 * slots.
 */
CONTRACT_KERNEL(streams_kernel)
{
	struct transport *t = (struct transport *)(void *)a->local;
	int me = t->comm.rank, n = t->comm.nranks, err = 0, i, s, r;
	uint64_t wrong = 0, bytes;

	for (i = 0; i < a->rounds && !err; i++)
		for (s = 0; s < n && !err; s++)
			for (r = 0; r < n && !err; r++) {
				struct oriel_mapped_channel c;
				uint8_t *piece;
				int peer = me == s ? r : s;

				if (s == r || (me != s && me != r) ||
				    t->kind[peer] != ORIEL_PEER_MAPPED)
					continue;
				c = channel(t, s, r);
				bytes = (uint64_t)(i * 700 % 2800);
				piece = t->local + (uint64_t)peer * PIECE;
				if (me == s) {
					contract_fill(g, piece, bytes, (uint64_t)i, s, r);
					err = oriel_group_sync(g);
					if (!err)
						err = oriel_mapped_send(&t->comm, g, &c, piece,
									bytes);
					continue;
				}
				err = oriel_mapped_recv(&t->comm, g, &c, piece, bytes);
				wrong += err ? 0 :
					       contract_wrong(g, piece, bytes, (uint64_t)i, s, r);
				/* nobody fills it again while another thread still looks */
				if (!err)
					err = oriel_group_sync(g);
			}
	contract_report(a, g, err, wrong);
}

/* Blocks, and so lanes and NICs, add to one word of each peer: every add counts. */
CONTRACT_KERNEL(shared_kernel)
{
	struct transport *t = (struct transport *)(void *)a->local;
	int n = t->comm.nranks, err = 0, i, k;
	uint64_t wrong = 0, each = (uint64_t)a->rounds * g.nblocks;
	struct oriel_queue_word word;

	for (i = 0; i < a->rounds && !err; i++)
		for (k = 1; k < n && !err; k++) {
			int peer = (t->comm.rank + k) % n;

			if (t->kind[peer] == ORIEL_PEER_MAPPED) {
				err = oriel_mapped_signal(&t->comm, g, peer,
							  word_at(t->mapped[peer], t->comm.rank,
								  ARRIVED),
							  ORIEL_ADD, 1);
				continue;
			}
			word = queue_word(t, peer, ARRIVED);
			err = oriel_queue_signal(&t->comm, g, peer, &word, ORIEL_ADD, 1);
		}
	for (k = 1; k < n && !err; k++) {
		int peer = (t->comm.rank + k) % n;
		const uint64_t *mine = word_at(t->mine, peer, ARRIVED);

		err = oriel_mapped_wait(&t->comm, g, peer, mine, ORIEL_GE, each);
		wrong += !err && ori_load_acquire_sys(mine) != each;
	}
	contract_report(a, g, err, wrong);
}

/* ---- the host's side ------------------------------------------------------------------------- */

struct buffers {
	struct oriel_buffer *exchanged, *local;
	struct transport *t; /* as the host fills it */
	uint8_t *device;     /* where kernels read it */
};

static int open_peers(struct contract_env *e, struct buffers *b)
{
	struct transport *t = b->t;
	int err = oriel_comm_device(e->comm, &t->comm);

	for (int r = 0; r < e->nranks && !err; r++) {
		t->kind[r] = oriel_comm_peer_kind(e->comm, r);
		if (t->kind[r] == ORIEL_PEER_QUEUED)
			err = oriel_buffer_remote(b->exchanged, r, &t->remote[r]);
		else
			t->mapped[r] = (uint8_t *)oriel_buffer_mapped(b->exchanged, r);
	}
	if (!err)
		err = oriel_buffer_source(b->exchanged, &t->counters);
	if (!err)
		err = oriel_buffer_source(b->local, &t->source);
	if (!err)
		contract_write(e, b->device, t, sizeof(*t));
	return err;
}

static int open_buffers(struct contract_env *e, struct buffers *b)
{
	struct transport *t = (struct transport *)calloc(1, sizeof(*t));
	int err;

	b->t = t;
	b->device = (uint8_t *)contract_alloc(e, sizeof(*t));
	if (!t || !b->device)
		return ORIEL_ENOMEM;
	t->mine = (uint8_t *)contract_alloc(e, BUFFER);
	t->local = (uint8_t *)contract_alloc(e, RANKS * PIECE);
	if (!t->mine || !t->local)
		return ORIEL_ENOMEM;
	contract_fill_bytes(e, t->mine, CONTRACT_GUARD, RANKS * PIECE);
	err = oriel_buffer_register(e->comm, t->mine, BUFFER, &b->exchanged);
	if (!err)
		err = oriel_buffer_register(e->comm, t->local, RANKS * PIECE, &b->local);
	if (!err)
		err = oriel_buffer_exchange(e->comm, b->exchanged);
	return err ? err : open_peers(e, b);
}

static void close_buffers(struct contract_env *e, struct buffers *b)
{
	/* Nobody's memory goes while another rank may still name it. */
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	CHECK_EQ(oriel_buffer_release(b->exchanged), 0);
	CHECK_EQ(oriel_buffer_release(b->local), 0);
	free(b->t);
}

static void run_pieces(struct contract_env *e, const struct buffers *b, int nblocks)
{
	struct contract_args a = contract_args(e);

	a.local = b->device;
	a.rounds = contract_rounds(e, 12);
	for (int mode = 0; mode < MODES; mode++) {
		a.mode = mode;
		contract_launch(e, &pieces_kernel, nblocks, &a);
		/* counts go on over launches: of rounds, which are acknowledged, and of arrivals */
		a.dst_off += (uint64_t)a.rounds;
		if (mode != PUT_SIGNAL_SET)
			a.value += (uint64_t)a.rounds;
	}
}

CASE(transport_every_call, c.min_ranks = 2, c.shape = CONTRACT_PAIRS, c.no_window = 1)
{
	struct buffers b = { NULL, NULL, NULL, NULL };

	REQUIRE_OK(open_buffers(e, &b));
	run_pieces(e, &b, 1);
	close_buffers(e, &b);
}

/* The same in the second block of a launch, which has another lane where there are several. */
CASE(transport_every_call_in_another_block, c.min_ranks = 2, c.blocks = 2, c.no_window = 1)
{
	struct buffers b = { NULL, NULL, NULL, NULL };

	REQUIRE_OK(open_buffers(e, &b));
	run_pieces(e, &b, 2);
	close_buffers(e, &b);
}

CASE(transport_blocks_share_a_word, c.min_ranks = 2, c.blocks = 4, c.no_window = 1)
{
	struct contract_args a = contract_args(e);
	struct buffers b = { NULL, NULL, NULL, NULL };

	REQUIRE_OK(open_buffers(e, &b));
	a.local = b.device;
	a.rounds = contract_rounds(e, 40);
	contract_launch(e, &shared_kernel, 4, &a);
	close_buffers(e, &b);
}

CASE(transport_streams, c.min_ranks = 2, c.no_window = 1)
{
	struct contract_args a = contract_args(e);
	struct buffers b = { NULL, NULL, NULL, NULL };

	REQUIRE_OK(open_buffers(e, &b));
	a.local = b.device;
	a.rounds = contract_rounds(e, 9);
	contract_launch(e, &streams_kernel, 1, &a);
	close_buffers(e, &b);
}

/* A buffer keeps its names over a second exchange, and each rank says what it cannot give. */
CASE(transport_buffer_names, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_remote before, again, untouched = { 1, 2, { 3, 4 } };
	struct oriel_source source, twice;
	struct oriel_buffer *buffer;
	void *p = contract_alloc(e, 8192);

	REQUIRE(p);
	REQUIRE_OK(oriel_buffer_register(e->comm, p, 8192, &buffer));
	CHECK_EQ(oriel_buffer_remote(buffer, 0, &untouched), ORIEL_EINVAL); /* not exchanged */
	REQUIRE_OK(oriel_buffer_source(buffer, &source));
	REQUIRE_OK(oriel_buffer_source(buffer, &twice));
	CHECK(source.address == (uint64_t)(uintptr_t)p && source.bytes == 8192);
	CHECK(!memcmp(&source, &twice, sizeof(source)));
	REQUIRE_OK(oriel_buffer_exchange(e->comm, buffer));
	for (int r = 0; r < e->nranks; r++) {
		int queued = oriel_comm_peer_kind(e->comm, r) == ORIEL_PEER_QUEUED;

		CHECK_EQ(oriel_buffer_remote(buffer, r, &before), queued ? 0 : ORIEL_ENOTCONN);
		if (!queued) {
			CHECK_HAS(oriel_last_error(), "oriel_buffer_mapped");
			continue;
		}
		CHECK(before.address == 0 && before.bytes == 8192 && before.key[0] != 0);
	}
	CHECK_EQ(oriel_buffer_remote(buffer, -1, &untouched), ORIEL_ERANGE);
	CHECK_EQ(oriel_buffer_remote(buffer, e->nranks, &untouched), ORIEL_ERANGE);
	CHECK_EQ(oriel_buffer_remote(buffer, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_buffer_remote(NULL, 0, &untouched), ORIEL_EINVAL);
	CHECK_EQ(oriel_buffer_source(buffer, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_buffer_source(NULL, &twice), ORIEL_EINVAL);
	CHECK(untouched.address == 1 && untouched.bytes == 2 && untouched.key[1] == 4);
	REQUIRE_OK(oriel_buffer_exchange(e->comm, buffer));
	for (int r = 0; r < e->nranks; r++)
		if (oriel_comm_peer_kind(e->comm, r) == ORIEL_PEER_QUEUED) {
			memset(&again, 0, sizeof(again));
			CHECK_EQ(oriel_buffer_remote(buffer, r, &again), 0);
			if (r == e->nranks - 1)
				CHECK(!memcmp(&before, &again, sizeof(again)));
		}
	CHECK_EQ(oriel_comm_status(e->comm), 0);
	CHECK_EQ(oriel_buffer_release(buffer), 0);
}
