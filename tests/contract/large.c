/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/large.c - contract of transfers over 2^31 bytes: one put and one get, whole and in place.
 *
 * One pair of ranks a row, since it takes 4 GiB; every 8-byte word is looked at.
 */
#include "contract.h"

#define LARGE ((1ull << 31) + 4096 + 8)
#define NEEDED_KIB (8ull << 20)

static uint64_t free_kib(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	unsigned long long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

static uint64_t stamp(uint64_t word, uint64_t round)
{
	return (word + 1) * 0x9e3779b97f4a7c15ull + round;
}

static uint64_t count_wrong(const uint64_t *words, uint64_t round)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < LARGE / 8; i++)
		wrong += words[i] != stamp(i, round);
	return wrong;
}

static int move(struct contract_env *e, struct oriel_window *w, uint64_t *mine)
{
	uint64_t *buffer = oriel_window_buffer(w);
	struct oriel_source source;
	int err = 0;

	if (e->rank == 0) {
		for (uint64_t i = 0; i < LARGE / 8; i++)
			mine[i] = stamp(i, 1);
		err = oriel_window_source(w, mine, LARGE, &source);
		if (!err)
			err = oriel_window_put_signal(w, 1, 0, &source, 0, LARGE, 0, ORIEL_ADD, 1,
						      NULL);
		if (!err)
			err = oriel_window_wait_signal(w, 1, 0, ORIEL_GE, 1, NULL);
		if (!err)
			err = oriel_window_get(w, 1, 0, &source, 0, LARGE, NULL);
		CHECK_EQ(count_wrong(mine, 2), 0);
		return err;
	}
	err = oriel_window_wait_signal(w, 0, 0, ORIEL_GE, 1, NULL);
	CHECK_EQ(count_wrong(buffer, 1), 0);
	for (uint64_t i = 0; i < LARGE / 8; i++)
		buffer[i] = stamp(i, 2);
	return err ? err : oriel_window_signal(w, 0, 0, ORIEL_ADD, 1, NULL);
}

CASE(large_over_31_bits, .shape = CONTRACT_HOST, .no_window = 1, .only_processes = 1,
     .min_ranks = 2, .max_ranks = 2)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;
	uint64_t kib = free_kib(), all[2];
	void *mine = NULL;

	REQUIRE_OK(oriel_comm_allgather(e->comm, ORIEL_WORLD, &kib, all, sizeof(kib)));
	if (all[0] < NEEDED_KIB || all[1] < NEEDED_KIB) {
		check_skip("needs 8 GiB of free memory, there are %llu KiB",
			   (unsigned long long)kib);
		return;
	}
	o.bytes = LARGE;
	REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
	REQUIRE_OK(oriel_alloc(e->comm, LARGE, &mine));
	CHECK_EQ(move(e, w, mine), 0);
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
	CHECK_EQ(oriel_window_destroy(w), 0);
	CHECK_EQ(oriel_free(e->comm, mine), 0);
}
