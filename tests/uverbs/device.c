/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/uverbs/device.c - what a device says of itself: context, attributes, port, addresses.
 *
 * The values are those of a ConnectX-7 with an Ethernet port.
 */
#include <errno.h>
#include <string.h>

#include "uverbs.h"

#define BF_REGISTER_BYTES 512u

/* ---- context --------------------------------------------------------------------------------- */

static struct mlx5_ib_alloc_ucontext_resp context_of(void)
{
	struct mlx5_ib_alloc_ucontext_resp r = { 0 };

	r.qp_tab_size = 1u << 18;
	r.bf_reg_size = BF_REGISTER_BYTES;
	r.cache_line_size = 64;
	r.max_sq_desc_sz = 1024;
	r.max_rq_desc_sz = 512;
	r.max_send_wqebb = 32768;
	r.max_recv_wr = 32768;
	r.max_srq_recv_wr = 32767;
	r.num_ports = 1;
	r.response_length = sizeof(r);
	r.cqe_version = 1;
	r.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH;
	r.eth_min_inline = MLX5_USER_INLINE_MODE_NONE;
	r.log_uar_size = 12;
	r.num_uars_per_page = 1;
	return r; /* tot_bfregs 0: the library allocates pages of doorbells as it needs them */
}

int uv_get_context(const struct uv_call *call)
{
	struct mlx5_ib_alloc_ucontext_req_v2 request;
	struct mlx5_ib_alloc_ucontext_resp r = context_of();
	uint32_t vectors = 1;
	uint64_t support = 0;
	int err;

	uv_get(call, UVERBS_ATTR_UHW_IN, &request, sizeof(request));
	if (call->file->up || !(request.lib_caps & MLX5_LIB_CAP_DYN_UAR))
		return EINVAL;
	err = stub_up();
	if (err)
		return err;
	call->file->up = 1;
	uv_put(call, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof(vectors));
	uv_put(call, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &support, sizeof(support));
	uv_put(call, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
	return 0;
}

/* ---- device and port ------------------------------------------------------------------------- */

int uv_query_device(const struct uv_call *call)
{
	struct ib_uverbs_ex_query_device_resp r = { 0 };
	struct mlx5_ib_query_device_resp vendor = { .response_length = sizeof(vendor) };

	r.base.node_guid = 0x0100000000000002ull + ((uint64_t)call->file->number << 48);
	r.base.max_mr_size = ~0ull;
	r.base.page_size_cap = ~0xfffull;
	r.base.vendor_id = 0x2c9;
	r.base.vendor_part_id = 4129;
	r.base.max_qp = 131072;
	r.base.max_qp_wr = 32768;
	r.base.max_sge = 30;
	r.base.max_cq = 1u << 24;
	r.base.max_cqe = (1u << 22) - 1;
	r.base.max_mr = 1u << 24;
	r.base.max_pd = 1u << 23;
	r.base.max_qp_rd_atom = 16;
	r.base.max_qp_init_rd_atom = 16;
	r.base.atomic_cap = 1; /* within the device */
	r.base.max_pkeys = 128;
	r.base.phys_port_cnt = 1;
	r.response_length = sizeof(r);
	uv_put(call, UVERBS_ATTR_CORE_OUT, &r, sizeof(r));
	uv_put(call, UVERBS_ATTR_UHW_OUT, &vendor, sizeof(vendor));
	return 0;
}

int uv_query_port(const struct uv_call *call)
{
	struct ib_uverbs_query_port_resp_ex r = { 0 };

	if (uv_get_value(call, UVERBS_ATTR_QUERY_PORT_PORT_NUM) != 1)
		return EINVAL;
	r.legacy_resp.max_msg_sz = 1u << 30;
	r.legacy_resp.gid_tbl_len = 255;
	r.legacy_resp.pkey_tbl_len = 1;
	r.legacy_resp.state = 4; /* active */
	r.legacy_resp.phys_state = 5;
	r.legacy_resp.max_mtu = 5; /* 4096 bytes */
	r.legacy_resp.active_mtu = 5;
	r.legacy_resp.max_vl_num = 1;
	r.legacy_resp.active_width = 2;
	r.legacy_resp.active_speed = 128;
	r.legacy_resp.link_layer = 2; /* Ethernet */
	uv_put(call, UVERBS_ATTR_QUERY_PORT_RESP, &r, sizeof(r));
	return 0;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* Link-local and IPv4, each as RoCE v1 and as RoCE v2. */
int uv_gid(int device, uint32_t index, uint8_t gid[16])
{
	static const uint8_t local[16] = { 0xfe, 0x80, [8] = 2, [11] = 0xff, [12] = 0xfe };
	static const uint8_t ipv4[16] = { [10] = 0xff, [11] = 0xff, [12] = 10 };

	if (index > UV_GID_INDEX)
		return ENODATA;
	memcpy(gid, index < 2 ? local : ipv4, 16);
	gid[15] = (uint8_t)(device + 1);
	return 0;
}

/* What the kernel's neighbour table would answer. */
void uv_mac(const uint8_t gid[16], uint8_t mac[6])
{
	static const uint8_t first[5] = { 2, 0x15, 0xb3, 0x10, 0x21 };

	memcpy(mac, first, 5);
	mac[5] = gid[15];
}

int uv_query_gid(const struct uv_call *call)
{
	uint64_t port = uv_get_value(call, UVERBS_ATTR_QUERY_GID_ENTRY_PORT);
	uint64_t index = uv_get_value(call, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
	struct ib_uverbs_gid_entry entry = { 0 };
	uint8_t gid[16];
	int err = port == 1 ? uv_gid(call->file->number, (uint32_t)index, gid) : EINVAL;

	if (err)
		return err;
	memcpy(entry.gid, gid, 16);
	entry.gid_index = (uint32_t)index;
	entry.port_num = 1;
	entry.gid_type = index % 2 ? IB_UVERBS_GID_TYPE_ROCE_V2 : IB_UVERBS_GID_TYPE_ROCE_V1;
	uv_put(call, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &entry, sizeof(entry));
	return 0;
}
