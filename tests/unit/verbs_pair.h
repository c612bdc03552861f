/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/verbs_pair.h - the parts that verbs_fabric.c and verbs_device.c share: two ranks with
 * a verbs fabric each over the fake library, and one link between them.
 */
#ifndef ORI_TEST_VERBS_PAIR_H
#define ORI_TEST_VERBS_PAIR_H

#include <fcntl.h>

#include "../check.h"
#include "engine/verbs/verbs_engine.h"
#include "util/util.h"
#include "verbs_fake.h"

#define AREA 8192

/* Two ranks, a fabric each, one link between them. */
struct pair {
	struct ori_config config;
	struct ori_fabric *end[2];
	void *link[2];
	struct ori_fabric_region region[2];
	uint8_t area[2][AREA];
	int lost;
	uint32_t lost_tag, lost_syndrome;
};

static __attribute__((unused)) const char *depth = "4";

static __attribute__((unused)) void lost(void *ctx, uint32_t tag, uint32_t syndrome)
{
	struct pair *p = ctx;

	p->lost++;
	p->lost_tag = tag;
	p->lost_syndrome = syndrome;
}

static __attribute__((unused)) int open_fabric(struct pair *p, int rank, uint32_t nic,
					       struct ori_fabric **out)
{
	struct ori_fabric_world world = {
		.ctx = p, .rank = rank, .nranks = 2, .nic = nic, .link_lost = lost
	};

	return ori_verbs_fabric.open(&p->config, &world, out);
}

static __attribute__((unused)) void read_config(struct pair *p)
{
	setenv("ORIEL_IB_LIBRARY", "fake", 1);
	setenv("ORIEL_QUEUE_DEPTH", depth, 1);
	memset(p, 0, sizeof(*p));
	CHECK_EQ(ori_config_read(&p->config), 0);
}

static __attribute__((unused)) int tell_peer(struct pair *p, int from)
{
	uint8_t address[ORI_FABRIC_ADDRESS_BYTES];
	uint32_t bytes = 0;

	CHECK_EQ(p->end[from]->ops->address(p->end[from], address, &bytes), 0);
	CHECK(bytes && bytes <= sizeof(address));
	return p->end[1 - from]->ops->peer_add(p->end[1 - from], from, address, bytes);
}

static __attribute__((unused)) int pair_open(struct pair *p)
{
	uint32_t number[2];

	read_config(p);
	for (int r = 0; r < 2; r++) {
		struct ori_engine_memory m = { .base = p->area[r], .bytes = AREA, .remote = 1 };

		if (open_fabric(p, r, 0, &p->end[r]))
			return -1;
		CHECK_EQ(p->end[r]->ops->memory_add(p->end[r], &m, &p->region[r]), 0);
		CHECK_EQ(p->end[r]->ops->link_add(p->end[r], 100 + (uint32_t)r, &p->link[r],
						  &number[r]),
			 0);
	}
	for (int r = 0; r < 2; r++)
		CHECK_EQ(tell_peer(p, r), 0);
	for (int r = 0; r < 2; r++)
		CHECK_EQ(p->end[r]->ops->link_connect(p->end[r], p->link[r], 1 - r, number[1 - r]),
			 0);
	return 0;
}

/* Nothing is left behind. */
static __attribute__((unused)) void pair_close(struct pair *p)
{
	for (int r = 0; r < 2; r++)
		if (p->end[r])
			p->end[r]->ops->close(p->end[r]);
	CHECK_EQ(fake.live, 0);
}

/* From offset 0 of rank 0 to `offset` of rank 1. */
static __attribute__((unused)) struct ori_proxy_op op_of(struct pair *p, uint64_t cookie,
							 uint64_t offset, uint32_t bytes)
{
	struct ori_proxy_op op = { .cookie = cookie,
				   .link = p->link[0],
				   .local = p->area[0],
				   .local_cookie = p->region[0].cookie,
				   .remote = p->region[1].address + offset,
				   .remote_cookie = p->region[1].key,
				   .bytes = bytes };

	return op;
}

/* One completion at most. */
static __attribute__((unused)) int progress(struct pair *p, struct ori_proxy_completion *out)
{
	return p->end[0]->ops->posts.progress(p->end[0], out, 1);
}

static __attribute__((unused)) void expect_completion(struct pair *p, uint64_t cookie,
						      uint32_t syndrome)
{
	struct ori_proxy_completion c = { 0 };

	CHECK_EQ(progress(p, &c), 1);
	CHECK_EQ(c.cookie, cookie);
	CHECK_EQ(c.syndrome, syndrome);
}

/* ---- operations ------------------------------------------------------------------------------ */

#endif
