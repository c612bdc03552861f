/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/verbs_fabric.c - the verbs fabric over a library that is plain memory (verbs_fake.h): what real devices
 * in a VM do not show, such as refusals, full queues, events, atomics that lie, GPU memory.
 */
#include <oriel/oriel.h>

#include "../check.h"

#if __has_include(<infiniband/verbs.h>)
#include <fcntl.h>

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

static const char *depth = "4";

static void lost(void *ctx, uint32_t tag, uint32_t syndrome)
{
	struct pair *p = ctx;

	p->lost++;
	p->lost_tag = tag;
	p->lost_syndrome = syndrome;
}

static int open_fabric(struct pair *p, int rank, uint32_t nic, struct ori_fabric **out)
{
	struct ori_fabric_world world = {
		.ctx = p, .rank = rank, .nranks = 2, .nic = nic, .link_lost = lost
	};

	return ori_verbs_fabric.open(&p->config, &world, out);
}

static void read_config(struct pair *p)
{
	setenv("ORIEL_IB_LIBRARY", "fake", 1);
	setenv("ORIEL_QUEUE_DEPTH", depth, 1);
	memset(p, 0, sizeof(*p));
	CHECK_EQ(ori_config_read(&p->config), 0);
}

static int tell_peer(struct pair *p, int from)
{
	uint8_t address[ORI_FABRIC_ADDRESS_BYTES];
	uint32_t bytes = 0;

	CHECK_EQ(p->end[from]->ops->address(p->end[from], address, &bytes), 0);
	CHECK(bytes && bytes <= sizeof(address));
	return p->end[1 - from]->ops->peer_add(p->end[1 - from], from, address, bytes);
}

static int pair_open(struct pair *p)
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
static void pair_close(struct pair *p)
{
	for (int r = 0; r < 2; r++)
		if (p->end[r])
			p->end[r]->ops->close(p->end[r]);
	CHECK_EQ(fake.live, 0);
}

/* From offset 0 of rank 0 to `offset` of rank 1. */
static struct ori_proxy_op op_of(struct pair *p, uint64_t cookie, uint64_t offset, uint32_t bytes)
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
static int progress(struct pair *p, struct ori_proxy_completion *out)
{
	return p->end[0]->ops->posts.progress(p->end[0], out, 1);
}

static void expect_completion(struct pair *p, uint64_t cookie, uint32_t syndrome)
{
	struct ori_proxy_completion c = { 0 };

	CHECK_EQ(progress(p, &c), 1);
	CHECK_EQ(c.cookie, cookie);
	CHECK_EQ(c.syndrome, syndrome);
}

/* ---- operations ----------------------------------------------------------------------------------- */

TEST(every_operation)
{
	static struct pair p;
	const struct ori_proxy_backend *posts;
	uint64_t *words = (uint64_t *)(void *)p.area[1];
	struct ori_proxy_op op;

	fake_reset();
	REQUIRE(!pair_open(&p));
	posts = &p.end[0]->ops->posts;
	CHECK_EQ(p.end[0]->link_flags, ORIEL_LINK_ATOMICS | ORIEL_LINK_ORDERED);
	CHECK_EQ(p.end[0]->message_bytes, 1u << 20);
	CHECK_HAS(p.end[0]->text,
		  "fake_0 port 1, RoCE v2, GID 1 ::ffff:0.0.0.1, MTU 2048, atomics executed");
	memset(p.area[0], 0x31, 100);
	op = op_of(&p, 1, 64, 100);
	CHECK_EQ(posts->post_write(p.end[0], &op), 0);
	expect_completion(&p, 1, 0);
	CHECK_EQ(p.area[1][163], 0x31);
	CHECK_EQ(p.area[1][164], 0);
	op = op_of(&p, 2, 64, 8);
	op.data = (const uint8_t *)"12345678";
	CHECK_EQ(posts->post_write_inline(p.end[0], &op), 0);
	expect_completion(&p, 2, 0);
	op = op_of(&p, 3, 64, 8);
	CHECK_EQ(posts->post_read(p.end[0], &op), 0);
	expect_completion(&p, 3, 0);
	CHECK_EQ(memcmp(p.area[0], "12345678", 8), 0);
	op = op_of(&p, 4, 0, 8);
	op.swap_add = 5;
	CHECK_EQ(posts->post_fetch_add(p.end[0], &op), 0);
	op.cookie = 5;
	op.compare = 5;
	op.swap_add = 77;
	CHECK_EQ(posts->post_compare_swap(p.end[0], &op), 0);
	expect_completion(&p, 4, 0);
	expect_completion(&p, 5, 0);
	CHECK_EQ(words[0], 77);
	pair_close(&p);
}

TEST(what_the_queue_pair_is_told)
{
	static struct pair p;

	fake_reset();
	setenv("ORIEL_IB_TC", "106", 1);
	setenv("ORIEL_IB_SL", "3", 1);
	setenv("ORIEL_IB_TIMEOUT", "14", 1);
	setenv("ORIEL_IB_RETRY_CNT", "5", 1);
	setenv("ORIEL_IB_HOP_LIMIT", "9", 1);
	setenv("ORIEL_IB_MTU", "1024", 1);
	REQUIRE(!pair_open(&p));
	CHECK_EQ(fake.last_rtr.path_mtu, IBV_MTU_1024);
	CHECK_EQ(fake.last_rtr.ah_attr.is_global, 1);
	CHECK_EQ(fake.last_rtr.ah_attr.sl, 3);
	CHECK_EQ(fake.last_rtr.ah_attr.grh.traffic_class, 106);
	CHECK_EQ(fake.last_rtr.ah_attr.grh.hop_limit, 9);
	CHECK_EQ(fake.last_rtr.ah_attr.grh.sgid_index, 1);
	CHECK_EQ(fake.last_rtr.max_dest_rd_atomic, 4);
	CHECK_EQ(fake.last_rts.max_rd_atomic, 4); /* the peer answers so many */
	CHECK_EQ(fake.last_rts.timeout, 14);
	CHECK_EQ(fake.last_rts.retry_cnt, 5);
	pair_close(&p);
	unsetenv("ORIEL_IB_TC");
	unsetenv("ORIEL_IB_SL");
	unsetenv("ORIEL_IB_TIMEOUT");
	unsetenv("ORIEL_IB_RETRY_CNT");
	unsetenv("ORIEL_IB_HOP_LIMIT");
	unsetenv("ORIEL_IB_MTU");
}

/* The data is the caller's only during the call: on a device without inline data it must be copied. */
static void inline_by_copy(void)
{
	static struct pair p;
	uint64_t sum = 0;

	REQUIRE(!pair_open(&p));
	for (uint64_t i = 0; i < 50; i++) {
		uint8_t data[28];
		struct ori_proxy_op op = op_of(&p, i, 32 * (i % 100), 28);

		memset(data, (int)i, sizeof(data));
		op.data = data;
		CHECK_EQ(p.end[0]->ops->posts.post_write_inline(p.end[0], &op), 0);
		memset(data, 0xff, sizeof(data));
		expect_completion(&p, i, 0);
		sum += p.area[1][32 * i + 27] == (uint8_t)i;
	}
	CHECK_EQ(sum, 50);
	pair_close(&p);
}

TEST(no_inline_data)
{
	fake_reset();
	fake.inline_lowered = 1;
	inline_by_copy();
	fake_reset();
	fake.inline_refused = fake.inline_lowered = 1;
	inline_by_copy();
}

/* ---- no room --------------------------------------------------------------------------------------- */

TEST(a_link_is_full)
{
	static struct pair p;
	struct ori_proxy_op op;

	fake_reset();
	REQUIRE(!pair_open(&p));
	for (uint64_t i = 0; i < 4; i++) {
		op = op_of(&p, i, 0, 8);
		CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), 0);
	}
	op.cookie = 4;
	CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), -EAGAIN);
	CHECK_EQ(p.end[0]->ops->posts.post_fetch_add(p.end[0], &op), -EAGAIN);
	expect_completion(&p, 0, 0);
	CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), 0);
	for (uint64_t i = 1; i < 5; i++)
		expect_completion(&p, i, 0);
	pair_close(&p);
}

TEST(the_cq_is_full)
{
	static struct pair p;
	struct ori_proxy_op op;

	fake_reset();
	fake.max_cqe = 2;
	REQUIRE(!pair_open(&p));
	for (uint64_t i = 0; i < 2; i++) {
		op = op_of(&p, i, 0, 8);
		CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), 0);
	}
	op.cookie = 2;
	CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), -EAGAIN);
	expect_completion(&p, 0, 0);
	CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), 0);
	expect_completion(&p, 1, 0);
	expect_completion(&p, 2, 0);
	pair_close(&p);
}

/* A slot is consumed only after its post succeeded. */
TEST(the_device_refuses)
{
	static struct pair p;
	struct ori_proxy_op op;
	struct ori_proxy_completion c;

	fake_reset();
	REQUIRE(!pair_open(&p));
	op = op_of(&p, 1, 0, 8);
	fake.post_error = EINVAL;
	CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), ORI_SYNDROME_LOCAL_QP_OP);
	fake.post_error = ENOMEM; /* with nothing open no room will ever come */
	CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), ORI_SYNDROME_LOCAL_QP_OP);
	CHECK_EQ(progress(&p, &c), 0);
	CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), 0);
	op.cookie = 2;
	fake.post_error = ENOMEM;
	CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), -EAGAIN);
	expect_completion(&p, 1, 0);
	CHECK_EQ(progress(&p, &c), 0);
	pair_close(&p);
}

/* ---- streams ------------------------------------------------------------------------------------------- */

static void post_many(struct pair *p, uint64_t n, uint64_t bad)
{
	for (uint64_t i = 0; i < n; i++) {
		struct ori_proxy_op op = op_of(p, i, 0, 8);

		if (i == bad)
			fake.status = IBV_WC_RETRY_EXC_ERR;
		CHECK_EQ(p->end[0]->ops->posts.post_write(p->end[0], &op), 0);
	}
}

/* Few are signalled, all are reported, in order, however little room there is. */
TEST(streams)
{
	static struct pair p;
	struct ori_proxy_completion c[7];
	uint64_t seen = 0;
	int fd, n;

	fake_reset();
	depth = "64";
	REQUIRE(!pair_open(&p));
	post_many(&p, 60, UINT64_MAX);
	CHECK(fake.nwcs < 10);
	for (int looks = 0; seen < 60 && looks < 100; looks++) {
		n = p.end[0]->ops->posts.progress(p.end[0], c, 7);
		CHECK(n <= 7);
		for (int i = 0; i < n; i++) {
			CHECK_EQ(c[i].cookie, seen++);
			CHECK_EQ(c[i].syndrome, 0);
		}
	}
	CHECK_EQ(seen, 60);
	CHECK_EQ(fake.markers, 1); /* the last ones were not signalled */
	CHECK_EQ(progress(&p, c), 0);
	CHECK_EQ(p.end[0]->ops->arm(p.end[0], &fd), 1);
	pair_close(&p);
	depth = "4";
}

/* One that is not signalled fails: those before it are good, and it is told as itself. */
TEST(an_error_within_a_stream)
{
	static struct pair p;

	fake_reset();
	depth = "64";
	REQUIRE(!pair_open(&p));
	post_many(&p, 12, 10);
	for (uint64_t i = 0; i < 10; i++)
		expect_completion(&p, i, 0);
	expect_completion(&p, 10, ORI_SYNDROME_RETRY_EXCEEDED);
	p.end[0]->ops->posts.flush(p.end[0], p.link[0]);
	pair_close(&p);
	depth = "4";
}

/* The device has no room for the marker: it is posted at the next look. */
TEST(a_marker_waits_for_room)
{
	static struct pair p;

	fake_reset();
	depth = "64";
	REQUIRE(!pair_open(&p));
	post_many(&p, 12, UINT64_MAX);
	for (uint64_t i = 0; i < 12; i++) {
		/* of the last that is signalled */
		fake.post_error = i == 3 ? ENOMEM : 0;
		expect_completion(&p, i, 0);
	}
	CHECK_EQ(fake.markers, 1);
	pair_close(&p);
	depth = "4";
}

/* ---- errors ------------------------------------------------------------------------------------------ */

TEST(errors_of_completions)
{
	static struct pair p;
	struct ori_proxy_op op;
	struct ori_proxy_completion c;

	fake_reset();
	REQUIRE(!pair_open(&p));
	op = op_of(&p, 1, 0, 8);
	op.remote_cookie = 60;
	CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), 0);
	expect_completion(&p, 1, ORI_SYNDROME_REMOTE_ACCESS);
	fake.status = IBV_WC_RETRY_EXC_ERR;
	op = op_of(&p, 2, 0, 8);
	CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), 0);
	expect_completion(&p, 2, ORI_SYNDROME_RETRY_EXCEEDED);
	/* told twice by the device, once to the proxy */
	fake.twice = 1;
	op.cookie = 3;
	CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), 0);
	expect_completion(&p, 3, 0);
	CHECK_EQ(progress(&p, &c), 0);
	p.end[0]->ops->posts.flush(p.end[0], p.link[0]);
	CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), ORI_SYNDROME_FLUSHED);
	pair_close(&p);
}

static void raise(enum ibv_event_type type, struct ibv_qp *qp)
{
	struct ibv_async_event *e = &fake.events[fake.nevents++];

	memset(e, 0, sizeof(*e));
	e->event_type = type;
	if (qp)
		e->element.qp = qp;
	else
		e->element.port_num = 1;
}

TEST(events)
{
	static struct pair p;
	struct ori_proxy_completion c;
	uint32_t number;
	void *second;

	fake_reset();
	REQUIRE(!pair_open(&p));
	CHECK_EQ(p.end[0]->ops->link_add(p.end[0], 7, &second, &number), 0);
	raise(IBV_EVENT_PORT_ERR, NULL);
	raise(IBV_EVENT_GID_CHANGE, NULL);
	raise(IBV_EVENT_COMM_EST, ((struct verbs_link *)p.link[0])->qp);
	for (int i = 0; i < 200; i++)
		CHECK_EQ(progress(&p, &c), 0);
	CHECK_EQ(fake.nevents, 0);
	CHECK_EQ(p.lost, 0);
	raise(IBV_EVENT_QP_ACCESS_ERR, ((struct verbs_link *)p.link[0])->qp);
	for (int i = 0; i < 200; i++)
		CHECK_EQ(progress(&p, &c), 0);
	CHECK_EQ(p.lost, 1);
	CHECK_EQ(p.lost_tag, 100);
	CHECK_EQ(p.lost_syndrome, ORI_SYNDROME_LOCAL_ACCESS);
	/* the device dies: told for the link that is connected, the other has nothing to lose */
	raise(IBV_EVENT_DEVICE_FATAL, NULL);
	for (int i = 0; i < 200; i++)
		CHECK_EQ(progress(&p, &c), 0);
	CHECK_EQ(p.lost, 2);
	CHECK_EQ(p.lost_syndrome, ORI_SYNDROME_ABORTED);
	pair_close(&p);
}

TEST(sleeping)
{
	static struct pair p;
	struct ori_proxy_op op;
	struct ori_proxy_completion c;
	int fd = -1;

	fake_reset();
	REQUIRE(!pair_open(&p));
	CHECK_EQ(p.end[0]->ops->arm(p.end[0], &fd), 1);
	CHECK(fd >= 0 && fake.notified == 1);
	/* what comes before the CQ was armed is found, and reported once */
	op = op_of(&p, 9, 0, 8);
	CHECK_EQ(p.end[0]->ops->posts.post_write(p.end[0], &op), 0);
	CHECK_EQ(p.end[0]->ops->arm(p.end[0], &fd), 0);
	CHECK_EQ(p.end[0]->ops->arm(p.end[0], &fd), 0);
	expect_completion(&p, 9, 0);
	CHECK_EQ(progress(&p, &c), 0);
	CHECK_EQ(p.end[0]->ops->arm(p.end[0], &fd), 1);
	/* an event that ended the sleep is taken at the next look */
	raise(IBV_EVENT_QP_FATAL, ((struct verbs_link *)p.link[0])->qp);
	CHECK_EQ(progress(&p, &c), 0);
	CHECK_EQ(p.lost, 1);
	pair_close(&p);
}

/* ---- atomics ------------------------------------------------------------------------------------------- */

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

/* ---- memory --------------------------------------------------------------------------------------------- */

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
	struct ori_engine_memory m = { .base = p->area[0], .bytes = AREA, .remote = 1, .device = 1 };
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

/* ---- addresses and devices -------------------------------------------------------------------------------- */

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
	CHECK_HAS(ori_last_error_text(), "fake_1 port 1: ORIEL_IB_HCA leaves it out");
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
	CHECK_HAS(ori_last_error_text(), "carries 2048");
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
