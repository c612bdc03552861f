/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/verbs_device.c - the verbs fabric and its device, over the fake library: false claims
 * about atomics, GPU memory, registrations that fail, addresses of other ranks, and the choice of
 * device and settings.
 */
#include <oriel/oriel.h>

#include "../check.h"

#if __has_include(<infiniband/verbs.h>)
#include "verbs_pair.h"

static void without_atomics(const char *text)
{
	static struct pair p;
	struct ori_proxy_op op;

	REQUIRE(!pair_open(&p));
	CHECK_EQ(p.end[0]->link_flags, ORIEL_LINK_ORDERED);
	CHECK_HAS(p.end[0]->text, text);
	op = op_of(&p, 1, 0, 8);
	CHECK_EQ(p.end[0]->ops->posts.post_fetch_add(p.end[0], &op), ORI_SYNDROME_REMOTE_INVALID);
	pair_close(&p);
}

TEST(atomics_are_tried)
{
	fake_reset();
	fake.atomics_lie = 1;
	without_atomics("no atomics: they gave a wrong sum");
	fake_reset();
	fake.atomic_cap = IBV_ATOMIC_NONE;
	without_atomics("no atomics: the device has none");
}

/* An older libibverbs: types of addresses come from sysfs, which has no such device. */
TEST(an_old_library_shows_no_types_of_addresses)
{
	static struct verbs_library old;
	static struct pair p;

	fake_reset();
	old = fake_library;
	old.query_gid_ex = NULL;
	verbs_library_set("fake", &old);
	REQUIRE(!pair_open(&p));
	CHECK_EQ(((struct verbs_fabric *)p.end[0])->gid.type, VERBS_GID_ROCE_V1);
	pair_close(&p);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int last_fd;

static int give_dmabuf(void *ctx, const void *base, uint64_t bytes, uint64_t *offset)
{
	(void)ctx;
	(void)base;
	(void)bytes;
	*offset = 4096;
	last_fd = eventfd(0, EFD_CLOEXEC);
	return last_fd;
}

static void register_device(struct pair *p, int dmabuf)
{
	struct ori_engine_memory m = {
		.base = p->area[0],
		.bytes = AREA,
		.remote = 1,
		.device = 1,
	};
	struct ori_fabric_region region;
	uint32_t key;

	((struct verbs_fabric *)p->end[0])->world.dmabuf = give_dmabuf;
	REQUIRE(!p->end[0]->ops->memory_add(p->end[0], &m, &region));
	key = (uint32_t)region.key;
	CHECK_EQ(fake.mrs[key - 1].dmabuf, dmabuf);
	CHECK(fake.mrs[key - 1].access & IBV_ACCESS_REMOTE_ATOMIC);
	CHECK_EQ(region.address, (uintptr_t)p->area[0]);
	/* the descriptor is not kept */
	CHECK_EQ(fcntl(last_fd, F_GETFD), -1);
	p->end[0]->ops->memory_remove(p->end[0], &region);
	CHECK_EQ(fake.mrs[key - 1].live, 0);
}

TEST(gpu_memory)
{
	static struct pair p;

	fake_reset();
	REQUIRE(!pair_open(&p));
	register_device(&p, 1);
	fake.dmabuf_error = EOPNOTSUPP;
	register_device(&p, 0);
	pair_close(&p);
}

TEST(memory_that_cannot_be)
{
	static struct pair p;
	struct ori_engine_memory m = { .base = p.area[0], .bytes = AREA, .remote = 1 };
	struct ori_fabric_region region = { 0 };

	fake_reset();
	REQUIRE(!pair_open(&p));
	fake.register_error = ENOMEM;
	CHECK_EQ(p.end[0]->ops->memory_add(p.end[0], &m, &region), ORIEL_ESYSTEM);
	CHECK_HAS(ori_last_error_text(), "ulimit -l");
	CHECK(!region.handle);
	/* a source that nobody may write is still a source */
	fake.register_error = EFAULT;
	CHECK_EQ(p.end[0]->ops->memory_add(p.end[0], &m, &region), ORIEL_ESYSTEM);
	m.remote = 0;
	REQUIRE(!p.end[0]->ops->memory_add(p.end[0], &m, &region));
	CHECK_EQ(fake.mrs[region.key - 1].access, 0);
	fake.register_error = 0;
	pair_close(&p); /* takes what is left */
}

/* ---- addresses and devices ------------------------------------------------------------------- */

TEST(addresses_of_others)
{
	static struct pair p;
	struct verbs_address a;
	struct ori_fabric *f;
	uint32_t number;
	void *link;

	fake_reset();
	REQUIRE(!pair_open(&p));
	f = p.end[0];
	verbs_address_own((struct verbs_fabric *)p.end[1], &a);
	CHECK_EQ(f->ops->peer_add(f, 1, (uint8_t *)&a, sizeof(a) - 1), ORIEL_EPROTO);
	CHECK_EQ(f->ops->peer_add(f, 2, (uint8_t *)&a, sizeof(a)), ORIEL_EPROTO);
	CHECK_EQ(f->ops->peer_add(f, -1, (uint8_t *)&a, sizeof(a)), ORIEL_EPROTO);
	a.magic++;
	CHECK_EQ(f->ops->peer_add(f, 1, (uint8_t *)&a, sizeof(a)), ORIEL_EPROTO);
	a.magic--;
	a.mtu = 9;
	CHECK_EQ(f->ops->peer_add(f, 1, (uint8_t *)&a, sizeof(a)), ORIEL_EPROTO);
	a.mtu = IBV_MTU_1024;
	a.link_layer = IBV_LINK_LAYER_INFINIBAND;
	CHECK_EQ(f->ops->peer_add(f, 1, (uint8_t *)&a, sizeof(a)), ORIEL_EMISMATCH);
	CHECK_HAS(ori_last_error_text(), "InfiniBand");
	a.link_layer = IBV_LINK_LAYER_ETHERNET;
	a.gid_type = VERBS_GID_ROCE_V1;
	CHECK_EQ(f->ops->peer_add(f, 1, (uint8_t *)&a, sizeof(a)), ORIEL_EMISMATCH);
	CHECK_HAS(ori_last_error_text(), "RoCE v1");
	a.gid_type = VERBS_GID_ROCE_V2;
	CHECK_EQ(f->ops->peer_add(f, 1, (uint8_t *)&a, sizeof(a)), 0);
	CHECK_EQ(f->ops->link_add(f, 8, &link, &number), 0);
	CHECK_EQ(f->ops->link_connect(f, link, 1, 0), ORIEL_EPROTO);
	CHECK_EQ(f->ops->link_connect(f, link, 1, 1u << 24), ORIEL_EPROTO);
	CHECK_EQ(f->ops->link_connect(f, link, 0, 5), ORIEL_EPROTO); /* not known */
	CHECK_EQ(f->ops->link_connect(f, link, 1, 5), 0);
	CHECK_EQ(fake.last_rtr.path_mtu, IBV_MTU_1024); /* the smaller of the two */
	pair_close(&p);
}

/* Opens NIC `nic` with that variable; the beginning of its text, or the status. */
static int opens(const char *name, const char *value, uint32_t nic, const char *begins)
{
	static struct pair p;
	int err;

	setenv(name, value, 1);
	read_config(&p);
	unsetenv(name);
	err = open_fabric(&p, 0, nic, &p.end[0]);
	if (!err)
		CHECK_HAS(p.end[0]->text, begins);
	pair_close(&p);
	return err;
}

TEST(which_device)
{
	fake_reset();
	fake.devices = 3;
	CHECK_EQ(opens("ORIEL_IB_HCA", "", 0, "fake_0 port 1"), 0);
	CHECK_EQ(opens("ORIEL_IB_HCA", "", 1, "fake_1 port 1"), 0);
	CHECK_EQ(opens("ORIEL_IB_HCA", "^fake_0", 0, "fake_1 port 1"), 0);
	CHECK_EQ(opens("ORIEL_IB_HCA", "=fake_2,fake_0", 0, "fake_2 port 1"), 0);
	CHECK_EQ(opens("ORIEL_IB_HCA", "=fake_2,fake_0", 1, "fake_0 port 1"), 0);
	CHECK_EQ(opens("ORIEL_IB_HCA", "=fake_2", 1, ""), ORIEL_ECONFIG);
	CHECK_HAS(ori_last_error_text(), "ORIEL_NICS");
	CHECK_EQ(opens("ORIEL_IB_HCA", "fake_1:2", 0, ""), ORIEL_EUNSUPPORTED);
	CHECK_HAS(ori_last_error_text(), "fake_1 port 1: excluded by ORIEL_IB_HCA");
	fake.state[0] = IBV_PORT_DOWN;
	fake.transport[1] = IBV_TRANSPORT_IWARP;
	CHECK_EQ(opens("ORIEL_IB_HCA", "", 0, "fake_2 port 1"), 0);
	fake.state[2] = IBV_PORT_INIT;
	CHECK_EQ(opens("ORIEL_IB_HCA", "", 0, ""), ORIEL_EUNSUPPORTED);
	CHECK_HAS(ori_last_error_text(),
		  "fake_0 port 1: is not active; fake_1 port 1: has no RC queue pairs");
	fake.devices = 0;
	CHECK_EQ(opens("ORIEL_IB_HCA", "", 0, ""), ORIEL_EUNSUPPORTED);
	CHECK_HAS(ori_last_error_text(), "no RDMA device");
}

TEST(settings_that_do_not_fit_the_port)
{
	fake_reset();
	CHECK_EQ(opens("ORIEL_IB_MTU", "4096", 0, ""), ORIEL_ECONFIG);
	CHECK_HAS(ori_last_error_text(), "carries at most 2048 bytes");
	CHECK_EQ(opens("ORIEL_IB_GID_INDEX", "2", 0, ""), ORIEL_ECONFIG);
	CHECK_EQ(opens("ORIEL_IB_GID_INDEX", "0", 0, "GID 0 fe80"), 0);
	CHECK_EQ(opens("ORIEL_IB_PKEY", "1", 0, ""), ORIEL_ECONFIG);
	CHECK_EQ(opens("ORIEL_IB_NEAR", "ffff:ff:1f.9", 0, ""), ORIEL_ECONFIG);
}
#else
TEST(no_header)
{
	check_skip("built without infiniband/verbs.h");
}
#endif
