/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/uverbs/ioctl.c - a request of RDMA_VERBS_IOCTL: its attributes, and who answers it.
 *
 * The older commands, which were written to the descriptor, come as the method INVOKE_WRITE, as
 * they do on newer kernels.  What is not in the table is refused as an old kernel refuses what
 * it does not know.  UVERBS_TRACE=1 prints every request.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uverbs.h"

/* ---- attributes ------------------------------------------------------------------------------ */

static struct ib_uverbs_attr *find(const struct uv_call *call, uint16_t id)
{
	for (uint16_t i = 0; i < call->header->num_attrs; i++)
		if (call->header->attrs[i].attr_id == id)
			return &call->header->attrs[i];
	return NULL;
}

void *uv_buffer(const struct uv_call *call, uint16_t id, size_t *bytes)
{
	struct ib_uverbs_attr *a = find(call, id);

	*bytes = a ? a->len : 0;
	return a ? (void *)(uintptr_t)a->data : NULL;
}

/* Short input is in the attribute itself. */
size_t uv_get(const struct uv_call *call, uint16_t id, void *out, size_t bytes)
{
	const struct ib_uverbs_attr *a = find(call, id);
	const void *from;

	memset(out, 0, bytes);
	if (!a)
		return 0;
	from = a->len <= sizeof(a->data) ? (const void *)&a->data :
					   (const void *)(uintptr_t)a->data;
	memcpy(out, from, a->len < bytes ? a->len : bytes);
	return a->len;
}

/* Handles and constants; a handle has length 0. */
uint64_t uv_get_value(const struct uv_call *call, uint16_t id)
{
	const struct ib_uverbs_attr *a = find(call, id);

	return a ? a->data : 0;
}

void uv_put(const struct uv_call *call, uint16_t id, const void *from, size_t bytes)
{
	struct ib_uverbs_attr *a = find(call, id);

	if (!a)
		return;
	memset((void *)(uintptr_t)a->data, 0, a->len);
	memcpy((void *)(uintptr_t)a->data, from, bytes < a->len ? bytes : a->len);
	a->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
}

void uv_put_handle(const struct uv_call *call, uint16_t id, uint32_t handle)
{
	struct ib_uverbs_attr *a = find(call, id);

	if (a)
		a->data = handle;
}

/* ---- requests -------------------------------------------------------------------------------- */

#define WRITTEN 0x10000u /* in place of the method: the command of INVOKE_WRITE */

static const struct method {
	uint32_t object, method;
	int (*answer)(const struct uv_call *);
} methods[] = {
	{ UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, uv_query_port },
	{ UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, uv_query_gid },
	{ UVERBS_OBJECT_DEVICE, WRITTEN | IB_USER_VERBS_CMD_QUERY_DEVICE, uv_query_device },
	{ UVERBS_OBJECT_DEVICE,
	  WRITTEN | IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
	  uv_query_device },
	{ UVERBS_OBJECT_DEVICE, WRITTEN | IB_USER_VERBS_CMD_ALLOC_PD, uv_pd_alloc },
	{ UVERBS_OBJECT_DEVICE, WRITTEN | IB_USER_VERBS_CMD_REG_MR, uv_mr_reg },
	{ UVERBS_OBJECT_DEVICE, WRITTEN | IB_USER_VERBS_CMD_CREATE_AH, uv_ah_create },
	{ UVERBS_OBJECT_DEVICE, WRITTEN | IB_USER_VERBS_CMD_MODIFY_QP, uv_qp_modify },
	{ UVERBS_OBJECT_DEVICE, WRITTEN | IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
	  uv_channel_create },
	{ UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, uv_events_alloc },
	{ UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, uv_pd_destroy },
	{ UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, uv_mr_destroy },
	{ UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, uv_ah_destroy },
	{ UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, uv_cq_create },
	{ UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, uv_cq_destroy },
	{ UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, uv_qp_create },
	{ UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, uv_qp_destroy },
	{ MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, uv_uar_alloc },
	{ MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, uv_uar_destroy },
	{ MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, uv_devx_other },
	{ MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE, uv_devx_create },
	{ MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, uv_devx_modify },
	{ MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, uv_devx_destroy },
	{ MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG, uv_umem_reg },
	{ MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG, uv_umem_destroy },
};

static int answer(const struct uv_call *call, uint32_t object, uint32_t method)
{
	int err = EPROTONOSUPPORT;

	stub_lock();
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (methods[i].object == object && methods[i].method == method)
			err = call->file->up ? methods[i].answer(call) : EINVAL;
	stub_unlock();
	return err;
}

int uv_ioctl(struct uv_file *file, struct ib_uverbs_ioctl_hdr *header)
{
	struct uv_call call = { file, header };
	uint32_t object = header->object_id, method = header->method_id;
	int err;

	if (object == UVERBS_OBJECT_DEVICE && method == UVERBS_METHOD_INVOKE_WRITE) {
		method = WRITTEN | (uint32_t)uv_get_value(&call, UVERBS_ATTR_WRITE_CMD);
		/* libibverbs asks in this way whether the method exists */
		if (!file->up && method == (WRITTEN | IB_USER_VERBS_CMD_QUERY_DEVICE))
			return ENOSPC;
	}
	if (object == UVERBS_OBJECT_DEVICE && method == UVERBS_METHOD_GET_CONTEXT)
		err = uv_get_context(&call);
	else
		err = answer(&call, object, method);
	if (getenv("UVERBS_TRACE"))
		fprintf(stderr, "uverbs%d: object 0x%x method 0x%x: %s\n", file->number, object,
			method, err ? strerror(err) : "ok");
	return err;
}
