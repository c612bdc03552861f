/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/limit/cpu.c - measures the best that this machine can do between two processes, with code
 * written by hand.
 *
 * Two pinned processes pass a cache line to and fro: a word, a word behind a payload, or a message
 * of 8 bytes beside its mark in one line, which is the limit of a packet.  Then one process, and
 * both at once, copy with memcpy from private memory into a memfd that both map: this is the
 * footprint of a put.  Nothing of Oriel is used.
 * Usage: limit_cpu      prints lines "name value unit"
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../bench.h"

#define ROUNDS 20000
#define LINE 128
#define LARGE (64u << 20)

/* A message and its mark, in one line. */
struct packet {
	_Alignas(LINE) uint64_t mark;
	uint64_t data;
};

struct court {
	_Alignas(LINE) uint64_t there; /* written by the first process */
	_Alignas(LINE) uint64_t back;  /* written by the second */
	_Alignas(LINE) uint64_t payload_there;
	_Alignas(LINE) uint64_t payload_back;
	struct packet packet_there, packet_back;
	_Alignas(LINE) uint64_t arrived; /* both, before a timed loop */
};

enum variant { STORE, ADD, PAYLOAD, PACKET };

struct shared {
	struct court court;
	_Alignas(4096) uint8_t area[2][LARGE]; /* where process i copies to */
};

/* The partner may be dead: no wait is endless. */
static void wait_for(const uint64_t *word, uint64_t value)
{
	double end = 0;

	for (uint64_t polls = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) < value; polls++) {
		if (polls & 0xfffff)
			continue;
		if (end == 0)
			end = bench_now() + BENCH_DEADLINE_S;
		else if (bench_now() > end)
			_exit(1);
	}
}

static void throw_line(uint64_t *word, uint64_t *payload, uint64_t i, enum variant v)
{
	if (v == PAYLOAD)
		*(volatile uint64_t *)payload = i;
	if (v == ADD)
		__atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
	else
		__atomic_store_n(word, i, __ATOMIC_RELEASE);
}

/* Loads the message from the caller's memory, and the receiver stores it to its own. */
static void send_packet(struct packet *p, const volatile uint64_t *from, uint64_t i)
{
	*(volatile uint64_t *)&p->data = *from;
	__atomic_store_n(&p->mark, i, __ATOMIC_RELEASE);
}

static void take_packet(const struct packet *p, volatile uint64_t *to, uint64_t i)
{
	wait_for(&p->mark, i);
	*to = p->data;
}

/* Each answer allows the next message, so a line is free again when it is written. */
static int play_packets(struct court *c, int second, uint64_t first_round, uint64_t rounds)
{
	volatile uint64_t mine, got = 0;
	uint64_t wrong = 0;

	for (uint64_t i = first_round; i < first_round + rounds; i++) {
		mine = 2 * i + (uint64_t)second;
		if (!second)
			send_packet(&c->packet_there, &mine, i);
		take_packet(second ? &c->packet_there : &c->packet_back, &got, i);
		if (second)
			send_packet(&c->packet_back, &mine, i);
		wrong += got != 2 * i + (uint64_t)!second;
	}
	return wrong ? -1 : 0;
}

static void play(struct court *c, int second, uint64_t first_round, uint64_t rounds, enum variant v)
{
	for (uint64_t i = first_round; i < first_round + rounds; i++) {
		if (second) {
			wait_for(&c->there, i);
			throw_line(&c->back, &c->payload_back, i, v);
		} else {
			throw_line(&c->there, &c->payload_there, i, v);
			wait_for(&c->back, i);
		}
	}
}

static int rally(struct court *c, int second, uint64_t at, uint64_t rounds, enum variant v)
{
	if (v == PACKET)
		return play_packets(c, second, at, rounds);
	play(c, second, at, rounds, v);
	return 0;
}

/* One process's part of a ping-pong; the first gets the one-way time in nanoseconds. */
static double ping_pong(struct court *c, int second, enum variant v)
{
	double ns[BENCH_BLOCKS];
	uint64_t at = 1;
	int bad = rally(c, second, at, ROUNDS / 4, v); /* warm-up */

	at += ROUNDS / 4;
	for (int b = 0; b < BENCH_BLOCKS; b++, at += ROUNDS) {
		double start = bench_now();

		bad |= rally(c, second, at, ROUNDS, v);
		ns[b] = (bench_now() - start) * 1e9 / ROUNDS / 2;
	}
	return bad ? -1 : bench_median(ns, BENCH_BLOCKS);
}

/* Copies while the other process does the same (meet) or nothing; GB/s of this process. */
static double copy_rate(struct shared *s, int me, const uint8_t *src, size_t bytes, int meet)
{
	int n = bench_copies(bytes);
	double rate[BENCH_BLOCKS];

	memcpy(s->area[me], src, bytes);
	for (int b = 0; b < BENCH_BLOCKS; b++) {
		double start;

		if (meet) {
			__atomic_fetch_add(&s->court.arrived, 1, __ATOMIC_ACQ_REL);
			wait_for(&s->court.arrived, 2 * ((uint64_t)b + 1));
		}
		start = bench_now();
		for (int i = 0; i < n; i++) {
			memcpy(s->area[me], src, bytes);
			__asm__ volatile("" ::"r"(s->area[me]) : "memory"); /* each copy is made */
		}
		rate[b] = (double)bytes * n / (bench_now() - start) * 1e-9;
	}
	return bench_median(rate, BENCH_BLOCKS);
}

static uint8_t *private_source(void)
{
	uint8_t *src = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	if (src == MAP_FAILED)
		return NULL;
	memset(src, 1, LARGE);
	return src;
}

struct limit_case {
	const char *name, *unit;
	int copies; /* 0: ping-pong, 1 or 2: processes that copy */
	enum variant variant;
	size_t bytes;
};

static const struct limit_case cases[] = {
	{ "line_store", "ns", 0, STORE, 0 },          { "line_add", "ns", 0, ADD, 0 },
	{ "line_payload", "ns", 0, PAYLOAD, 0 },      { "line_packet", "ns", 0, PACKET, 0 },
	{ "memcpy1_1m", "GB/s", 1, STORE, 1u << 20 }, { "memcpy1_64m", "GB/s", 1, STORE, LARGE },
	{ "memcpy2_1m", "GB/s", 2, STORE, 1u << 20 }, { "memcpy2_64m", "GB/s", 2, STORE, LARGE },
};

static double part(struct shared *s, const struct limit_case *c, int second)
{
	uint8_t *src;

	bench_pin(second);
	if (!c->copies)
		return ping_pong(&s->court, second, c->variant);
	if (second && c->copies == 1)
		return 0;
	src = private_source();
	return src ? copy_rate(s, second, src, c->bytes, c->copies == 2) : -1;
}

static int run_case(struct shared *s, const struct limit_case *c)
{
	int status = 1;
	double value;
	pid_t pid;

	memset(&s->court, 0, sizeof(s->court));
	pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0)
		_exit(part(s, c, 1) < 0);
	value = part(s, c, 0);
	if (waitpid(pid, &status, 0) != pid || status || value < 0) {
		fprintf(stderr, "limit_cpu: %s failed\n", c->name);
		return -1;
	}
	bench_print(c->name, value, c->unit);
	return 0;
}

int main(void)
{
	struct shared *s;
	int fd = memfd_create("limit", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, sizeof(*s))) {
		fprintf(stderr, "limit_cpu: memfd: %s\n", strerror(errno));
		return 1;
	}
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s == MAP_FAILED) {
		fprintf(stderr, "limit_cpu: mmap: %s\n", strerror(errno));
		return 1;
	}
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (run_case(s, &cases[i]))
			return 1;
	return 0;
}
