/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/boundary.h - all functions of libibverbs and libmlx5 that the mlx5 engine calls.
 *
 * They are in one table, filled by dlopen, or by a test with its own functions.  So the engine's
 * code is the same over a NIC and over the software NIC.  Functions that the verbs engine also
 * calls are in verbs/library.h.
 */
#ifndef ORI_MLX5_BOUNDARY_H
#define ORI_MLX5_BOUNDARY_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stddef.h>

#include "../../util/config.h"
#include "../verbs/library.h"

/*
 * X(result, member, symbol, arguments) of libibverbs, in addition to those of struct verbs_library.
 */
#define MLX5_VERBS_LIST(X)                                                                         \
	X(struct ibv_mr *, mr_add_iova, ibv_reg_mr_iova2,                                          \
	  (struct ibv_pd *, void *, size_t, uint64_t, unsigned int))                               \
	X(struct ibv_ah *, ah_create, ibv_create_ah, (struct ibv_pd *, struct ibv_ah_attr *))      \
	X(int, ah_destroy, ibv_destroy_ah, (struct ibv_ah *))

/* of libmlx5 */
#define MLX5_DIRECT_LIST(X)                                                                        \
	X(bool, is_mlx5, mlx5dv_is_supported, (struct ibv_device *))                               \
	X(struct ibv_context *, open, mlx5dv_open_device,                                          \
	  (struct ibv_device *, struct mlx5dv_context_attr *))                                     \
	X(int, context_set, mlx5dv_set_context_attr,                                               \
	  (struct ibv_context *, enum mlx5dv_set_ctx_attr_type, void *))                           \
	X(int, init_obj, mlx5dv_init_obj, (struct mlx5dv_obj *, uint64_t))                         \
	X(struct ibv_cq_ex *, cq_create, mlx5dv_create_cq,                                         \
	  (struct ibv_context *, struct ibv_cq_init_attr_ex *, struct mlx5dv_cq_init_attr *))      \
	X(struct ibv_qp *, qp_create, mlx5dv_create_qp,                                            \
	  (struct ibv_context *, struct ibv_qp_init_attr_ex *, struct mlx5dv_qp_init_attr *))      \
	X(int, command, mlx5dv_devx_general_cmd,                                                   \
	  (struct ibv_context *, const void *, size_t, void *, size_t))                            \
	X(struct mlx5dv_devx_obj *, object_create, mlx5dv_devx_obj_create,                         \
	  (struct ibv_context *, const void *, size_t, void *, size_t))                            \
	X(int, object_modify, mlx5dv_devx_obj_modify,                                              \
	  (struct mlx5dv_devx_obj *, const void *, size_t, void *, size_t))                        \
	X(int, object_destroy, mlx5dv_devx_obj_destroy, (struct mlx5dv_devx_obj *))                \
	X(struct mlx5dv_devx_umem *, umem_add, mlx5dv_devx_umem_reg,                               \
	  (struct ibv_context *, void *, size_t, uint32_t))                                        \
	X(int, umem_remove, mlx5dv_devx_umem_dereg, (struct mlx5dv_devx_umem *))                   \
	X(struct mlx5dv_devx_uar *, uar_add, mlx5dv_devx_alloc_uar,                                \
	  (struct ibv_context *, uint32_t))                                                        \
	X(void, uar_remove, mlx5dv_devx_free_uar, (struct mlx5dv_devx_uar *))

struct mlx5_boundary {
	const struct verbs_library *verbs;
#define MLX5_BOUNDARY_MEMBER(result, member, symbol, arguments) result(*member) arguments;
	MLX5_VERBS_LIST(MLX5_BOUNDARY_MEMBER)
	MLX5_DIRECT_LIST(MLX5_BOUNDARY_MEMBER)
#undef MLX5_BOUNDARY_MEMBER
};

/*
 * Loaded once, stays for the life of the process.  NULL: `why` says what is missing and how to fix
 * it.  On any thread.
 */
const struct mlx5_boundary *mlx5_boundary(const struct ori_config *, char *why, size_t bytes);

/* For tests: from now on this is the boundary.  NULL: the system's again. */
void mlx5_boundary_set(const struct mlx5_boundary *);

#endif
