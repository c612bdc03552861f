/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tune/tables.c - the plans to start from if nothing was measured on this machine.
 *
 * There are two presets for CUDA, per kind of peer and by the bytes of the peer that gets most, and
 * one for the CPU.  The figures come from other machines (docs/decisions/0020), so measurements of
 * oriel-tune take precedence.
 *
 * Pure functions, any thread.  Called by: agree.c, oriel-tune, tests.
 */
#include "tune.h"

#define KIB 1024u
#define MIB (1024u * 1024u)

/* Up to `bytes` per peer, 0: any. */
struct entry {
	uint64_t bytes;
	struct ori_a2a_setting setting;
};

/*
 * Mapped peers: the number of blocks determines the rate; the chunk hardly matters.  The steps are
 * those of docs/results/2026-11-18-h200, where 2 to 8 ranks shared a GPU.  Fewer blocks are used
 * where these have no room.
 */
static const struct entry mapped_table[] = {
	{ 1 * KIB, { 1, 4, 64 * KIB } },    { 4 * KIB, { 1, 8, 64 * KIB } },
	{ 16 * KIB, { 1, 16, 64 * KIB } },  { 128 * KIB, { 4, 16, 64 * KIB } },
	{ 256 * KIB, { 8, 16, 64 * KIB } }, { 0, { 16, 16, 64 * KIB } },
};

/* Queued peers: one poster is enough up to a megabyte, and large messages cost the NIC least. */
static const struct entry queued_table[] = {
	{ 1 * KIB, { 1, 4, 256 * KIB } },   { 4 * KIB, { 1, 16, 128 * KIB } },
	{ 16 * KIB, { 1, 8, 256 * KIB } },  { 64 * KIB, { 1, 4, 64 * KIB } },
	{ 256 * KIB, { 1, 8, 512 * KIB } }, { 512 * KIB, { 1, 4, 512 * KIB } },
	{ 1 * MIB, { 1, 16, 256 * KIB } },  { 4 * MIB, { 4, 16, 512 * KIB } },
	{ 0, { 8, 16, 512 * KIB } },
};

/* The proposal gave ranges.  Small sizes use their low ends, large sizes their high ends. */
static const struct entry mapped_proposal[] = {
	{ 64 * KIB, { 8, 16, 64 * KIB } },
	{ 256 * KIB, { 8, 32, 64 * KIB } },
	{ 0, { 16, 32, 64 * KIB } },
};
static const struct entry queued_proposal[] = {
	{ 64 * KIB, { 1, 4, 256 * KIB } },
	{ 1 * MIB, { 2, 8, 256 * KIB } },
	{ 0, { 4, 8, 256 * KIB } },
};

/*
 * A CPU rank is one thread that does everything itself.  More blocks or threads only help if cores
 * are idle, which oriel-tune measures.
 */
static const struct entry mapped_cpu[] = { { 0, { 1, 1, 1 * MIB } } };
static const struct entry queued_cpu[] = { { 0, { 1, 1, 256 * KIB } } };

static const struct {
	const char *name;
	const struct entry *kind[ORI_PLAN_KINDS];
} presets[] = {
	[ORI_PRESET_TABLES] = { "tables", { mapped_table, queued_table } },
	[ORI_PRESET_PROPOSAL] = { "proposal", { mapped_proposal, queued_proposal } },
	[ORI_PRESET_CPU] = { "cpu", { mapped_cpu, queued_cpu } },
};

const char *ori_preset_name(enum ori_tune_preset preset)
{
	return presets[preset].name;
}

static struct ori_a2a_setting find(const struct entry *e, uint64_t bytes)
{
	while (e->bytes && bytes > e->bytes)
		e++;
	return e->setting;
}

void ori_tune_first(enum ori_tune_preset preset, uint64_t bytes_per_peer, struct ori_a2a_plan *plan)
{
	for (int k = 0; k < ORI_PLAN_KINDS; k++)
		plan->kind[k] = find(presets[preset].kind[k], bytes_per_peer);
	plan->small = 0;
	plan->uniform = 0;
	plan->cores = 0;
	plan->spread = 0;
}

int ori_tune_cap(struct ori_a2a_plan *plan, uint32_t peers, uint64_t resident)
{
	uint64_t most = peers ? resident / peers : resident;
	int cut = 0;

	if (most < 1)
		most = 1;
	for (int k = 0; k < ORI_PLAN_KINDS; k++) {
		if (plan->kind[k].blocks <= most)
			continue;
		plan->kind[k].blocks = (uint32_t)most;
		cut = 1;
	}
	return cut;
}

/*
 * A cell takes twice its bytes, but saves three of four steps.  That pays on GPUs; on CPUs a mark
 * in every word was slower (docs/decisions/0019).
 *
 * A second round of a team costs about as much as the reduction of 64 KiB.  In one round a rank
 * reduces what all others give.  Two ranks that have a core each meet faster.
 */
void ori_tune_first_ways(int separate, int nranks, struct ori_tune_ways *ways)
{
	uint32_t others = nranks > 2 ? (uint32_t)nranks - 1 : 1;

	ways->cells = separate ? ORI_TUNE_CELLS_MAX : 0;
	ways->once = 64 * KIB / others;
	ways->host_once = nranks > 2 ? 64 * KIB / others : 16 * KIB;
	ways->long_from = 128 * KIB;
}
