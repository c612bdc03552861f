/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_faults.c - thousands of messages over a wire that drops, doubles, reorders and
 * delays packets.  All bytes are right, every atomic happens exactly once, and each WQE has one
 * CQE.  The tests also check that recovery took place.
 */
#include "soft_world.h"

#define RANKS 3
#define AREA 32768u /* of one source in a target's memory */
#define BYTES (AREA * RANKS)

/* One rank's queue to one peer, and a model of what its operations must have done there. */
struct flow {
	struct queue q;
	int from, to;
	uint64_t adds, last_value; /* fetch-adds posted, last signal word posted */
	uint8_t *expect;           /* AREA bytes */
};

struct job {
	struct world w;
	uint64_t random;
	uint8_t *mem[RANKS], *local[RANKS];
	uint32_t key[RANKS], local_key[RANKS];
	struct flow flow[RANKS * RANKS];
	int flows;
	uint64_t posted;
};

static uint32_t pick(struct job *j, uint32_t below)
{
	j->random = j->random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(j->random >> 33) % below;
}

static uint8_t *at_target(struct job *j, const struct flow *f)
{
	return j->mem[f->to] + (size_t)f->from * AREA;
}

/*
 * The source keeps its bytes until completion: each flow has its own stretch, written by position.
 */
static uint8_t *at_source(struct job *j, const struct flow *f)
{
	return j->local[f->from] + (size_t)f->to * AREA;
}

static void job_open(struct job *j, const char *personality, const char *faults, uint32_t depth,
		     uint64_t first)
{
	memset(j, 0, sizeof(*j));
	world_open(&j->w, RANKS, personality, faults);
	j->random = j->w.config.seed + 99;
	for (int r = 0; r < RANKS; r++) {
		j->mem[r] = calloc(1, BYTES);
		j->local[r] = calloc(1, BYTES);
		j->key[r] = world_mr(&j->w, r, j->mem[r], BYTES, WORLD_ALL, 1);
		j->local_key[r] = world_mr(&j->w, r, j->local[r], BYTES, WORLD_ALL, 1);
	}
	for (int a = 0; a < RANKS; a++)
		for (int b = 0; b < RANKS; b++) {
			struct flow *f = &j->flow[j->flows++];

			f->from = a;
			f->to = b;
			f->expect = calloc(1, AREA);
			queue_open(&j->w, &f->q, a, depth, first, 0);
		}
	for (int a = 0; a < RANKS; a++)
		for (int b = 0; b < a; b++)
			queue_connect(&j->w, &j->flow[a * RANKS + b].q, &j->flow[b * RANKS + a].q);
	for (int a = 0; a < RANKS; a++) {
		struct queue *self = &j->flow[a * RANKS + a].q; /* connected to itself */

		CHECK_EQ(soft_qp_connect(j->w.nic[a], self->qpn, a, self->qpn), 0);
	}
}

static void job_close(struct job *j)
{
	for (int i = 0; i < j->flows; i++) {
		queue_close(&j->w, &j->flow[i].q);
		free(j->flow[i].expect);
	}
	world_close(&j->w);
	for (int r = 0; r < RANKS; r++) {
		free(j->mem[r]);
		free(j->local[r]);
	}
}

/* Layout of an AREA: word 0 signal, word 1 counter of adds, from 64 on data. */
static void post_write(struct job *j, struct flow *f)
{
	uint32_t bytes = 1 + (pick(j, 8) ? pick(j, 200) : pick(j, 12000));
	uint32_t offset = 64 + pick(j, AREA - 64 - bytes);

	/*
	 * one write a burst, and bursts are drained: the source of none under way is changed here
	 */
	world_fill(at_source(j, f) + offset, bytes, (uint32_t)j->random);
	memcpy(f->expect + offset, at_source(j, f) + offset, bytes);
	ori_wqe_rdma(queue_slot(&f->q), f->q.next, f->q.qpn, ORI_WQE_RDMA_WRITE,
		     (uint64_t)f->from * AREA + offset, j->key[f->to],
		     (uint64_t)f->to * AREA + offset, j->local_key[f->from], bytes, 0);
	queue_ring(&f->q);
}

static void post_signal(struct job *j, struct flow *f)
{
	/* where nothing is ordered, a word is written again only after the last write completed */
	uint32_t flags = j->w.config.ooo || j->w.config.overtake ? ORI_WQE_STRONG : 0;

	f->last_value++;
	ori_wqe_write_inline(queue_slot(&f->q), f->q.next, f->q.qpn, (uint64_t)f->from * AREA,
			     j->key[f->to], &f->last_value, 8, flags);
	queue_ring(&f->q);
}

static void post_add(struct job *j, struct flow *f)
{
	f->adds++;
	ori_wqe_fetch_add(queue_slot(&f->q), f->q.next, f->q.qpn, (uint64_t)f->from * AREA + 8,
			  j->key[f->to], 1, (uint64_t)f->to * AREA, j->local_key[f->from], 0);
	queue_ring(&f->q);
}

static void post_read(struct job *j, struct flow *f)
{
	uint32_t bytes = 1 + pick(j, 9000);

	ori_wqe_rdma(queue_slot(&f->q), f->q.next, f->q.qpn, ORI_WQE_RDMA_READ,
		     (uint64_t)f->from * AREA + 64, j->key[f->to], (uint64_t)f->to * AREA + 64,
		     j->local_key[f->from], bytes, ORI_WQE_STRONG);
	queue_ring(&f->q);
}

/* No word goes back, and a signal is never past what was posted. */
static void check_words(struct job *j, const struct flow *f, uint64_t *last)
{
	const uint64_t *words = (const uint64_t *)(const void *)at_target(j, f);

	CHECK(words[0] >= last[0] && words[0] <= f->last_value);
	CHECK(words[1] >= last[1] && words[1] <= f->adds);
	last[0] = words[0];
	last[1] = words[1];
}

static void poll_all(struct job *j)
{
	uint32_t syndrome;

	for (int i = 0; i < j->flows; i++)
		while (j->flow[i].q.polled < j->flow[i].q.next &&
		       queue_poll(&j->flow[i].q, &syndrome))
			CHECK_EQ(syndrome, 0);
}

static void drain(struct job *j)
{
	for (int i = 0; i < j->flows; i++)
		queue_drain(&j->w, &j->flow[i].q, 0);
}

static void post_some(struct job *j, struct flow *f, int atomics)
{
	switch (pick(j, 8)) {
	case 0:
	case 1:
		if (atomics)
			post_add(j, f);
		else
			post_signal(j, f);
		break;
	case 2:
		/*
		 * A READ lands in the source stretch.  It reads the target's data, which equals the
		 * source once all writes before are placed; so the source stays what it was.
		 */
		post_read(j, f);
		break;
	case 3:
	case 4:
		post_signal(j, f);
		break;
	default:
		post_write(j, f);
		break;
	}
	j->posted++;
}

static void check_result(struct job *j)
{
	for (int i = 0; i < j->flows; i++) {
		struct flow *f = &j->flow[i];
		const uint64_t *words = (const uint64_t *)(const void *)at_target(j, f);

		CHECK_EQ(words[0], f->last_value);
		CHECK_EQ(words[1], f->adds);
		CHECK(!memcmp(at_target(j, f) + 64, f->expect + 64, AREA - 64));
	}
}

static struct soft_stats play(const char *personality, const char *faults, uint32_t depth,
			      uint64_t first, int rounds)
{
	static uint64_t last[RANKS * RANKS][2];
	struct soft_stats stats;
	struct job j;

	memset(last, 0, sizeof(last));
	job_open(&j, personality, faults, depth, first);
	for (int round = 0; round < rounds; round++) {
		/*
		 * a burst on every flow; writes of a burst may overlap, so one of them a burst and
		 * flow
		 */
		for (int i = 0; i < j.flows; i++) {
			struct flow *f = &j.flow[i];
			uint32_t burst = 1 + pick(&j, depth < 6 ? depth : 6);

			for (uint32_t n = 0; n < burst; n++) {
				while (queue_full(&f->q)) {
					world_step(&j.w, 1 + (int)pick(&j, 40));
					poll_all(&j);
				}
				if (n)
					post_signal(&j, f);
				else
					post_some(&j, f, !j.w.config.no_atomics);
			}
		}
		for (uint32_t n = pick(&j, 20); n; n--) {
			world_step(&j.w, 1 + (int)pick(&j, 20));
			for (int i = 0; i < j.flows; i++)
				check_words(&j, &j.flow[i], last[i]);
			poll_all(&j);
		}
		drain(&j);
	}
	check_result(&j);
	for (int r = 0; r < RANKS; r++)
		CHECK_EQ(j.w.at[r].error.count, 0);
	stats = world_stats(&j.w);
	CHECK_EQ(stats.wqes, stats.cqes);
	CHECK(stats.wqes >= j.posted);
	job_close(&j);
	return stats;
}

#define QUICK "retry_ns=200000,retry=50,"

TEST(clean_wire)
{
	struct soft_stats s = play(NULL, QUICK "seed=1", 8, 0, 300);

	CHECK_EQ(s.retransmits + s.naks + s.replays + s.dropped, 0);
}

TEST(drops)
{
	struct soft_stats s = play(NULL, QUICK "seed=2,drop=0.05", 8, 0xfff0, 400);

	CHECK(s.dropped > 0 && s.retransmits > 0 && s.naks > 0 && s.replays > 0);
}

TEST(duplicates)
{
	struct soft_stats s = play(NULL, QUICK "seed=3,dup=0.2", 8, 0x7ff0, 400);

	CHECK(s.duplicated > 0 && s.replays > 0);
}

TEST(reorders)
{
	struct soft_stats s = play(NULL, QUICK "seed=4,reorder=0.2", 8, 0, 400);

	CHECK(s.reordered > 0 && s.naks > 0 && s.retransmits > 0);
}

TEST(delays)
{
	struct soft_stats s = play(NULL, QUICK "seed=5,delay=0.1", 8, 0, 300);

	CHECK(s.delayed > 0 && s.naks > 0 && s.retransmits > 0);
}

TEST(everything_at_once)
{
	static const char *const personalities[] = { "soft", "cx7", "efa", "thor2" };

	for (size_t i = 0; i < ORI_COUNT(personalities); i++)
		for (int seed = 0; seed < 6; seed++) {
			struct soft_stats s;
			char text[256];

			snprintf(text, sizeof(text),
				 QUICK
				 "seed=%d,drop=0.05,dup=0.05,reorder=0.1,delay=0.02,dbr_late=0.1,"
				 "torn_cqe=0.1,first_psn=%s,mtu=%d",
				 seed, seed % 2 ? "0xfffff0" : "0x7ffff8", 64 << seed);
			s = play(personalities[i], text, 1u << seed, (1ull << 32) - 8, 60);
			CHECK(s.retransmits > 0);
			/* a gap needs two WQEs under way; ooo takes what comes behind one */
			CHECK(s.naks > 0 || seed == 0 || i == 1 || i == 2);
		}
}

/* Everything drawn from the seed: faults, personality, depth, where the counters start. */
TEST(random_settings)
{
	static const char *const names[] = { "soft", "cx7", "efa", "thor2" };
	uint64_t r = 0;

	for (int seed = 0; seed < 150; seed++) {
		int failures = check_failures;
		const char *name;
		char text[320];

		r = (r + (uint64_t)seed + 1) * 0x9e3779b97f4a7c15ull;
		r = (r ^ r >> 32) * 0xbf58476d1ce4e5b9ull;
		r ^= r >> 29;
		name = names[r >> 22 & 3];
		snprintf(text, sizeof(text),
			 QUICK "seed=%d,drop=%g,dup=%g,reorder=%g,delay=%g,dbr_late=%g,torn_cqe=%g,"
			       "first_psn=%u,mtu=%u,ooo=%u,max_reads=%u,dbr=%s,strict=%u",
			 seed, (double)(r & 3) * 0.04, (double)(r >> 2 & 3) * 0.05,
			 (double)(r >> 4 & 3) * 0.08, (double)(r >> 6 & 3) * 0.02,
			 (double)(r >> 8 & 1) * 0.2, (double)(r >> 9 & 1) * 0.2,
			 (r >> 10 & 1) ? 0xfffff0u : 0x7ffff0u, 64u << (r >> 11 & 7),
			 (unsigned)(r >> 14 & 1), 1 + (unsigned)(r >> 15 & 15),
			 (r >> 20 & 1) ? "random" : "doorbell", (unsigned)(r >> 21 & 1));
		play(name, text, 1u << (r >> 24 & 7), (r >> 28 & 1) ? (1ull << 32) - 20 : 0xfff0,
		     30);
		if (failures != check_failures)
			printf("in: ORIEL_SOFT_NIC=%s ORIEL_SOFT_FAULTS=%s\n", name, text);
	}
}

/* ooo alone: things overtake, and nothing is lost. */
TEST(out_of_order)
{
	struct soft_stats s = play(NULL, QUICK "seed=6,ooo=1", 16, 0, 400);

	CHECK(s.reordered > 0);
	CHECK_EQ(s.dropped, 0);
}

/* How a signal follows its data. */
enum way { PLAIN, STRONG, ADD };

/* How often of 500 times a signal was seen before the data that was posted before it. */
static int seen_early(const char *personality, enum way way)
{
	struct world w;
	struct queue a, b;
	static uint64_t from[64], to[64];
	uint32_t key0, key1;
	int early = 0;

	world_open(&w, 2, personality, QUICK "seed=8");
	queue_open(&w, &a, 0, 16, 0, 0);
	queue_open(&w, &b, 1, 16, 0, 0);
	queue_connect(&w, &a, &b);
	memset(to, 0, sizeof(to));
	key0 = world_mr(&w, 0, from, sizeof(from), WORLD_ALL, 1);
	key1 = world_mr(&w, 1, to, sizeof(to), WORLD_ALL, 1);
	for (uint64_t i = 1; i <= 500; i++) {
		from[8] = i;
		ori_wqe_rdma(queue_slot(&a), a.next, a.qpn, ORI_WQE_RDMA_WRITE, 64, key1, 64, key0,
			     64, 0);
		queue_ring(&a);
		if (way == ADD)
			ori_wqe_fetch_add(queue_slot(&a), a.next, a.qpn, 0, key1, 1, 256, key0, 0);
		else
			ori_wqe_write_inline(queue_slot(&a), a.next, a.qpn, 0, key1, &i, 8,
					     way == STRONG ? ORI_WQE_STRONG : 0);
		queue_ring(&a);
		while (to[0] != i)
			world_step(&w, 4);
		early += to[8] != i;
		queue_drain(&w, &a, 0);
	}
	queue_close(&w, &a);
	queue_close(&w, &b);
	world_close(&w);
	return early;
}

/* With ooo a plain signal does overtake its data: that the fence is needed must be visible. */
TEST(out_of_order_is_real)
{
	CHECK(seen_early("efa", PLAIN) > 0);
	CHECK_EQ(seen_early("efa", STRONG), 0);
}

/* A fabric that routes adaptively: plain writes overtake, an atomic never does. */
TEST(overtaking_is_real)
{
	CHECK(seen_early("cx7", PLAIN) > 0);
	CHECK_EQ(seen_early("cx7", STRONG), 0);
	CHECK_EQ(seen_early("cx7", ADD), 0);
	CHECK_EQ(seen_early("soft", PLAIN), 0);
}

/* What is left of n adds by each of two NICs to one word, or to a word each. */
static uint64_t added(const char *personality, uint64_t n, int words)
{
	static uint64_t from[64], to[64];
	struct queue a[2], b[2];
	struct world w[2];
	uint32_t key[2], sink[2];

	memset(to, 0, sizeof(to));
	for (int i = 0; i < 2; i++) {
		world_open(&w[i], 2, personality, i ? QUICK "seed=3" : QUICK "seed=4");
		queue_open(&w[i], &a[i], 0, 16, 0, 0);
		queue_open(&w[i], &b[i], 1, 16, 0, 0);
		queue_connect(&w[i], &a[i], &b[i]);
		sink[i] = world_mr(&w[i], 0, from, sizeof(from), WORLD_ALL, 1);
		key[i] = world_mr(&w[i], 1, to, sizeof(to), WORLD_ALL, 1);
	}
	for (uint64_t done = 0; done < n; done++) {
		for (int i = 0; i < 2; i++) {
			ori_wqe_fetch_add(queue_slot(&a[i]), a[i].next, a[i].qpn,
					  words > 1 ? 8u * (uint32_t)i : 0, key[i], 1, 0, sink[i],
					  0);
			queue_ring(&a[i]);
		}
		for (int step = 0; step < 8; step++)
			world_step(&w[step % 2], 1);
		for (int i = 0; i < 2; i++)
			queue_drain(&w[i], &a[i], 0);
	}
	for (int i = 0; i < 2; i++) {
		queue_close(&w[i], &a[i]);
		queue_close(&w[i], &b[i]);
		world_close(&w[i]);
	}
	return to[0] + to[1];
}

/* A NIC is atomic within itself only: what two add to one word is not what they added. */
TEST(two_nics_lose_adds)
{
	CHECK(added("cx7", 200, 1) < 400);
	CHECK_EQ(added("cx7", 200, 2), 400);
	CHECK_EQ(added("soft", 200, 1), 400);
}

/* The same seed plays the same run. */
TEST(replays_by_seed)
{
	const char *text = QUICK "seed=77,drop=0.03,dup=0.03,reorder=0.1";
	struct soft_stats a = play(NULL, text, 8, 0, 60), b = play(NULL, text, 8, 0, 60);

	CHECK(!memcmp(&a, &b, sizeof(a)));
}

/*
 * Few entries in the replay cache, many requests that need one, and a wire that loses every eighth.
 */
static void small_cache(int ooo, int max_reads)
{
	static uint64_t from[2048], to[2048];
	uint32_t key0, key1, syndrome;
	uint64_t before;
	struct queue a, b;
	struct world w;
	char text[160];

	snprintf(text, sizeof(text),
		 QUICK "seed=%d,drop=0.12,reorder=0.2,dup=0.1,mtu=64,ooo=%d,max_reads=%d",
		 ooo * 100 + max_reads, ooo, max_reads);
	world_open(&w, 2, NULL, text);
	queue_open(&w, &a, 0, 64, 0, 0);
	queue_open(&w, &b, 1, 64, 0, 0);
	queue_connect(&w, &a, &b);
	memset(to, 0, sizeof(to));
	world_fill((uint8_t *)from, sizeof(from), 6);
	before = from[0];
	key0 = world_mr(&w, 0, to, sizeof(to), WORLD_ALL, 1);
	key1 = world_mr(&w, 1, from, sizeof(from), WORLD_ALL, 1);
	for (uint64_t i = 0; i < 400; i++) {
		while (queue_full(&a)) {
			world_step(&w, 32);
			while (a.polled < a.next && queue_poll(&a, &syndrome))
				CHECK_EQ(syndrome, 0);
		}
		if (i % 2)
			ori_wqe_fetch_add(queue_slot(&a), a.next, a.qpn, 0, key1, 1, 8, key0, 0);
		else
			ori_wqe_rdma(queue_slot(&a), a.next, a.qpn, ORI_WQE_RDMA_READ, 64, key1, 64,
				     key0, i % 3 ? 100 : 9000, 0);
		queue_ring(&a);
	}
	queue_drain(&w, &a, 0);
	CHECK(!memcmp((uint8_t *)to + 64, (uint8_t *)from + 64, 9000));
	CHECK_EQ(from[0] - before, 200);
	CHECK(world_stats(&w).replays > 0);
	CHECK_EQ(w.at[0].error.count + w.at[1].error.count, 0);
	queue_close(&w, &a);
	queue_close(&w, &b);
	world_close(&w);
}

TEST(small_replay_cache)
{
	for (int max_reads = 1; max_reads <= 4; max_reads++) {
		small_cache(0, max_reads);
		small_cache(1, max_reads);
	}
}
