/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/sim.h - the deterministic scheduler: what its files share.
 *
 * One seed makes one run: 2 to 4 ranks with their software NICs, queues and programs, all on one
 * thread.  Every thread of a rank is a fiber that runs the real device code; wherever that code
 * lends the engine time it comes back to the scheduler, which picks the next fiber or NIC by the
 * seed and moves a clock of its own.  After every step the invariants are looked at from outside.
 *
 *   plan.c        seed -> parameters, faults, programs; and their text
 *   world.c       memory, NICs, queues of a run
 *   fiber.c       fibers, and the device's CPU port on the scheduler's clock
 *   program.c     what a fiber does: the operations
 *   invariants.c  what must hold after every step
 *   end.c         what must hold at the end of a run
 *   seeds.c       the scheduler, the test, coverage
 */
#ifndef ORI_SIM_H
#define ORI_SIM_H

#include <stdint.h>

#include <oriel/device/fetch.h>

#include "engine/engine.h"
#include "engine/soft/nic.h"
#include "engine/soft/wire.h"

#define SIM_RANKS 4
#define SIM_NICS 2
#define SIM_LANES 3
#define SIM_THREADS 3
#define SIM_OPS 12
#define SIM_ZONE 32768u /* bytes of one thread's puts at one peer */
#define SIM_LIBRARY_BYTES 8192u
#define SIM_GUARD 64u  /* bytes that nobody may write, on both sides of a region */
#define SIM_FILL 0xc3u /* what window and landing hold before */
#define SIM_GUARD_FILL 0x7eu

/* ---- a program ------------------------------------------------------------------------------- */

/* X(name, text) */
#define SIM_KIND_LIST(X)                                                                           \
	X(PUT_INLINE, "put inline")                                                                \
	X(PUT_SMALL, "put small")                                                                  \
	X(PUT_LARGE, "put > 4 KiB")                                                                \
	X(PUT_CHUNKS, "put chunks")                                                                \
	X(PUT_COUNTER, "put+counter")                                                              \
	X(PUT_ADD, "put+signal add")                                                               \
	X(PUT_SET, "put+signal set")                                                               \
	X(PUT_ADD_COUNTER, "put+add+counter")                                                      \
	X(SIGNAL_ADD, "signal add")                                                                \
	X(SIGNAL_SET, "signal set")                                                                \
	X(SIGNAL_SHARED, "signal shared")                                                          \
	X(SIGNAL_COUNTER, "signal+counter")                                                        \
	X(NOTHING_COUNTER, "nop+counter")                                                          \
	X(READ, "read")                                                                            \
	X(FETCH_ADD, "fetch_add")                                                                  \
	X(COMPARE_SWAP, "compare_swap")                                                            \
	X(FENCE, "fence")                                                                          \
	X(FLUSH, "flush")

#define SIM_KIND_DEFINE(name, text) SIM_##name,
enum sim_kind { SIM_KIND_LIST(SIM_KIND_DEFINE) SIM_KINDS };
#undef SIM_KIND_DEFINE

/* Words a source signals at a target: its thread's for ADD and SET, and one for all threads. */
enum sim_word { SIM_WORD_ADD, SIM_WORD_SET, SIM_WORD_SHARED };

enum sim_progress { SIM_PLANNED, SIM_BEGUN, SIM_RETURNED, SIM_COMPLETE };

struct sim_op {
	enum sim_kind kind;
	int peer;
	uint32_t id;    /* stamps the payload */
	uint32_t bytes; /* of data, 0: none */
	uint64_t at;    /* in the target's window, or READ: in the source of the read */
	uint64_t local; /* in this rank's source, or READ: landing */
	int read_of;    /* READ: operation whose data is read back; -1: the library */
	int signal;     /* 0, ORIEL_ADD, ORIEL_SET */
	enum sim_word word;
	uint64_t value; /* what is added; SET: what is stored */
	uint64_t after; /* of ADD and SET words: what the word is once this has arrived */
	uint32_t flags; /* of the signal's WQE */
	int counter;
	enum sim_progress progress;
	uint64_t result; /* atomics: the old value */
};

struct sim_thread {
	struct sim_op op[SIM_OPS];
	int ops, now; /* now: the one under way */
	int status;   /* how the program ended */
	uint64_t cas_seen[SIM_RANKS];
};

/* ---- a plan ---------------------------------------------------------------------------------- */

enum sim_fatal {
	SIM_FATAL_NONE,
	SIM_FATAL_QP,
	SIM_FATAL_REVOKE,
	SIM_FATAL_STALL,
	SIM_FATAL_ATOMIC
};

struct sim_plan {
	uint64_t seed;
	int ranks, nics, threads;
	uint32_t lanes, depth;
	uint64_t first;      /* index of the first WQE */
	uint64_t first_word; /* what signal words start at */
	uint64_t message_bytes;
	uint64_t timeout_ns;
	const char *personality;
	struct soft_config config[SIM_RANKS][SIM_NICS];
	uint32_t flags; /* ORIEL_LINK_* */
	enum sim_fatal fatal;
	int fatal_rank, fatal_nic;
	/* the scheduler's taste */
	uint32_t cpu_percent; /* of steps that a fiber gets */
	uint32_t budget;      /* largest of a NIC's step */
	uint32_t step_ns;
	int crowded;   /* many threads signal one word through a short queue */
	int lazy_rank; /* its NICs are seldom stepped; -1: none */
	struct sim_thread thread[SIM_RANKS][SIM_THREADS];
};

/* ---- a run ----------------------------------------------------------------------------------- */

struct sim_region {
	uint8_t *base;
	uint64_t bytes;
	uint32_t key[ORIEL_NICS_MAX];
};

enum sim_region_name {
	SIM_WINDOW,  /* peers put here: [source][thread] zones */
	SIM_SOURCE,  /* puts come from here: [thread][peer] zones */
	SIM_LANDING, /* reads end here: a zone a thread */
	SIM_LIBRARY, /* peers may only read it */
	SIM_CONTROL, /* words */
	SIM_RESULTS,
	SIM_REGIONS
};

#define SIM_WORDS 64u

/* Of one queue, as seen from outside: its CQEs, counted in CQ memory. */
struct sim_watch {
	uint64_t seen;   /* CQEs, from plan->first on */
	uint64_t errors; /* error CQEs among them */
	uint64_t reserved, produced, completed;
};

struct sim_lane_memory {
	struct oriel_queue main, companion;
	struct {
		uint32_t record[2];
		uint64_t doorbell;
	} main_bell, companion_bell;
	struct sim_region sink;
	struct sim_watch watch[2]; /* main, companion */
	uint8_t *rings;
};

struct sim_engine {
	struct ori_engine base;
	struct sim_world *world;
	int rank, nic;
};

struct sim_rank {
	struct soft_nic *nic[SIM_NICS];
	struct sim_engine engine, nic_context[SIM_NICS];
	struct sim_region region[SIM_REGIONS];
	struct sim_lane_memory lane_memory[SIM_RANKS][SIM_LANES];
	struct oriel_lane lane[SIM_RANKS][SIM_LANES];
	struct oriel_link link[SIM_RANKS];
	uint64_t last_signal[SIM_RANKS];
	uint64_t totals[SIM_RANKS][SIM_WORDS]; /* of ADD words at the peer, without NIC atomics */
	struct oriel_comm_dev comm;
	struct oriel_waiters waiters;
	uint64_t failure;
	uint64_t word_seen[SIM_WORDS];
};

struct sim_world {
	struct sim_plan *plan;
	struct sim_rank rank[SIM_RANKS];
	uint64_t now_ns, random, steps;
	uint32_t idle; /* steps of NICs without work, one after the other */
	int told;      /* failed queues reported */
	int violated;
	char violation[400];
};

/* The first one of a run is kept; always returns 0. */
int sim_violate(struct sim_world *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* plan.c */
uint64_t sim_random(uint64_t *state);
uint64_t sim_below(uint64_t *state, uint64_t n);
void sim_plan_make(struct sim_plan *, uint64_t seed);
void sim_plan_print(const struct sim_plan *);
const char *sim_kind_text(enum sim_kind);

/* world.c */
int sim_world_open(struct sim_world *, struct sim_plan *);
void sim_world_close(struct sim_world *);
uint8_t sim_stamp(uint32_t id, uint64_t offset);
uint8_t sim_library_byte(int rank, uint64_t offset);
uint64_t sim_zone(const struct sim_plan *, int source, int thread);
/* Index of a word in the control region. */
uint32_t sim_word(int source, int thread, enum sim_word);
uint32_t sim_word_counter(int peer, int thread);
#define SIM_WORD_FETCH_ADD 48u
#define SIM_WORD_COMPARE_SWAP 49u
uint64_t *sim_word_at(struct sim_world *, int rank, uint32_t word);
/* Has the fault that ends the run come? */
int sim_struck(struct sim_world *);
int sim_nic_stalled(struct sim_world *, int rank, int nic);

/* fiber.c */
typedef void sim_fiber_fn(void *arg);
int sim_fibers_setup(void);
void sim_fiber_start(int n, sim_fiber_fn *, void *arg);
/* Until it yields or ends; 0 when it has ended. */
int sim_fiber_resume(int n);
/* What did not end is given up, with its stack. */
void sim_fibers_abandon(void);
void sim_fibers_free(void);
/* The device's clock, for its deadlines. */
void sim_clock_use(const struct sim_world *);

/* program.c */
struct sim_fiber_arg {
	struct sim_world *world;
	int rank, thread;
};
sim_fiber_fn sim_program_run;

/* invariants.c */
/* After a step of one of the rank's NICs or fibers: its memory and its queues. */
void sim_check_rank(struct sim_world *, int rank);
/* All operations of a thread to a peer up to number `last` have delivered their data. */
int sim_check_delivered(struct sim_world *, int source, int thread, int peer, int last);
int sim_check_landed(struct sim_world *, int source, int thread, int peer, int last);
/* Nothing is under way any more. */
void sim_check_end(struct sim_world *);
/* Do all WQEs have their CQE, but those of NICs that stall? */
int sim_check_settled(struct sim_world *);

#endif
