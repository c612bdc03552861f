/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/soak/soak.c - one rank under full load for a long time: signals, puts, collectives, windows
 * and comms made and destroyed.  tools/soak.sh starts it on every transport.
 *
 * Usage: soak SECONDS [WINDOWS [COMMS]].  It ends when the time has passed and that many windows
 * and comms have been made and destroyed.  It fails if a byte or a count is wrong, or if memory,
 * descriptors or mappings of a rank have grown.
 */
#include <oriel/coll.h>
#include <oriel/device.h>
#include <oriel/oriel.h>

#include <inttypes.h>
#include <time.h>

#include "flat.h"

#define BYTES 65536u
#define BURST_FIRST 64u
#define BURST_MOST (1u << 22)
#define STORM_S 0.05 /* of signals per cycle: the burst is fitted to it */
#define RANKS_MOST 64
#define SOAK_LEAST_CYCLES 30 /* fewer say nothing about growth */

/* What ranks tell each other before each cycle. */
struct news {
	uint64_t rounds; /* signals to each rank, in all, after the storm of this cycle */
	uint64_t over;   /* of rank 0: this is the last cycle */
};

struct soak {
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_source source;
	void *memory;
	int rank, n;
	uint64_t burst, rounds, cycles, windows, comms, puts;
	struct flat flat;
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int wrong(const char *what, uint64_t have, uint64_t want)
{
	fprintf(stderr, "soak: %s: have %" PRIu64 ", want %" PRIu64 "\n", what, have, want);
	return ORIEL_EPROTO;
}

/* ---- signals --------------------------------------------------------------------------------- */

struct storm_args {
	struct oriel_window_dev win;
	struct oriel_source source;
	uint64_t burst;
	const uint64_t *rounds; /* of each rank: what its signals to this one count afterwards */
	int rank, n;
};

ORIEL_KERNEL(storm_kernel, struct storm_args)
{
	struct oriel_group g = oriel_group_block();
	int err = 0;

	for (uint64_t i = 1; i < a->burst && !err; i++)
		for (int r = 0; r < a->n && !err; r++)
			err = oriel_signal(&a->win, g, (a->rank + r) % a->n, 0, ORIEL_ADD, 1);
	for (int r = 0; r < a->n && !err; r++) /* the last one comes with data */
		err = oriel_put_signal(&a->win, g, r, (uint64_t)a->rank * BYTES, &a->source, 0,
				       BYTES, 0, ORIEL_ADD, 1);
	for (int r = 0; r < a->n && !err; r++)
		err = oriel_wait_signal_from(&a->win, g, r, 0, ORIEL_GE, a->rounds[r]);
	return err ? err : oriel_flush_all(&a->win, g);
}

/* Each block of data says its rank and the count of its last signal. */
static int check_storm(struct soak *s, const uint64_t *rounds)
{
	const uint64_t *buffer = oriel_window_buffer(s->window);
	size_t words = BYTES / sizeof(*buffer);

	for (int r = 0; r < s->n; r++) {
		uint64_t counted, want = rounds[r] * RANKS_MOST + (uint64_t)r;
		int err = oriel_window_read_signal(s->window, r, 0, &counted);

		if (err)
			return err;
		if (counted != rounds[r])
			return wrong("signals of a rank", counted, rounds[r]);
		for (size_t i = 0; i < words; i++)
			if (buffer[(size_t)r * words + i] != want)
				return wrong("data of a rank", buffer[(size_t)r * words + i], want);
	}
	return 0;
}

static int storm(struct soak *s, const uint64_t *rounds)
{
	struct storm_args args = {
		.source = s->source, .burst = s->burst, .rounds = rounds, .rank = s->rank, .n = s->n
	};
	uint64_t *words = s->memory, value = rounds[s->rank] * RANKS_MOST + (uint64_t)s->rank;
	double start = now_s(), took;
	int err;

	for (size_t i = 0; i < BYTES / sizeof(*words); i++)
		words[i] = value;
	err = oriel_window_device(s->window, &args.win);
	if (!err)
		err = oriel_launch(s->comm, &storm_kernel, 1, 1, &args, sizeof(args), NULL);
	took = now_s() - start;
	if (took < STORM_S / 2 && s->burst < BURST_MOST)
		s->burst *= 2;
	else if (took > 2 * STORM_S && s->burst > BURST_FIRST)
		s->burst /= 2;
	s->puts += (uint64_t)s->n;
	if (!err)
		err = check_storm(s, rounds);
	/* nobody overwrites what another one still compares */
	return err ? err : oriel_window_barrier(s->window, 0, NULL);
}

/* ---- the rest of a cycle --------------------------------------------------------------------- */

static int use_window(struct soak *s, struct oriel_window *w)
{
	int next = (s->rank + 1) % s->n, from = (s->rank + s->n - 1) % s->n, err;
	uint64_t value = s->windows * RANKS_MOST + (uint64_t)s->rank, got;

	err = oriel_window_put_bytes(w, next, 0, &value, sizeof(value), 0);
	if (!err)
		err = oriel_window_signal(w, next, 0, ORIEL_ADD, 1, NULL);
	if (!err)
		err = oriel_window_wait_signal(w, from, 0, ORIEL_GE, 1, NULL);
	if (err)
		return err;
	memcpy(&got, oriel_window_buffer(w), sizeof(got));
	if (got != value - (uint64_t)s->rank + (uint64_t)from)
		return wrong("data in a new window", got, (uint64_t)from);
	return oriel_window_barrier(w, 0, NULL);
}

static int make_windows(struct soak *s, struct oriel_comm *comm, int count)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int err = 0;

	o.bytes = 4096;
	for (int i = 0; i < count && !err; i++) {
		struct oriel_window *w;

		err = oriel_window_create(comm, &o, &w);
		if (!err)
			err = use_window(s, w);
		if (!err)
			err = oriel_window_destroy(w);
		s->windows++;
	}
	return err;
}

static int make_comm(struct soak *s)
{
	struct oriel_comm *sub;
	int err = oriel_comm_split(s->comm, 0, 0, &sub); /* the same ranks in the same order */

	if (!err)
		err = make_windows(s, sub, 1);
	if (!err)
		err = oriel_comm_destroy(sub);
	s->comms++;
	return err;
}

static int collect(struct soak *s)
{
	uint64_t sum = (uint64_t)s->rank + s->cycles, all[RANKS_MOST], n = (uint64_t)s->n;
	int err = oriel_allreduce(s->comm, NULL, &sum, 1, ORIEL_TYPE_UINT64, ORIEL_REDUCE_SUM,
				  NULL);

	if (!err && sum != n * s->cycles + n * (n - 1) / 2)
		return wrong("a sum", sum, n * s->cycles + n * (n - 1) / 2);
	sum = s->cycles + (uint64_t)s->rank;
	if (!err)
		err = oriel_comm_allgather(s->comm, ORIEL_WORLD, &sum, all, sizeof(sum));
	for (int r = 0; r < s->n && !err; r++)
		if (all[r] != s->cycles + (uint64_t)r)
			return wrong("an all-gather", all[r], s->cycles + (uint64_t)r);
	return err;
}

static int cycle(struct soak *s, int enough, int *over)
{
	struct news mine = { s->rounds + s->burst, (uint64_t)enough }, all[RANKS_MOST];
	uint64_t rounds[RANKS_MOST];
	int err;

	s->cycles++;
	s->rounds = mine.rounds;
	err = oriel_comm_allgather(s->comm, ORIEL_WORLD, &mine, all, sizeof(mine));
	for (int r = 0; r < s->n && !err; r++)
		rounds[r] = all[r].rounds;
	if (!err)
		err = storm(s, rounds);
	if (!err)
		err = make_windows(s, s->comm, 9);
	if (!err)
		err = make_comm(s);
	if (!err)
		err = collect(s);
	*over = !err && (int)all[0].over;
	flat_sample(&s->flat, now_s());
	return err;
}

/* ---- begin and end --------------------------------------------------------------------------- */

static int begin(struct soak *s)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int err = oriel_init(&s->comm);

	if (err)
		return err;
	s->rank = oriel_comm_rank(s->comm);
	s->n = oriel_comm_size(s->comm);
	s->burst = BURST_FIRST;
	if (s->n > RANKS_MOST)
		return wrong("ranks", (uint64_t)s->n, RANKS_MOST);
	o.bytes = (uint64_t)s->n * BYTES;
	err = oriel_alloc(s->comm, BYTES, &s->memory);
	if (!err)
		err = oriel_window_create(s->comm, &o, &s->window);
	return err ? err : oriel_window_source(s->window, s->memory, BYTES, &s->source);
}

static int end(struct soak *s)
{
	int err = oriel_window_source_release(s->window, &s->source);

	if (!err)
		err = oriel_window_destroy(s->window);
	if (!err)
		err = oriel_free(s->comm, s->memory);
	return err ? err : oriel_finalize(s->comm);
}

static int run(struct soak *s, double seconds, uint64_t windows, uint64_t comms)
{
	double until = now_s() + seconds;
	int over = 0, err = 0;

	while (!over && !err) {
		int enough = now_s() >= until && s->windows >= windows && s->comms >= comms &&
			     s->cycles >= SOAK_LEAST_CYCLES;

		err = cycle(s, enough, &over);
	}
	return err;
}

int main(int argc, char **argv)
{
	/* what every cycle leaks is soon more than 1 MiB; pools may still move */
	static const double allowed[FLAT_KINDS] = { 1024, 1024, 0, 4 };
	static struct soak s;
	double start = now_s();
	int err, grew;

	if (argc < 2) {
		fprintf(stderr, "usage: soak SECONDS [WINDOWS [COMMS]]\n");
		return 2;
	}
	memset(&s.flat, 0, sizeof(s.flat)); /* touched now, or the samples themselves would grow */
	err = begin(&s);
	if (!err)
		err = run(&s, atof(argv[1]), argc > 2 ? strtoull(argv[2], NULL, 10) : 0,
			  argc > 3 ? strtoull(argv[3], NULL, 10) : 0);
	if (!err)
		err = end(&s);
	if (err) {
		fprintf(stderr, "soak: rank %d, cycle %" PRIu64 ": %s: %s\n", s.rank, s.cycles,
			oriel_status_name(err), oriel_last_error());
		return 1;
	}
	grew = flat_grew(&s.flat, s.rank, allowed);
	printf("rank %d: %.0f s, %" PRIu64 " signals, %" PRIu64 " puts, %" PRIu64
	       " windows, %" PRIu64 " comms\n",
	       s.rank, now_s() - start, s.rounds * (uint64_t)s.n, s.puts, s.windows, s.comms);
	return grew;
}
