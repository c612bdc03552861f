/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/mlx5.h - what the files of the mlx5 engine share: NICs, queues, regions, and each
 * other's calls.
 *
 * The NIC executes the queues by itself.  The engine makes them, connects them, and watches for
 * errors.  Its lock guards the lists.  A call that fails because something is missing writes to
 * `why` what is missing and how to fix it.  It logs nothing, because a failed probe is not an
 * error.
 */
#ifndef ORI_MLX5_H
#define ORI_MLX5_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "../verbs/verbs.h"
#include "boundary.h"
#include "mlx5_engine.h"

#define MLX5_WHY 256
/*
 * There is an mlx5 NIC, but something is missing to use it directly.  ORIEL_EUNSUPPORTED: there is
 * none.
 */
#define MLX5_LACKING ORIEL_ESYSTEM

struct mlx5_nic;

/*
 * A queue pair and its CQ.  One with link.qp was made by libibverbs, one with `object` by a
 * command.
 */
struct mlx5_queue {
	struct mlx5_nic *nic;
	struct verbs_link link; /* fabric, qp and rank, for verbs/link.c; the rest is not used */
	struct ibv_cq *ibv_cq;
	struct mlx5dv_devx_obj *object;
	struct mlx5dv_devx_umem *umem;
	struct mlx5dv_devx_uar *uar;
	void *memory; /* memory of `umem`: the send queue, then its doorbell record */
	uint32_t qpn, cqn, depth, log_depth;
	uint8_t *sq, *cq;
	uint32_t *record;
	uint64_t *doorbell;
	uint64_t seen; /* WQEs that were rung at the last look */
	int told;      /* its failure was reported */
	int answers;   /* a responder: nothing is posted to it */
	struct mlx5_queue *next;
};

/* One registration.  `object`, if it is set, is a key over the memory region's key. */
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
	/* Device, port, settings, protection domain, regions: as in verbs/. */
	struct verbs_fabric v;
	const struct mlx5_boundary *b;
	uint32_t number;
	uint32_t pdn;
	uint32_t ts_format; /* of queue pairs made by command: MLX5_TS_* */
	uint32_t blocks;    /* blocks of the send queue that libmlx5 reserves per work request */
	/*
	 * If a GPU posts: lets the GPU access memory; else NULL.  `unreached` says why the last try
	 * failed, or "".
	 */
	const struct ori_engine_world *device;
	char unreached[MLX5_WHY];
	struct ibv_comp_channel *notices; /* of error CQEs; NULL: the device has none */
	struct mlx5_queue *queues;
	uint32_t queue_count;
	struct mlx5_queue *turn; /* the watcher looks at it next; NULL: at the first */
	uint64_t visits, events; /* looks at queues; events taken, of both kinds */
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
		/* held during a look and until its failures are reported; taken before `lock` */
		looking;
	pthread_mutex_t lock;
	struct mlx5_nic nic[ORIEL_NICS_MAX];
	struct verbs_address *peers; /* [nranks * ORIEL_NICS_MAX]; magic 0: not known */
	pthread_t thread;
	int started, stop;
	uint64_t failures;
};

/*
 * device.c: opens a NIC, from the choice of a port to a protection domain.  Names what a failed
 * step needs.  close undoes it.
 */
int mlx5_nic_open(struct mlx5_nic *, const struct ori_config *, uint32_t number,
		  const struct ori_engine_world *, char *why, size_t bytes);
/* Makes a queue of each kind, and destroys them. */
int mlx5_nic_try(struct mlx5_nic *, char *why, size_t bytes);
void mlx5_nic_close(struct mlx5_nic *);

/*
 * pieces.c: page-aligned, zeroed memory that the posting device can access.  NULL: no memory, or
 * `unreached` says why.
 */
void *mlx5_memory_take(size_t bytes, void *nic);
void mlx5_memory_give(void *base, void *nic);
/* Lets the posting device access the page of a doorbell. */
int mlx5_doorbell_map(struct mlx5_nic *, void *doorbell, char *why, size_t bytes);
/* Before libmlx5 unmaps the pages of doorbells, which it does when the context is closed. */
void mlx5_doorbells_drop(struct mlx5_nic *);
void mlx5_pieces_drop(struct mlx5_nic *);
/* Bytes of a page of this machine: the kernel registers and maps memory by pages. */
size_t mlx5_page_bytes(void);

/* queue.c */
int mlx5_queue_make(struct mlx5_nic *, uint32_t depth, int core_direct, char *why, size_t bytes,
		    struct mlx5_queue **out);
/* It only answers, so no CQE is ever written for it. */
int mlx5_responder_make(struct mlx5_nic *, char *why, size_t bytes, struct mlx5_queue **out);
int mlx5_queue_connect(struct mlx5_queue *, int rank, const struct verbs_address *,
		       uint32_t number);
void mlx5_queue_drop(struct mlx5_queue *);
/* cq.c */
int mlx5_cq_make(struct mlx5_queue *, uint32_t depth, char *why, size_t bytes);

/* devx.c: objects that libibverbs cannot make, made by command. */
/* Checks what is needed, and keeps what queue pairs must be told. */
int mlx5_devx_capabilities(struct mlx5_nic *, char *why, size_t bytes);
int mlx5_devx_queue_make(struct mlx5_queue *, uint32_t depth, char *why, size_t bytes);
int mlx5_devx_queue_connect(struct mlx5_queue *, const struct verbs_address *, uint32_t number);
/* A key under which the `bytes` at `address` of `key` have the addresses iova, iova + 1, ... */
struct mlx5dv_devx_obj *mlx5_devx_key(struct mlx5_nic *, uint32_t key, uint64_t address,
				      uint64_t iova, uint64_t bytes, int remote, uint32_t *out);

/* memory.c */
int mlx5_region_add(struct mlx5_nic *, const struct ori_engine_memory *, uint32_t *key);
void mlx5_region_remove(struct mlx5_nic *, uint32_t key);

/* look.c: has the queue failed?  Then the first WQE that did, and its syndrome. */
int mlx5_queue_failed(struct mlx5_queue *, uint64_t *index, uint32_t *syndrome);
/* The first WQE without a CQE. */
uint64_t mlx5_queue_pending(const struct mlx5_queue *);
/* Has every WQE that was rung its CQE? */
int mlx5_queue_idle(const struct mlx5_queue *);

/* scan.c */
int mlx5_watch_start(struct mlx5_engine *);
void mlx5_watch_stop(struct mlx5_engine *);
/*
 * Takes the events of all NICs, and looks once at every queue.  Returns how many failed.  They have
 * been reported on return, whichever thread found them.
 */
int mlx5_watch_scan(struct mlx5_engine *);
/* The same with only the next few queues of each NIC: what the thread does every millisecond. */
#define MLX5_TURN_QUEUES 64u
int mlx5_watch_turn(struct mlx5_engine *);

#endif
