/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/vm/verbs_ranks.c - one of two ranks that drive the verbs engine as a device does: it writes
 * WQEs into queues, rings a doorbell, and reads CQEs.  There is no comm and no boot.  The ranks are
 * processes on one or two machines.  They meet in a folder that both see.
 *
 *	verbs_ranks FOLDER RANK SCENARIO
 *
 * ops       every kind of operation, both ways at once; counters by WAIT; queues whose indices wrap
 * revoked   rank 0 deregisters its memory without notice: rank 1 gets "remote access", and rank 0
 *           reports the queue pair that this breaks
 * gone      rank 1 closes its engine: rank 0 gets "retry exceeded", in the time that ORIEL_IB_* set
 * killed    rank 1 asks for its own power failure (creates FOLDER/kill): the same at rank 0
 * stream    rank 0 writes 64 KiB repeatedly and prints bytes per second, for bench/verbs
 *
 * Exit status: 0 if all checks passed; else 1, after a message for each check that failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <oriel/device/types.h>
#include <oriel/device/wqe.h>

#include "engine/verbs/verbs_engine.h"
#include "util/config.h"
#include "util/util.h"

#define AREA_BYTES 262144u
#define DEPTH 64u
#define DEADLINE_NS (30 * ORI_NS_PER_S)
#define FIRST_INDEX 65500u

static const char *folder;
static int rank;

/* ---- the end of it --------------------------------------------------------------------------- */

static void give_up(const char *what, unsigned long long have, unsigned long long want)
{
	printf("rank %d: FAILED: %s: %llu instead of %llu\n", rank, what, have, want);
	fflush(stdout);
	_exit(1);
}

static void expect(const char *what, uint64_t have, uint64_t want)
{
	if (have != want)
		give_up(what, have, want);
}

/* ---- meeting in the folder ------------------------------------------------------------------- */

static void path_of(char *out, size_t bytes, const char *name, int of)
{
	snprintf(out, bytes, "%s/%s.%d", folder, name, of);
}

static void publish(const char *name, const void *mine, size_t bytes)
{
	char path[512], hidden[512];
	int fd;

	path_of(path, sizeof(path), name, rank);
	path_of(hidden, sizeof(hidden), "making", rank);
	fd = open(hidden, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, mine, bytes) != (ssize_t)bytes || close(fd) || rename(hidden, path))
		give_up("cannot write into the folder", (unsigned)errno, 0);
}

/* Both ranks come with something of the same size. */
static void exchange(const char *name, const void *mine, void *theirs, size_t bytes)
{
	uint64_t deadline = ori_now_ns() + DEADLINE_NS;
	char path[512];
	int fd;

	publish(name, mine, bytes);
	path_of(path, sizeof(path), name, 1 - rank);
	while ((fd = open(path, O_RDONLY)) < 0) {
		if (ori_now_ns() > deadline)
			give_up("the other rank does not come", 0, 1);
		ori_sleep_ns(2000000);
	}
	if (read(fd, theirs, bytes) != (ssize_t)bytes)
		give_up("the other rank says too little", 0, bytes);
	close(fd);
}

static void meet(const char *name)
{
	char mine = 'x', theirs;

	exchange(name, &mine, &theirs, 1);
}

/* ---- a rank ---------------------------------------------------------------------------------- */

struct dev {
	struct oriel_queue q;
	uint32_t record[2];
	uint64_t doorbell;
	uint64_t next, polled;
};

struct world {
	struct ori_config config;
	struct ori_engine *engine;
	struct oriel_waiters waiters, kicks;
	struct dev main, companion;
	uint8_t *area, *source; /* what the peer writes; what is sent and read into */
	uint32_t area_key[ORIEL_NICS_MAX], source_key[ORIEL_NICS_MAX], peer_key[ORIEL_NICS_MAX];
	/* told by the engine */
	uint32_t failed_qpn, failed_syndrome;
	int failures;
};

static void told_doomed(void *ctx, uint32_t nic, uint32_t qpn)
{
	(void)ctx;
	(void)nic;
	(void)qpn;
}

static void told_failed(void *ctx, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	struct world *w = ctx;

	printf("rank %d: queue 0x%x failed at WQE %llu: %s (0x%02x)\n", rank, qpn,
	       (unsigned long long)wqe, ori_syndrome_text(syndrome), syndrome);
	(void)nic;
	if (qpn == w->main.q.qpn) {
		w->failed_qpn = qpn;
		w->failed_syndrome = syndrome;
	}
	__atomic_fetch_add(&w->failures, 1, __ATOMIC_RELEASE);
}

static void dev_open(struct world *w, struct dev *d, int core_direct)
{
	d->q.sq = aligned_alloc(64, DEPTH * 64);
	d->q.cq = aligned_alloc(64, DEPTH * 64);
	if (!d->q.sq || !d->q.cq)
		give_up("no memory", 0, 1);
	memset(d->q.sq, 0xa5, DEPTH * 64);
	memset(d->q.cq, 0xa5, DEPTH * 64);
	d->q.record = d->record;
	d->q.doorbell = &d->doorbell;
	d->q.depth = DEPTH;
	d->q.log_depth = (uint32_t)__builtin_ctz(DEPTH);
	d->q.peer = 1 - rank;
	d->q.reserved = d->q.produced = d->q.completed = FIRST_INDEX;
	d->next = d->polled = FIRST_INDEX;
	expect("queue_add", (uint64_t)w->engine->ops->queue_add(w->engine, 0, &d->q, core_direct),
	       0);
}

static void add_memory(struct world *w, uint8_t **base, int remote, uint32_t *key,
		       struct ori_engine_blob *tell)
{
	struct ori_engine_memory m = { .bytes = AREA_BYTES, .remote = remote };

	*base = aligned_alloc(4096, AREA_BYTES);
	if (!*base)
		give_up("no memory", 0, 1);
	memset(*base, 0, AREA_BYTES);
	m.base = *base;
	m.iova = remote ? 0 : (uint64_t)(uintptr_t)*base;
	expect("memory_add", (uint64_t)w->engine->ops->memory_add(w->engine, &m, key, tell), 0);
}

static void connect_world(struct world *w)
{
	struct {
		struct ori_engine_address address;
		struct ori_engine_blob blob;
		uint32_t key[ORIEL_NICS_MAX], number;
	} mine, theirs;
	const struct ori_engine_ops *ops = w->engine->ops;
	uint32_t responder;

	memset(&mine, 0, sizeof(mine));
	add_memory(w, &w->area, 1, w->area_key, &mine.blob);
	add_memory(w, &w->source, 0, w->source_key, NULL);
	dev_open(w, &w->main, 0);
	dev_open(w, &w->companion, 1);
	expect("address", (uint64_t)ops->address(w->engine, &mine.address), 0);
	memcpy(mine.key, w->area_key, sizeof(mine.key));
	mine.number = ops->queue_number(w->engine, 0, w->main.q.qpn);
	exchange("hello", &mine, &theirs, sizeof(mine));
	memcpy(w->peer_key, theirs.key, sizeof(theirs.key));
	expect("peer", (uint64_t)ops->peer(w->engine, 1 - rank, &theirs.address), 0);
	expect("told", (uint64_t)ops->memory_told(w->engine, 1 - rank, theirs.key, &theirs.blob),
	       0);
	expect("connect",
	       (uint64_t)ops->connect(w->engine, 0, w->main.q.qpn, 1 - rank, theirs.number), 0);
	expect("responder", (uint64_t)ops->responder_add(w->engine, 0, &responder), 0);
	expect("companion",
	       (uint64_t)ops->connect(w->engine, 0, w->companion.q.qpn, rank, responder), 0);
	expect("start", (uint64_t)ops->start(w->engine), 0);
	meet("connected");
}

static void open_world(struct world *w)
{
	struct ori_engine_world ew = { .ctx = w,
				       .rank = rank,
				       .nranks = 2,
				       .waiters = &w->waiters,
				       .kicks = &w->kicks,
				       .doomed = told_doomed,
				       .failed = told_failed };
	char why[256] = "";

	memset(w, 0, sizeof(*w));
	expect("config", (uint64_t)ori_config_read(&w->config), 0);
	w->config.depth = DEPTH;
	if (ori_verbs_engine_probe(&w->config, why, sizeof(why)))
		printf("rank %d: probe: %s\n", rank, why);
	if (ori_verbs_engine_open(&w->config, &ew, &w->engine))
		give_up(ori_last_error_text(), 1, 0);
	connect_world(w);
}

static void close_world(struct world *w)
{
	char text[400] = "";

	w->engine->ops->statistics(w->engine, text, sizeof(text));
	printf("rank %d: %s\n", rank, text);
	w->engine->ops->close(w->engine);
	free(w->main.q.sq);
	free(w->main.q.cq);
	free(w->companion.q.sq);
	free(w->companion.q.cq);
	free(w->area);
	free(w->source);
}

/* ---- posting and polling --------------------------------------------------------------------- */

/* Next CQE in order: 1 if there is one. */
static int poll_one(struct dev *d, uint32_t *syndrome)
{
	const struct ori_cqe *cqe = (const struct ori_cqe *)(const void *)d->q.cq +
				    (d->polled & (DEPTH - 1));
	uint32_t word = __atomic_load_n((const uint32_t *)(const void *)&cqe->wqe_counter,
					__ATOMIC_ACQUIRE);
	uint32_t op_own = word >> 24;

	if (op_own >> 4 == ORI_CQE_INVALID || (op_own & 1) != ((d->polled / DEPTH) & 1))
		return 0;
	expect("index in a CQE", ori_be16((uint16_t)word), d->polled & 0xffff);
	*syndrome = op_own >> 4 == ORI_CQE_REQ_ERR ? cqe->syndrome : 0;
	d->polled++;
	return 1;
}

/* Until at most `left` WQEs have no CQE; returns the first syndrome that is not 0. */
static uint32_t drain(struct world *w, struct dev *d, uint64_t left)
{
	uint64_t deadline = ori_now_ns() + DEADLINE_NS;
	uint32_t syndrome, first = 0;

	while (d->next - d->polled > left) {
		if (!poll_one(d, &syndrome)) {
			w->engine->ops->drive(w->engine);
			if (ori_now_ns() > deadline)
				give_up("CQEs", d->polled, d->next);
			continue;
		}
		first = first ? first : syndrome;
	}
	return first;
}

static void drain_good(struct world *w, struct dev *d)
{
	expect("syndrome", drain(w, d, 0), 0);
}

static struct ori_wqe *slot(struct world *w, struct dev *d)
{
	if (d->next - d->polled == DEPTH)
		expect("syndrome", drain(w, d, DEPTH / 2), 0);
	return (struct ori_wqe *)(void *)(d->q.sq + (d->next & (DEPTH - 1)) * 64);
}

static void ring(struct world *w, struct dev *d)
{
	d->next++;
	__atomic_store_n(&d->record[1], ori_doorbell_record(d->next), __ATOMIC_RELEASE);
	__atomic_store_n(&d->doorbell, ori_doorbell_value(d->next, d->q.qpn), __ATOMIC_RELEASE);
	w->engine->ops->drive(w->engine);
}

static void rdma(struct world *w, uint32_t opcode, uint64_t remote, uint64_t at, uint32_t bytes,
		 uint32_t flags)
{
	ori_wqe_rdma(slot(w, &w->main), w->main.next, w->main.q.qpn, opcode, remote, w->peer_key[0],
		     (uint64_t)(uintptr_t)w->source + at, w->source_key[0], bytes, flags);
	ring(w, &w->main);
}

static void write_inline(struct world *w, uint64_t remote, const void *data, uint32_t bytes)
{
	ori_wqe_write_inline(slot(w, &w->main), w->main.next, w->main.q.qpn, remote, w->peer_key[0],
			     data, bytes, 0);
	ring(w, &w->main);
}

static void fetch_add(struct world *w, uint64_t remote, uint64_t value, uint64_t at)
{
	ori_wqe_fetch_add(slot(w, &w->main), w->main.next, w->main.q.qpn, remote, w->peer_key[0],
			  value, (uint64_t)(uintptr_t)w->source + at, w->source_key[0], 0);
	ring(w, &w->main);
}

/* ---- scenarios ------------------------------------------------------------------------------- */

static uint8_t pattern(uint64_t i, unsigned seed)
{
	return (uint8_t)(i * 7 + (i >> 8) * 3 + seed);
}

/* Peers write the first half of each other's area and read it back from there. */
static void try_sizes(struct world *w)
{
	static const uint32_t sizes[] = { 1,    8,    15,   16,   17,   1023,
					  1024, 1025, 4095, 4096, 4097, 65536 };

	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (uint32_t off = 0; off < 4; off += 3) {
			uint8_t *from = w->source + off, *back = w->source + AREA_BYTES / 2 + off;

			for (uint32_t i = 0; i < sizes[s]; i++)
				from[i] = pattern(i, s + (unsigned)rank);
			memset(back, 0xee, sizes[s] + 1);
			rdma(w, ORI_WQE_RDMA_WRITE, off, off, sizes[s], 0);
			rdma(w, ORI_WQE_RDMA_READ, off, AREA_BYTES / 2 + off, sizes[s], 0);
			drain_good(w, &w->main);
			expect("what came back", (uint64_t)memcmp(from, back, sizes[s]), 0);
			expect("byte behind it", back[sizes[s]], 0xee);
		}
	printf("rank %d: writes and reads are right\n", rank);
}

static void try_inline(struct world *w)
{
	uint8_t data[28], *back = w->source + 4096;

	for (uint32_t bytes = 1; bytes <= 28; bytes++) {
		for (uint32_t i = 0; i < bytes; i++)
			data[i] = pattern(i, bytes + (unsigned)rank);
		write_inline(w, 64, data, bytes);
		memset(data, 0, sizeof(data)); /* taken during the post */
		rdma(w, ORI_WQE_RDMA_READ, 64, 4096, bytes, 0);
		drain_good(w, &w->main);
		for (uint32_t i = 0; i < bytes; i++)
			expect("inline byte", back[i], pattern(i, bytes + (unsigned)rank));
	}
	printf("rank %d: inline writes are right\n", rank);
}

static void try_atomics(struct world *w)
{
	uint64_t *words = (uint64_t *)(void *)w->source;

	for (uint64_t i = 0; i < 100; i++)
		fetch_add(w, AREA_BYTES - 64, 3, 8 * (i % 64));
	drain_good(w, &w->main);
	expect("old value of the last add", words[99 % 64], 297);
	ori_wqe_compare_swap(slot(w, &w->main), w->main.next, w->main.q.qpn, AREA_BYTES - 64,
			     w->peer_key[0], 300, 1ull << 40 | 5, (uint64_t)(uintptr_t)words,
			     w->source_key[0], 0);
	ring(w, &w->main);
	fetch_add(w, AREA_BYTES - 64, 1, 8);
	drain_good(w, &w->main);
	expect("compare-swap's old value", words[0], 300);
	expect("what the swap left", words[1], 1ull << 40 | 5);
	printf("rank %d: atomics are right\n", rank);
}

/* Data, then a signal: a reader that sees the signal sees the data. */
static void try_order(struct world *w)
{
	uint64_t *signal = (uint64_t *)(void *)(w->area + AREA_BYTES - 128);
	uint64_t deadline = ori_now_ns() + DEADLINE_NS;

	for (uint64_t round = 1; round <= 50; round++) {
		memset(w->source, (int)round, 8192);
		rdma(w, ORI_WQE_RDMA_WRITE, 0, 0, 8192, 0);
		fetch_add(w, AREA_BYTES - 128, 1, 8192);
		while (__atomic_load_n(signal, __ATOMIC_ACQUIRE) < round) {
			w->engine->ops->drive(w->engine);
			if (ori_now_ns() > deadline)
				give_up("signals", *signal, round);
		}
		for (int i = 0; i < 8192; i++)
			expect("byte behind a signal", w->area[i], round);
		drain_good(w, &w->main);
		/*
		 * the peer overwrites it when it has seen our signal, which says that we are
		 * through
		 */
		fetch_add(w, AREA_BYTES - 192, 1, 8192);
		while (__atomic_load_n(signal - 8, __ATOMIC_ACQUIRE) < round) {
			w->engine->ops->drive(w->engine);
			if (ori_now_ns() > deadline)
				give_up("answers", signal[-8], round);
		}
	}
	printf("rank %d: signals come after their data\n", rank);
}

/* The companion counts completions of the main queue in a word of this rank. */
static void try_counter(struct world *w)
{
	uint64_t *counter = (uint64_t *)(void *)(w->area + AREA_BYTES - 256), before = *counter;
	uint64_t first = w->main.next;

	for (uint64_t i = 0; i < 200; i++) {
		rdma(w, ORI_WQE_RDMA_WRITE, 0, 0, 4096, 0);
		ori_wqe_wait(slot(w, &w->companion), w->companion.next, w->companion.q.qpn,
			     w->main.q.cqn, (uint32_t)(first + i));
		ring(w, &w->companion);
		ori_wqe_fetch_add(slot(w, &w->companion), w->companion.next, w->companion.q.qpn,
				  AREA_BYTES - 256, w->area_key[0], 1,
				  (uint64_t)(uintptr_t)w->source + 8192, w->source_key[0], 0);
		ring(w, &w->companion);
	}
	drain_good(w, &w->main);
	drain_good(w, &w->companion);
	expect("counter", *counter - before, 200);
	printf("rank %d: counters are right\n", rank);
}

static void try_ops(struct world *w)
{
	try_sizes(w);
	try_inline(w);
	if (w->engine->link_flags & ORIEL_LINK_ATOMICS)
		try_atomics(w);
	else
		give_up("atomics that the engine offers", 0, 1);
	meet("before order");
	try_order(w);
	try_counter(w);
	meet("after ops");
	expect("failures", (uint64_t)w->failures, 0);
}

static void await_failure(struct world *w)
{
	uint64_t deadline = ori_now_ns() + DEADLINE_NS;

	while (!__atomic_load_n(&w->failures, __ATOMIC_ACQUIRE)) {
		w->engine->ops->drive(w->engine);
		if (ori_now_ns() > deadline)
			give_up("failures told", 0, 1);
	}
}

static void try_revoked(struct world *w)
{
	if (rank == 0)
		w->engine->ops->memory_remove(w->engine, w->area_key);
	meet("revoked");
	if (rank == 1) {
		rdma(w, ORI_WQE_RDMA_WRITE, 0, 0, 4096, 0);
		rdma(w, ORI_WQE_RDMA_WRITE, 0, 0, 4096, 0);
		expect("syndrome", drain(w, &w->main, 0), ORI_SYNDROME_REMOTE_ACCESS);
		await_failure(w);
		expect("syndrome told", w->failed_syndrome, ORI_SYNDROME_REMOTE_ACCESS);
	}
	meet("refused");
	if (rank == 0) {
		/* the refusal has put our end of the pair into error as well */
		rdma(w, ORI_WQE_RDMA_WRITE, 0, 0, 4096, 0);
		if (!drain(w, &w->main, 0))
			give_up("error on a broken queue pair", 0, 1);
		await_failure(w);
	}
	meet("after revoked");
}

/* Writes until an error comes. */
static void write_until_error(struct world *w)
{
	uint64_t began = ori_now_ns(), deadline = began + DEADLINE_NS;
	uint32_t syndrome;

	do {
		rdma(w, ORI_WQE_RDMA_WRITE, 0, 0, 4096, 0);
		syndrome = drain(w, &w->main, 0);
		if (ori_now_ns() > deadline)
			give_up("an error, when the peer is gone", 0, 1);
	} while (!syndrome);
	await_failure(w);
	expect("syndrome", w->failed_syndrome, ORI_SYNDROME_RETRY_EXCEEDED);
	printf("rank %d: told after %llu ms\n", rank,
	       (unsigned long long)((ori_now_ns() - began) / 1000000));
}

static void try_gone(struct world *w)
{
	if (rank == 1) {
		meet("leaving");
		return;
	}
	meet("leaving");
	write_until_error(w);
}

static void try_killed(struct world *w)
{
	char path[512];
	int fd;

	meet("dying");
	if (rank == 0) {
		write_until_error(w);
		return;
	}
	snprintf(path, sizeof(path), "%s/kill", folder);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	if (fd >= 0)
		close(fd);
	ori_sleep_ns(20 * ORI_NS_PER_S);
	give_up("still alive", 1, 0);
}

static void try_stream(struct world *w)
{
	const uint32_t bytes = 65536, warm = 50, rounds = 1000;
	uint64_t began = 0;

	for (uint32_t i = 0; i < warm + rounds && rank == 0; i++) {
		if (i == warm) {
			drain_good(w, &w->main);
			began = ori_now_ns();
		}
		rdma(w, ORI_WQE_RDMA_WRITE, 0, 0, bytes, 0);
	}
	if (rank == 0) {
		drain_good(w, &w->main);
		printf("rank 0: stream of %u bytes: %.1f MB/s\n", bytes,
		       1e3 * bytes * rounds / (double)(ori_now_ns() - began));
	}
	meet("after stream");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct world *);
	} scenarios[] = { { "ops", try_ops },
			  { "revoked", try_revoked },
			  { "gone", try_gone },
			  { "killed", try_killed },
			  { "stream", try_stream } };
	static struct world w;

	if (argc != 4) {
		fprintf(stderr, "usage: verbs_ranks FOLDER RANK SCENARIO\n");
		return 2;
	}
	folder = argv[1];
	rank = atoi(argv[2]) != 0;
	ori_log_rank_set(rank);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		if (!strcmp(scenarios[i].name, argv[3])) {
			open_world(&w);
			scenarios[i].run(&w);
			close_world(&w);
			printf("rank %d: %s: all right\n", rank, argv[3]);
			return 0;
		}
	fprintf(stderr, "verbs_ranks: no scenario %s\n", argv[3]);
	return 2;
}
