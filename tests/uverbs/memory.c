/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/uverbs/memory.c - protection domains, memory regions, address handles, memory of commands.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "uverbs.h"

/* ---- protection domains ---------------------------------------------------------------------- */

int uv_pd_alloc(const struct uv_call *call)
{
	static uint32_t last;
	struct uv_pd *pd = calloc(1, sizeof(*pd));
	struct ib_uverbs_alloc_pd_resp r;
	struct mlx5_ib_alloc_pd_resp vendor;

	if (!pd)
		return ENOMEM;
	pd->number = vendor.pdn = ++last & 0xffffff;
	r.pd_handle = uv_add(call->file, UV_PD, &pd->base);
	uv_put(call, UVERBS_ATTR_CORE_OUT, &r, sizeof(r));
	uv_put(call, UVERBS_ATTR_UHW_OUT, &vendor, sizeof(vendor));
	return 0;
}

static int destroy(const struct uv_call *call, enum uv_kind kind, uint16_t id)
{
	struct uv_object *object = uv_find(call->file, kind, uv_get_value(call, id));

	if (!object)
		return ENOENT;
	uv_forget(call->file, kind, object);
	free(object);
	return 0;
}

int uv_pd_destroy(const struct uv_call *call)
{
	uint64_t handle = uv_get_value(call, UVERBS_ATTR_DESTROY_PD_HANDLE);
	struct uv_pd *pd = uv_find(call->file, UV_PD, handle);

	if (pd && pd->users)
		return EBUSY;
	return destroy(call, UV_PD, UVERBS_ATTR_DESTROY_PD_HANDLE);
}

/* ---- memory regions -------------------------------------------------------------------------- */

int uv_is_mapped(uint64_t address, uint64_t bytes)
{
	uint64_t first = address & ~(uint64_t)(STUB_PAGE - 1);
	uint64_t pages = (address + bytes - first + STUB_PAGE - 1) / STUB_PAGE;
	unsigned char found[1024];

	if (address + bytes < address)
		return 0;
	for (uint64_t done = 0; done < pages; done += sizeof(found)) {
		uint64_t part = pages - done < sizeof(found) ? pages - done : sizeof(found);

		if (mincore((void *)(uintptr_t)(first + done * STUB_PAGE), part * STUB_PAGE, found))
			return 0;
	}
	return 1;
}

static uint32_t access_of(uint32_t access)
{
	return (access & IBV_ACCESS_LOCAL_WRITE ? SOFT_LOCAL_WRITE : 0) |
	       (access & IBV_ACCESS_REMOTE_WRITE ? SOFT_REMOTE_WRITE : 0) |
	       (access & IBV_ACCESS_REMOTE_READ ? SOFT_REMOTE_READ : 0) |
	       (access & IBV_ACCESS_REMOTE_ATOMIC ? SOFT_REMOTE_ATOMIC : 0);
}

int uv_mr_reg(const struct uv_call *call)
{
	struct ib_uverbs_reg_mr request;
	struct ib_uverbs_reg_mr_resp r = { 0 };
	struct soft_mr_attr attr = { 0 };
	struct uv_pd *pd;
	struct uv_mr *mr;

	uv_get(call, UVERBS_ATTR_CORE_IN, &request, sizeof(request));
	pd = uv_find(call->file, UV_PD, request.pd_handle);
	/* the kernel translates by pages, so addresses must agree within one */
	if (!pd || (request.start ^ request.hca_va) % STUB_PAGE || !request.length)
		return EINVAL;
	/* who may be written from afar may be written at home */
	if (request.access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(request.access_flags & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (!uv_is_mapped(request.start, request.length))
		return EFAULT;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return ENOMEM;
	attr.base = (void *)(uintptr_t)request.start;
	attr.iova = request.hca_va;
	attr.bytes = request.length;
	attr.access = access_of(request.access_flags);
	attr.pd = pd->number;
	mr->device = call->file->device;
	if (soft_mr_create(mr->device->nic, &attr, &mr->key)) {
		free(mr);
		return ENOMEM;
	}
	mr->pd = pd;
	pd->users++;
	r.lkey = r.rkey = mr->key;
	r.mr_handle = uv_add(call->file, UV_MR, &mr->base);
	uv_put(call, UVERBS_ATTR_CORE_OUT, &r, sizeof(r));
	return 0;
}

void uv_mr_drop(struct uv_mr *mr)
{
	soft_mr_destroy(mr->device->nic, mr->key);
	if (mr->pd)
		mr->pd->users--;
	free(mr);
}

int uv_mr_destroy(const struct uv_call *call)
{
	uint64_t handle = uv_get_value(call, UVERBS_ATTR_DESTROY_MR_HANDLE);
	struct uv_mr *mr = uv_find(call->file, UV_MR, handle);

	if (!mr)
		return ENOENT;
	uv_forget(call->file, UV_MR, &mr->base);
	uv_mr_drop(mr);
	return 0;
}

/* ---- address handles ------------------------------------------------------------------------- */

int uv_ah_create(const struct uv_call *call)
{
	struct ib_uverbs_create_ah request;
	struct ib_uverbs_create_ah_resp r;
	struct mlx5_ib_create_ah_resp vendor = { .response_length = sizeof(vendor) };
	struct uv_pd *pd;
	struct uv_ah *ah;

	uv_get(call, UVERBS_ATTR_CORE_IN, &request, sizeof(request));
	pd = uv_find(call->file, UV_PD, request.pd_handle);
	if (!pd || !request.attr.is_global)
		return EINVAL;
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return ENOMEM;
	ah->pd = pd;
	pd->users++;
	uv_mac(request.attr.grh.dgid, vendor.dmac);
	r.ah_handle = uv_add(call->file, UV_AH, &ah->base);
	uv_put(call, UVERBS_ATTR_CORE_OUT, &r, sizeof(r));
	uv_put(call, UVERBS_ATTR_UHW_OUT, &vendor, sizeof(vendor));
	return 0;
}

void uv_ah_drop(struct uv_ah *ah)
{
	ah->pd->users--;
	free(ah);
}

int uv_ah_destroy(const struct uv_call *call)
{
	uint64_t handle = uv_get_value(call, UVERBS_ATTR_DESTROY_AH_HANDLE);
	struct uv_ah *ah = uv_find(call->file, UV_AH, handle);

	if (!ah)
		return ENOENT;
	uv_forget(call->file, UV_AH, &ah->base);
	uv_ah_drop(ah);
	return 0;
}

/* ---- memory that commands name --------------------------------------------------------------- */

int uv_umem_reg(const struct uv_call *call)
{
	struct uv_umem *umem;
	uint64_t address = uv_get_value(call, MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR);
	uint64_t bytes = uv_get_value(call, MLX5_IB_ATTR_DEVX_UMEM_REG_LEN);
	uint32_t id;

	if (!bytes || !uv_is_mapped(address, bytes))
		return EFAULT;
	umem = calloc(1, sizeof(*umem));
	if (!umem)
		return ENOMEM;
	umem->address = (void *)(uintptr_t)address;
	umem->bytes = bytes;
	id = uv_add(call->file, UV_UMEM, &umem->base);
	uv_put(call, MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, &id, sizeof(id));
	uv_put_handle(call, MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, id);
	return 0;
}

int uv_umem_destroy(const struct uv_call *call)
{
	return destroy(call, UV_UMEM, MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE);
}
