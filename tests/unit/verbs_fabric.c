/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/verbs_fabric.c - the verbs fabric over a library that is plain memory (verbs_fake.h).
 * It shows what real devices in a VM do not show: refusals, full queues, errors, events.
 */
#include <oriel/oriel.h>

#include "../check.h"

#if __has_include(<infiniband/verbs.h>)
#include "verbs_pair.h"

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

/*
 * The data is the caller's only during the call: on a device without inline data it must be copied.
 */
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

/* ---- no room --------------------------------------------------------------------------------- */

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

/* ---- streams --------------------------------------------------------------------------------- */

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

/* An unsignalled operation fails: those before it succeed, and its own error is reported. */
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

/* ---- errors ---------------------------------------------------------------------------------- */

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

/* ---- atomics --------------------------------------------------------------------------------- */

#else
TEST(no_header)
{
	check_skip("built without infiniband/verbs.h");
}
#endif
