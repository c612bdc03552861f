/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/random.c - the random numbers of a software NIC: seeded, so that a run can be
 * repeated.
 *
 * Called within soft_nic_step().
 */
#include "state.h"

uint64_t soft_random(struct soft_nic *nic)
{
	uint64_t z = nic->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

int soft_chance(struct soft_nic *nic, double chance)
{
	return chance > 0 && (double)(soft_random(nic) >> 11) * 0x1p-53 < chance;
}
