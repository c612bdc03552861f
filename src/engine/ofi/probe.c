/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/probe.c - tests a provider: every operation that the engine needs, from an endpoint to
 * itself.
 *
 * Advertised abilities are not trusted: some providers offer atomics and then answer "not
 * implemented", or never.  Opens and closes its own endpoint.  Each operation has a deadline.
 * Called by one thread at a time.
 */
#include <stdio.h>
#include <string.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "../../util/util.h"
#include "ofi.h"

#define STEP_NS 2000000000ull

/* All memory of the operations, in one registration. */
struct probe_memory {
	uint64_t word, word2; /* targets */
	uint64_t source, operand, compare, result;
	struct fi_context2 context;
};

struct probe {
	struct ofi_endpoint end;
	struct ofi_region region;
	struct probe_memory m;
	fi_addr_t self;
};

static ssize_t post(struct probe *p, int what)
{
	struct probe_memory *m = &p->m;
	uint64_t at = p->region.address, at2 = at + offsetof(struct probe_memory, word2);
	uint64_t key = p->region.key;
	void *desc = p->region.desc;
	struct fid_ep *ep = p->end.ep;

	switch (what) {
	case 0:
		return fi_write(ep, &m->source, 8, desc, p->self, at, key, &m->context);
	case 1:
		return fi_read(ep, &m->result, 8, desc, p->self, at, key, &m->context);
	case 2:
		return fi_fetch_atomic(ep, &m->operand, 1, desc, &m->result, desc, p->self, at, key,
				       FI_UINT64, FI_SUM, &m->context);
	case 3:
		return fi_compare_atomic(ep, &m->operand, 1, desc, &m->compare, desc, &m->result,
					 desc, p->self, at, key, FI_UINT64, FI_CSWAP, &m->context);
	default:
		return fi_atomic(ep, &m->operand, 1, desc, p->self, at2, key, FI_UINT64,
				 FI_ATOMIC_WRITE, &m->context);
	}
}

/* Posts and waits.  Returns 0 or a negative FI_E*. */
static int execute(struct probe *p, int what)
{
	uint64_t deadline = ori_now_ns() + STEP_NS;
	struct fi_cq_entry entry;
	struct fi_cq_err_entry error = { 0 };
	int open = 0;

	for (;;) {
		ssize_t n;

		if (!open) {
			n = post(p, what);
			if (n && n != -FI_EAGAIN)
				return (int)n;
			open = !n;
		}
		n = fi_cq_read(p->end.cq, &entry, 1);
		if (n > 0 && open)
			return 0;
		if (n == -FI_EAVAIL)
			return fi_cq_readerr(p->end.cq, &error, 0) < 0 || !error.err ? -FI_EIO :
										       -error.err;
		if (n < 0 && n != -FI_EAGAIN)
			return (int)n;
		if (ori_now_ns() > deadline)
			return -FI_ETIMEDOUT;
	}
}

static int find_self(struct probe *p)
{
	uint8_t name[ORI_FABRIC_ADDRESS_BYTES] = { 0 };
	size_t bytes = sizeof(name);
	int err = fi_getname(&p->end.ep->fid, name, &bytes);

	if (err)
		return err;
	return fi_av_insert(p->end.av, name, 1, &p->self, 0, NULL) == 1 ? 0 : -FI_EINVAL;
}

/* One operation and its expected result. */
static const char *const names[] = { "write", "read", "fetch-add", "compare-swap", "atomic write" };

static int did_right(const struct probe_memory *m, int what)
{
	switch (what) {
	case 0:
		return m->word == 40;
	case 1:
		return m->result == 40;
	case 2:
		return m->word == 42 && m->result == 40;
	case 3:
		return m->word == 7 && m->result == 42;
	default:
		return m->word2 == 7;
	}
}

static void prepare(struct probe_memory *m, int what)
{
	m->source = 40;
	m->operand = what == 2 ? 2 : 7;
	m->compare = 42;
	m->result = 0;
}

static int try_all(struct probe *p, int atomics, char *why, size_t bytes)
{
	for (int what = 0; what < (atomics ? 5 : 2); what++) {
		int err;

		prepare(&p->m, what);
		err = execute(p, what);
		if (!err && did_right(&p->m, what))
			continue;
		snprintf(why, bytes, "%s to itself: %s", names[what],
			 err ? ori_ofi_error(p->end.lib, err) : "wrong result");
		return ORIEL_EUNSUPPORTED;
	}
	return 0;
}

int ori_ofi_probe(const struct ofi_library *lib, const struct fi_info *info, int atomics, char *why,
		  size_t why_bytes)
{
	struct probe p = { .self = FI_ADDR_UNSPEC };
	const char *step;
	int status = ORIEL_EUNSUPPORTED, err = ori_ofi_endpoint_open(&p.end, lib, info, &step);

	if (err) {
		snprintf(why, why_bytes, "%s: %s", step, ori_ofi_error(lib, err));
		return status;
	}
	step = "registration";
	err = ori_ofi_region_add(&p.end, &p.m, sizeof(p.m), 1, 0, &p.region);
	if (!err) {
		step = "own address";
		err = find_self(&p);
	}
	if (err)
		snprintf(why, why_bytes, "%s: %s", step, ori_ofi_error(lib, err));
	else
		status = try_all(&p, atomics, why, why_bytes);
	ori_ofi_endpoint_stop(&p.end);
	ori_ofi_region_remove(&p.region);
	ori_ofi_endpoint_close(&p.end);
	return status;
}
