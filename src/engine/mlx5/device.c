/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/device.c - opens a NIC step by step, so that a message names the first thing that is
 * missing and tells how to fix it.
 *
 * verbs/device.c chooses port, address and settings.  Called when an engine is opened or searched,
 * on any thread; every NIC has one caller at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "../../util/util.h"
#include "mlx5.h"

/* ---- steps: 0, or a line in `why` ---------------------------------------------------------- */

static int choose_port(struct mlx5_nic *n, const struct ori_config *config, char *why, size_t bytes)
{
	int err = verbs_device_probe(config, why, bytes);

	if (err)
		return err;
	err = verbs_device_open(&n->v, config, n->number);
	if (err)
		snprintf(why, bytes, "%s", ori_last_error_text());
	return err;
}

/*
 * Opens the device again with the right to give commands, because the companion's queue pair needs
 * a command.
 */
static int open_direct(struct mlx5_nic *n, char *why, size_t bytes)
{
	struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	struct ibv_context *plain = n->v.context;

	if (!n->b->is_mlx5(plain->device)) {
		snprintf(why, bytes,
			 "%s is not an mlx5 device: name one in ORIEL_IB_HCA, or set "
			 "ORIEL_ENGINE=verbs",
			 n->v.name);
		return ORIEL_EUNSUPPORTED;
	}
	n->v.context = n->b->open(plain->device, &attr);
	if (!n->v.context) {
		snprintf(why, bytes,
			 "%s does not accept commands (DevX: %s): set UCTX_EN=1 with mlxconfig, "
			 "use a kernel and rdma-core with DevX",
			 n->v.name, strerror(errno));
		n->v.context = plain;
		return MLX5_LACKING;
	}
	n->v.lib->close(plain);
	return 0;
}

static int check_atomics(struct mlx5_nic *n, char *why, size_t bytes)
{
	if (n->v.attr.atomic_cap != IBV_ATOMIC_NONE) {
		n->v.base.link_flags = ORIEL_LINK_ATOMICS | ORIEL_LINK_ORDERED;
		return 0;
	}
	snprintf(why, bytes,
		 "%s has no atomics, which counters need: update its firmware, or set "
		 "ORIEL_ENGINE=verbs",
		 n->v.name);
	return MLX5_LACKING;
}

static int make_domain(struct mlx5_nic *n, char *why, size_t bytes)
{
	struct mlx5dv_pd out = { 0 };
	struct mlx5dv_obj obj = { .pd = { .out = &out } };

	n->v.pd = n->v.lib->pd_alloc(n->v.context);
	obj.pd.in = n->v.pd;
	if (n->v.pd && !n->b->init_obj(&obj, MLX5DV_OBJ_PD)) {
		n->pdn = out.pdn;
		return 0;
	}
	snprintf(why, bytes, "%s: cannot make a protection domain (%s)", n->v.name,
		 strerror(errno));
	return ORIEL_ESYSTEM;
}

static int place_queues(struct mlx5_nic *n, char *why, size_t bytes)
{
	struct mlx5dv_ctx_allocators from = { mlx5_memory_take, mlx5_memory_give, n };

	if (!n->device || !n->b->context_set(n->v.context, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &from))
		return 0;
	snprintf(why, bytes,
		 "libmlx5 cannot place queues of %s where a GPU reaches them: install "
		 "rdma-core 28 or newer",
		 n->v.name);
	return MLX5_LACKING;
}

static int unblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* Events are read without blocking.  Without completion events, errors are found more slowly. */
static int open_events(struct mlx5_nic *n, char *why, size_t bytes)
{
	n->notices = n->v.lib->channel_create(n->v.context);
	if (!n->notices)
		ori_log(ORI_LOG_INFO,
			"%s has no completion events (%s): a failed queue is found in its turn",
			n->v.name, strerror(errno));
	if (!unblock(n->v.context->async_fd) && (!n->notices || !unblock(n->notices->fd)))
		return 0;
	snprintf(why, bytes, "events of %s cannot be read without waiting (%s)", n->v.name,
		 strerror(errno));
	return ORIEL_ESYSTEM;
}

int mlx5_nic_open(struct mlx5_nic *n, const struct ori_config *config, uint32_t number,
		  const struct ori_engine_world *world, char *why, size_t bytes)
{
	int err = 0;

	memset(n, 0, sizeof(*n));
	n->number = number;
	n->device = world && world->reach ? world : NULL;
	if (world) {
		n->v.world.ctx = world->ctx;
		n->v.world.dmabuf = world->dmabuf;
	}
	n->blocks = 1;
	n->v.wake_fd = -1;
	n->b = mlx5_boundary(config, why, bytes);
	if (!n->b)
		return ORIEL_EUNSUPPORTED;
	err = choose_port(n, config, why, bytes);
	if (!err)
		err = open_direct(n, why, bytes);
	if (!err)
		err = mlx5_devx_capabilities(n, why, bytes);
	if (!err)
		err = check_atomics(n, why, bytes);
	if (!err)
		err = make_domain(n, why, bytes);
	if (!err)
		err = place_queues(n, why, bytes);
	if (!err)
		err = open_events(n, why, bytes);
	if (err)
		mlx5_nic_close(n);
	return err;
}

int mlx5_nic_try(struct mlx5_nic *n, char *why, size_t bytes)
{
	for (int core_direct = 0; core_direct < 2; core_direct++) {
		struct mlx5_queue *q;
		int err = mlx5_queue_make(n, 64, core_direct, why, bytes, &q);

		if (err)
			return err;
		mlx5_queue_drop(q);
	}
	return 0;
}

void mlx5_nic_close(struct mlx5_nic *n)
{
	while (n->queues) {
		struct mlx5_queue *q = n->queues;

		n->queues = q->next;
		mlx5_queue_drop(q);
	}
	n->queue_count = 0;
	n->turn = NULL;
	for (uint32_t i = 0; i < MLX5_REGION_LISTS; i++)
		while (n->regions[i])
			mlx5_region_remove(n, n->regions[i]->key);
	if (n->notices)
		n->v.lib->channel_destroy(n->notices);
	if (n->v.pd)
		n->v.lib->pd_free(n->v.pd);
	/* before the context, which unmaps them: a GPU must not keep a mapping of other memory */
	mlx5_doorbells_drop(n);
	if (n->v.context)
		n->v.lib->close(n->v.context);
	n->notices = NULL;
	n->v.pd = NULL;
	n->v.context = NULL;
	/* after the context, whose queues and records were there */
	mlx5_pieces_drop(n);
}
