/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/mlx5_uverbs.c - the mlx5 engine's own calls on the real libibverbs and libmlx5, over
 * the emulated kernel of tests/uverbs.  The contract suite runs on it too; here is what that suite
 * cannot see: which address and how many blocks, what is refused and why.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <oriel/device/queue.h>

#include "../check.h"
#include "engine/mlx5/ifc.h"
#include "engine/mlx5/mlx5.h"
#include "util/util.h"

static char why[MLX5_WHY];

/* The build preloads the emulated kernel for this program, if it can. */
static int there_is_a_kernel(void)
{
	const char *preload = getenv("LD_PRELOAD");

	if (preload && strstr(preload, "fakeuverbs"))
		return 1;
	check_skip("not run with libfakeuverbs.so and the real libmlx5");
	return 0;
}

static int nic_open(struct mlx5_nic *n, uint32_t number)
{
	struct ori_config config;

	CHECK_EQ(ori_config_read(&config), 0);
	return mlx5_nic_open(n, &config, number, NULL, why, sizeof(why));
}

TEST(the_real_library_lists_devices)
{
	struct ori_config config;
	const struct mlx5_boundary *b;
	struct ibv_device **list;
	int n = 0;

	if (!there_is_a_kernel())
		return;
	CHECK_EQ(ori_config_read(&config), 0);
	b = mlx5_boundary(&config, why, sizeof(why));
	CHECK(b != NULL);
	if (!b)
		return;
	list = b->verbs->device_list(&n);
	CHECK_EQ(n, 2);
	for (int i = 0; i < n; i++) {
		CHECK(!strncmp(b->verbs->device_name(list[i]), "mlx5_", 5));
		CHECK(b->is_mlx5(list[i]));
	}
	b->verbs->device_list_free(list);
}

/* The port's table has link-local and IPv4 addresses, as RoCE v1 and v2: the last is wanted. */
TEST(a_nic_opens)
{
	struct mlx5_nic n;

	if (!there_is_a_kernel())
		return;
	CHECK_EQ(nic_open(&n, 0), 0);
	CHECK(!strcmp(n.v.name, "mlx5_0"));
	CHECK_EQ(n.v.gid.index, 3);
	CHECK_EQ(n.v.gid.type, VERBS_GID_ROCE_V2);
	CHECK_EQ(n.ts_format, MLX5_TS_FREE_RUNNING);
	CHECK(n.pdn != 0);
	CHECK_EQ(mlx5_nic_try(&n, why, sizeof(why)), 0);
	mlx5_nic_close(&n);
}

/* libmlx5 rounds up; the queue has the depth that was asked for, and so has its CQ. */
TEST(queues_have_the_depth_asked_for)
{
	struct mlx5_nic n;
	struct mlx5_queue *q;

	if (!there_is_a_kernel())
		return;
	CHECK_EQ(nic_open(&n, 0), 0);
	for (uint32_t depth = 4; depth <= 32768; depth *= 2)
		for (int core_direct = 0; core_direct < 2; core_direct++) {
			CHECK_EQ(mlx5_queue_make(&n, depth, core_direct, why, sizeof(why), &q), 0);
			CHECK_EQ(q->depth, depth);
			CHECK_EQ((uintptr_t)q->sq % 64, 0);
			CHECK_EQ((uintptr_t)q->doorbell % 256, 0);
			mlx5_queue_drop(q);
		}
	mlx5_nic_close(&n);
}

/* Few registers for many queues: what a GPU maps is a few pages. */
TEST(queues_share_pages_of_doorbells)
{
	struct mlx5_nic n;
	struct mlx5_queue *q[64];
	uintptr_t pages[64];
	int different = 0;

	if (!there_is_a_kernel())
		return;
	CHECK_EQ(nic_open(&n, 0), 0);
	for (int i = 0; i < 64; i++) {
		int known = 0;
		uintptr_t page;

		CHECK_EQ(mlx5_queue_make(&n, 16, i % 2, why, sizeof(why), &q[i]), 0);
		page = (uintptr_t)q[i]->doorbell / mlx5_page_bytes();
		for (int j = 0; j < different; j++)
			known |= pages[j] == page;
		if (!known)
			pages[different++] = page;
	}
	CHECK(different <= 16);
	for (int i = 0; i < 64; i++)
		mlx5_queue_drop(q[i]);
	mlx5_nic_close(&n);
}

TEST(a_clock_with_real_time)
{
	struct mlx5_nic n;
	struct mlx5_queue *q;

	if (!there_is_a_kernel())
		return;
	setenv("UVERBS_CLOCK", "real", 1);
	CHECK_EQ(nic_open(&n, 1), 0);
	CHECK_EQ(n.ts_format, MLX5_TS_DEFAULT);
	CHECK_EQ(mlx5_nic_try(&n, why, sizeof(why)), 0);
	/* what was sent before the capability was asked */
	n.ts_format = MLX5_TS_FREE_RUNNING;
	CHECK_EQ(mlx5_queue_make(&n, 16, 1, why, sizeof(why), &q), MLX5_LACKING);
	CHECK_HAS(why, "syndrome 0x5eb00d");
	mlx5_nic_close(&n);
	unsetenv("UVERBS_CLOCK");
}

/* What the kernel does not take gets a key over a key; what is no memory is refused. */
TEST(memory)
{
	struct mlx5_nic n;
	size_t page = mlx5_page_bytes();
	char *base = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
	struct ori_engine_memory m = { .base = base + 8, .bytes = page, .remote = 1 };
	uint32_t key;

	if (!there_is_a_kernel())
		return;
	CHECK(base != MAP_FAILED);
	CHECK_EQ(nic_open(&n, 0), 0);
	m.iova = 8; /* as the address, within a page */
	CHECK_EQ(mlx5_region_add(&n, &m, &key), 0);
	CHECK(key & 0xff);
	mlx5_region_remove(&n, key);
	m.iova = 16;
	CHECK_EQ(mlx5_region_add(&n, &m, &key), 0);
	CHECK_EQ(key & 0xff, 0);
	mlx5_region_remove(&n, key);
	munmap(base, 4 * page);
	CHECK(mlx5_region_add(&n, &m, &key) != 0);
	m.iova = 8;
	CHECK(mlx5_region_add(&n, &m, &key) != 0);
	mlx5_nic_close(&n);
}

/* As the kernel: what others use stays.  So an engine that ends in a wrong order is found. */
TEST(what_is_used_is_not_destroyed)
{
	struct mlx5_nic n;
	struct mlx5_queue *q;

	if (!there_is_a_kernel())
		return;
	CHECK_EQ(nic_open(&n, 0), 0);
	CHECK_EQ(mlx5_queue_make(&n, 16, 0, why, sizeof(why), &q), 0);
	CHECK_EQ(n.v.lib->pd_free(n.v.pd), EBUSY);
	CHECK_EQ(n.v.lib->cq_destroy(q->ibv_cq), EBUSY);
	mlx5_queue_drop(q);
	CHECK_EQ(n.v.lib->pd_free(n.v.pd), 0);
	n.v.pd = NULL;
	mlx5_nic_close(&n);
}

/*
 * libmlx5 has positions of fields of its own.  The emulated device reads a command of libmlx5 with
 * the engine's table: protection domain, mode, queue pair and opcode are where both say.
 */
TEST(a_command_of_libmlx5_itself)
{
	struct mlx5dv_mkey_init_attr attr = { .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
					      .max_entries = 4 };
	struct mlx5dv_mkey *(*create)(struct mlx5dv_mkey_init_attr *);
	int (*destroy)(struct mlx5dv_mkey *);
	struct mlx5dv_mkey *made;
	struct mlx5_nic n;
	void *library;

	if (!there_is_a_kernel())
		return;
	library = dlopen("libmlx5.so.1", RTLD_NOW);
	CHECK(library != NULL);
	if (!library)
		return;
	*(void **)&create = dlsym(library, "mlx5dv_create_mkey");
	*(void **)&destroy = dlsym(library, "mlx5dv_destroy_mkey");
	CHECK_EQ(nic_open(&n, 0), 0);
	attr.pd = n.v.pd;
	made = create(&attr);
	CHECK(made != NULL);
	if (made)
		CHECK_EQ(destroy(made), 0);
	mlx5_nic_close(&n);
	dlclose(library);
}

/* ---- a completion event ---------------------------------------------------------------------- */

static struct told {
	int failures;
	uint32_t qpn, syndrome;
} told;

static void told_doomed(void *ctx, uint32_t nic, uint32_t qpn)
{
	(void)ctx;
	(void)nic;
	(void)qpn;
}

static void told_failed(void *ctx, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome)
{
	(void)ctx;
	(void)nic;
	(void)wqe;
	told.failures++;
	told.qpn = qpn;
	told.syndrome = syndrome;
}

/* Eight bytes to itself, with a key that no NIC has if `wrong`.  Returns the poll of its CQE. */
static int write_to_itself(struct oriel_queue *q, const char *area, uint32_t key, uint32_t wrong)
{
	uint64_t deadline = ori_now_ns() + 10 * ORI_NS_PER_S;
	int done = 0;

	ori_wqe_rdma(ori_queue_slot(q, q->produced), q->produced, q->qpn, ORI_WQE_RDMA_WRITE,
		     (uintptr_t)area, key ^ wrong, (uintptr_t)area + 8, key, 8, 0);
	q->reserved = ++q->produced;
	ori_store_release32_sys(&q->record[1], ori_doorbell_record(q->produced));
	ori_store_release_sys(q->doorbell, ori_doorbell_value(q->produced, q->qpn));
	while (!done && ori_now_ns() < deadline)
		done = ori_queue_poll(q, q->produced - 1);
	return done;
}

static int is_readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms);
}

/*
 * libmlx5 arms CQs for errors: successes send no event, an error sends one.  The engine's thread
 * does not run, so only the event can be what is read here.
 */
TEST(an_error_sends_a_completion_event)
{
	struct ori_engine_world world = { .nranks = 1,
					  .doomed = told_doomed,
					  .failed = told_failed };
	struct oriel_queue q = { .depth = 16 };
	struct ori_engine *e;
	struct ori_config config;
	struct mlx5_nic *n;
	uint32_t key[ORIEL_NICS_MAX], responder;
	char *area = aligned_alloc(4096, 4096);
	struct ori_engine_memory m = {
		.base = area, .iova = (uintptr_t)area, .bytes = 4096, .remote = 1
	};

	if (!there_is_a_kernel())
		goto out;
	memset(area, 0, 4096);
	CHECK_EQ(ori_config_read(&config), 0);
	CHECK_EQ(ori_mlx5_engine_open(&config, &world, &e), 0);
	n = &((struct mlx5_engine *)e)->nic[0];
	CHECK_EQ(e->ops->memory_add(e, &m, key, NULL), 0);
	CHECK_EQ(e->ops->queue_add(e, 0, &q, 0), 0);
	CHECK_EQ(e->ops->responder_add(e, 0, &responder), 0);
	CHECK_EQ(e->ops->connect(e, 0, q.qpn, 0, responder), 0);
	CHECK_EQ(e->ops->connect(e, 0, responder, 0, q.qpn), 0);
	for (int i = 0; i < 40; i++)
		CHECK_EQ(write_to_itself(&q, area, key[0], 0), 1);
	CHECK_EQ(is_readable(n->notices->fd, 20), 0);
	CHECK_EQ(write_to_itself(&q, area, key[0], 0x5500), ORIEL_EREMOTE);
	CHECK_EQ(is_readable(n->notices->fd, 10000), 1);
	CHECK_EQ(mlx5_watch_turn((struct mlx5_engine *)e), 1);
	CHECK(n->events >= 1);
	CHECK_EQ(told.failures, 1);
	CHECK_EQ(told.qpn, q.qpn);
	CHECK_EQ(told.syndrome, ORI_SYNDROME_REMOTE_ACCESS);
	CHECK_EQ(is_readable(n->notices->fd, 0), 0);
	e->ops->memory_remove(e, key);
	e->ops->close(e);
out:
	free(area);
}
