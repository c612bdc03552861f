/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/mlx5.h - what the files of the mlx5 engine share: NICs, queues, regions, and each
 * other's calls.
 *
 * The NIC executes the queues by itself; the engine makes them, connects them, and watches for
 * errors.  Its lock guards the lists.  A call that can fail for want of something writes what is
 * missing, and what helps, to `why`, and logs nothing: a probe is no error.
 */
#ifndef ORI_MLX5_H
#define ORI_MLX5_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "../verbs/verbs.h"
#include "boundary.h"
#include "mlx5_engine.h"

#define MLX5_PAGE 4096u
#define MLX5_WHY 256
/*
 * There is an mlx5 NIC, but something is missing to use it as one; ORIEL_EUNSUPPORTED: there is
 * none.
 */
#define MLX5_LACKING ORIEL_ESYSTEM

struct mlx5_nic;

/*
 * A queue pair and its CQ.  One with link.qp is libibverbs', one with `object` is made by
 * command.
 */
struct mlx5_queue {
	struct mlx5_nic *nic;
	struct verbs_link
		link; /* fabric, qp and rank, for verbs/link.c; the rest of it is not used */
	struct ibv_cq *ibv_cq;
	struct mlx5dv_devx_obj *object;
	struct mlx5dv_devx_umem *umem;
	struct mlx5dv_devx_uar *uar;
	void *memory; /* of `umem`: the send queue, then its doorbell record */
	uint32_t qpn, cqn, depth, log_depth;
	uint8_t *sq, *cq;
	uint32_t *record;
	uint64_t *doorbell;
	uint64_t seen;  /* CQEs before this one are successes */
	uint32_t looks; /* by the watcher */
	int told;       /* its failure was told */
	int answers;    /* a responder: nothing is posted on it */
	struct mlx5_queue *next;
};

/* One registration.  `object`, where there is one, is a key over the memory region's. */
#define MLX5_REGION_LISTS 4096u /* a program may have hundreds of thousands of regions */

struct mlx5_region {
	uint32_t key;
	struct ibv_mr *mr;                 /* registered here, or */
	struct ori_fabric_region ordinary; /* by verbs/memory.c */
	struct mlx5dv_devx_obj *object;
	struct mlx5_region *next;
};

/* Memory of queues, or a page of doorbells. */
struct mlx5_piece {
	void *base;
	size_t bytes;
	int doorbells;
	struct mlx5_piece *next;
};

struct mlx5_nic {
	/* device, port, settings, protection domain, regions: as verbs/ has them */
	struct verbs_fabric v;
	const struct mlx5_boundary *b;
	uint32_t number;
	uint32_t pdn;
	uint32_t blocks; /* of the send queue that libmlx5 sets aside for one work request */
	/*
	 * Where a GPU posts: puts things in its reach; else NULL.  And why the last thing was not,
	 * or "".
	 */
	const struct ori_engine_world *device;
	char unreached[MLX5_WHY];
	struct mlx5_queue *queues;
	struct mlx5_region *regions[MLX5_REGION_LISTS]; /* by key, memory.c */
	struct mlx5_piece *pieces;
};

struct mlx5_failure {
	uint32_t nic, qpn, syndrome;
	uint64_t wqe;
};

struct mlx5_engine {
	struct ori_engine base;
	struct ori_engine_world world;
	pthread_mutex_t
		looking; /* held through a look and until its failures are told; before `lock` */
	pthread_mutex_t lock;
	struct mlx5_nic nic[ORIEL_NICS_MAX];
	struct verbs_address *peers; /* [nranks * ORIEL_NICS_MAX]; magic 0: not known */
	pthread_t thread;
	int started, stop;
	uint64_t scans, failures;
};

/*
 * device.c: from a port's choice to a protection domain; each step's lack is named.  Undone by
 * close.
 */
int mlx5_nic_open(struct mlx5_nic *, const struct ori_config *, uint32_t number,
		  const struct ori_engine_world *, char *why, size_t bytes);
/* Makes a queue of each kind, and drops them. */
int mlx5_nic_try(struct mlx5_nic *, char *why, size_t bytes);
void mlx5_nic_close(struct mlx5_nic *);

/*
 * pieces.c: page-aligned, zeroed, in reach of the device that posts.  NULL: no memory, or
 * `unreached` says why.
 */
void *mlx5_memory_take(size_t bytes, void *nic);
void mlx5_memory_give(void *base, void *nic);
/* The page of a doorbell, in reach of the device that posts. */
int mlx5_doorbell_map(struct mlx5_nic *, void *doorbell, char *why, size_t bytes);
void mlx5_pieces_drop(struct mlx5_nic *);

/* queue.c */
int mlx5_queue_make(struct mlx5_nic *, uint32_t depth, int core_direct, char *why, size_t bytes,
		    struct mlx5_queue **out);
/* Answers only: no CQE is ever written for it. */
int mlx5_responder_make(struct mlx5_nic *, char *why, size_t bytes, struct mlx5_queue **out);
int mlx5_queue_connect(struct mlx5_queue *, int rank, const struct verbs_address *,
		       uint32_t number);
void mlx5_queue_drop(struct mlx5_queue *);
/* cq.c */
int mlx5_cq_make(struct mlx5_queue *, uint32_t depth, char *why, size_t bytes);

/* devx.c: by command, what libibverbs cannot. */
int mlx5_devx_core_direct(struct mlx5_nic *, char *why, size_t bytes);
int mlx5_devx_queue_make(struct mlx5_queue *, uint32_t depth, char *why, size_t bytes);
int mlx5_devx_queue_connect(struct mlx5_queue *, const struct verbs_address *, uint32_t number);
/* A key under which the `bytes` at `address` of `key` are called iova, iova + 1, ... */
struct mlx5dv_devx_obj *mlx5_devx_key(struct mlx5_nic *, uint32_t key, uint64_t address,
				      uint64_t iova, uint64_t bytes, int remote, uint32_t *out);

/* memory.c */
int mlx5_region_add(struct mlx5_nic *, const struct ori_engine_memory *, uint32_t *key);
void mlx5_region_remove(struct mlx5_nic *, uint32_t key);

/* scan.c */
int mlx5_watch_start(struct mlx5_engine *);
void mlx5_watch_stop(struct mlx5_engine *);
/* One look at every queue; how many failed.  They have been told on return, whoever found them. */
int mlx5_watch_scan(struct mlx5_engine *);
/* Has everything rung its CQE? */
int mlx5_queue_idle(const struct mlx5_queue *);

#endif
