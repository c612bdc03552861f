/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/endpoint.c - one libfabric endpoint, from its info to its end, and registrations in
 * its domain.
 *
 * Does not know queues or ranks: the probe also opens one.  Called by one thread at a time.
 */
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "../../util/util.h"
#include "ofi.h"

/* ---- opening --------------------------------------------------------------------------------- */

/* Opens the CQ with a descriptor to sleep on, if the provider has one. */
static int open_cq(struct ofi_endpoint *e)
{
	struct fi_cq_attr attr = { .size = OFI_OPS,
				   .format = FI_CQ_FORMAT_CONTEXT,
				   .wait_obj = FI_WAIT_FD };
	int err = fi_cq_open(e->domain, &attr, &e->cq, NULL);

	if (!err && !fi_control(&e->cq->fid, FI_GETWAIT, &e->fd))
		return 0;
	if (!err)
		(void)fi_close(&e->cq->fid);
	e->cq = NULL;
	e->fd = -1;
	attr.wait_obj = FI_WAIT_NONE;
	return fi_cq_open(e->domain, &attr, &e->cq, NULL);
}

static int open_steps(struct ofi_endpoint *e, const char **step)
{
	struct fi_av_attr av = { .type = FI_AV_UNSPEC };
	int err;

	*step = "fi_fabric";
	err = e->lib->fabric(e->info->fabric_attr, &e->fabric, NULL);
	if (err)
		return err;
	*step = "fi_domain";
	err = fi_domain(e->fabric, e->info, &e->domain, NULL);
	if (err)
		return err;
	*step = "fi_cq_open";
	err = open_cq(e);
	if (err)
		return err;
	*step = "fi_av_open";
	err = fi_av_open(e->domain, &av, &e->av, NULL);
	if (err)
		return err;
	*step = "fi_endpoint";
	err = fi_endpoint(e->domain, e->info, &e->ep, NULL);
	if (err)
		return err;
	*step = "fi_ep_bind";
	err = fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!err)
		err = fi_ep_bind(e->ep, &e->av->fid, 0);
	if (err)
		return err;
	*step = "fi_enable";
	return fi_enable(e->ep);
}

int ori_ofi_endpoint_open(struct ofi_endpoint *e, const struct ofi_library *lib,
			  const struct fi_info *info, const char **step)
{
	int err;

	memset(e, 0, sizeof(*e));
	e->lib = lib;
	e->fd = -1;
	*step = "fi_dupinfo";
	e->info = lib->dupinfo(info);
	err = e->info ? open_steps(e, step) : -FI_ENOMEM;
	if (err)
		ori_ofi_endpoint_close(e);
	return err;
}

static void close_fid(struct fid *fid)
{
	if (fid && fi_close(fid))
		ori_log(ORI_LOG_WARN, "ofi: an object of libfabric does not close");
}

void ori_ofi_endpoint_stop(struct ofi_endpoint *e)
{
	close_fid(e->ep ? &e->ep->fid : NULL);
	e->ep = NULL;
}

void ori_ofi_endpoint_close(struct ofi_endpoint *e)
{
	ori_ofi_endpoint_stop(e);
	close_fid(e->av ? &e->av->fid : NULL);
	close_fid(e->cq ? &e->cq->fid : NULL);
	close_fid(e->domain ? &e->domain->fid : NULL);
	close_fid(e->fabric ? &e->fabric->fid : NULL);
	if (e->info)
		e->lib->freeinfo(e->info);
	memset(e, 0, sizeof(*e));
	e->fd = -1;
}

/* ---- registrations --------------------------------------------------------------------------- */

/* If the provider lets us choose, uses a random key: only the key protects the memory. */
static int make_key(const struct ofi_endpoint *e, uint64_t *key)
{
	size_t bytes = e->info->domain_attr->mr_key_size;

	*key = 0;
	if (e->info->domain_attr->mr_mode & FI_MR_PROV_KEY)
		return 0;
	if (ori_random_bytes(key, sizeof(*key)))
		return -FI_EIO;
	if (bytes < sizeof(*key))
		*key &= (1ull << 8 * bytes) - 1;
	return 0;
}

static int bind_to_endpoint(struct ofi_endpoint *e, struct ofi_region *r)
{
	int err;

	if (!(e->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
		return 0;
	err = fi_mr_bind(r->mr, &e->ep->fid, 0);
	return err ? err : fi_mr_enable(r->mr);
}

int ori_ofi_region_add(struct ofi_endpoint *e, void *base, uint64_t bytes, int remote, int device,
		       struct ofi_region *r)
{
	uint64_t mode = (uint64_t)e->info->domain_attr->mr_mode;
	/*
	 * Starts at the 8-byte word that contains the first byte.  If addresses count from 0, an
	 * aligned word then has an aligned address.
	 */
	uint64_t ahead = device ? 0 : (uintptr_t)base & 7;
	struct iovec iov = { (uint8_t *)base - ahead, bytes + ahead };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = FI_READ | FI_WRITE,
				   .iface = device ? FI_HMEM_CUDA : FI_HMEM_SYSTEM };
	int err = 0;

	memset(r, 0, sizeof(*r));
	/*
	 * Memory that only posts of this rank use needs no registration, unless the provider
	 * requires it.
	 */
	if (!remote && !device && !(mode & FI_MR_LOCAL))
		return 0;
	if (remote)
		attr.access |= FI_REMOTE_READ | FI_REMOTE_WRITE;
	err = make_key(e, &attr.requested_key);
	if (!err)
		err = fi_mr_regattr(e->domain, &attr, 0, &r->mr);
	if (err)
		return err;
	err = bind_to_endpoint(e, r);
	if (err) {
		ori_ofi_region_remove(r);
		return err;
	}
	r->desc = fi_mr_desc(r->mr);
	r->key = fi_mr_key(r->mr);
	r->address = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)base : ahead;
	return 0;
}

void ori_ofi_region_remove(struct ofi_region *r)
{
	if (r->mr)
		close_fid(&r->mr->fid);
	memset(r, 0, sizeof(*r));
}
