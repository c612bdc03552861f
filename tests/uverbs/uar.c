/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/uverbs/uar.c - pages of doorbell registers.
 *
 * Queue pairs share registers: all that commands make ring in one, and libmlx5 gives those of
 * libibverbs few more.  A store to a register is an event to a NIC, but here only the last value of
 * several is found.  So a changed register makes the thread read the doorbell records of all queue
 * pairs of the page.  A record that has moved reaches the software NIC as the queue pair's own
 * doorbell.  A queue pair that writes its record and rings no register stays unheard, as on
 * hardware, until another one of the page rings.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "uverbs.h"

#define FIRST_REGISTER 0x800u
#define REGISTER_BYTES 256u /* half a register: libmlx5 writes the halves in turn */
#define REGISTERS 8u

static struct uv_uar *uars;

/* ---- pages ----------------------------------------------------------------------------------- */

/* The lowest: a request for a CQ has only 16 bits for it. */
static uint32_t free_id(void)
{
	uint32_t id = 1;

	for (const struct uv_uar *uar = uars; uar;) {
		int taken = uar->id == id;

		id += (uint32_t)taken;
		uar = taken ? uars : uar->next;
	}
	return id;
}

int uv_uar_alloc(const struct uv_call *call)
{
	struct uv_uar *uar = calloc(1, sizeof(*uar));
	uint64_t offset;
	uint32_t bytes = STUB_PAGE;

	if (!uar)
		return ENOMEM;
	uar->fd = memfd_create("uar", MFD_CLOEXEC);
	if (uar->fd < 0 || ftruncate(uar->fd, STUB_PAGE))
		goto err_fd;
	uar->page = mmap(NULL, STUB_PAGE, PROT_READ, MAP_SHARED, uar->fd, 0);
	if (uar->page == MAP_FAILED)
		goto err_fd;
	uar->id = free_id();
	offset = (uint64_t)uar->id * STUB_PAGE;
	uar->next = uars;
	uars = uar;
	uv_put_handle(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE,
		      uv_add(call->file, UV_UAR, &uar->base));
	uv_put(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &offset, sizeof(offset));
	uv_put(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &bytes, sizeof(bytes));
	uv_put(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &uar->id, sizeof(uar->id));
	return 0;

err_fd:
	if (uar->fd >= 0)
		close(uar->fd);
	free(uar);
	return ENOMEM;
}

void uv_uar_drop(struct uv_uar *uar)
{
	struct uv_uar **at = &uars;

	while (*at != uar)
		at = &(*at)->next;
	*at = uar->next;
	munmap(uar->page, STUB_PAGE);
	close(uar->fd);
	free(uar);
}

int uv_uar_destroy(const struct uv_call *call)
{
	uint64_t handle = uv_get_value(call, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE);
	struct uv_uar *uar = uv_find(call->file, UV_UAR, handle);

	if (!uar)
		return ENOENT;
	if (uar->queues)
		return EBUSY;
	uv_forget(call->file, UV_UAR, &uar->base);
	uv_uar_drop(uar);
	return 0;
}

struct uv_uar *uv_uar_of_page(const struct uv_file *file, uint32_t page)
{
	struct uv_object *at = file->objects[UV_UAR];

	while (at && ((struct uv_uar *)(void *)at)->id != page)
		at = at->next;
	return (struct uv_uar *)(void *)at;
}

struct uv_qp *uv_qp_of_number(const struct stub_device *device, uint32_t qpn)
{
	for (const struct uv_uar *uar = uars; uar; uar = uar->next)
		for (struct uv_qp *qp = uar->queues; qp; qp = qp->next)
			if (qp->cq->device == device && qp->cq->qpn == qpn)
				return qp;
	return NULL;
}

void uv_each_qp(void (*what)(struct uv_qp *))
{
	for (const struct uv_uar *uar = uars; uar; uar = uar->next)
		for (struct uv_qp *qp = uar->queues; qp; qp = qp->next)
			what(qp);
}

/* ---- doorbells ------------------------------------------------------------------------------- */

static void read_records(const struct uv_uar *uar)
{
	for (struct uv_qp *qp = uar->queues; qp; qp = qp->next) {
		/* acquire: the record comes before the doorbell, and WQEs before the record */
		uint32_t index = ori_be32(__atomic_load_n(&qp->record[1], __ATOMIC_ACQUIRE));

		if ((index & 0xffff) == qp->rung)
			continue;
		qp->rung = index & 0xffff;
		__atomic_store_n(&qp->cq->doorbell, ori_doorbell_value(index, qp->cq->qpn),
				 __ATOMIC_RELEASE);
	}
}

/* A NIC ignores a doorbell of a queue pair that has another page; its owner would wait for ever. */
static void check_number(const struct uv_uar *uar, uint64_t value)
{
	uint32_t number = ori_be32((uint32_t)(value >> 32)) >> 8;
	const struct uv_qp *qp = uar->queues;

	while (qp && qp->cq->qpn != number)
		qp = qp->next;
	if (!qp)
		fprintf(stderr,
			"uverbs: page %u: doorbell of queue pair 0x%x, which is not of it\n",
			uar->id, number);
}

void uv_look(void)
{
	for (struct uv_uar *uar = uars; uar; uar = uar->next) {
		int rung = 0;

		for (uint32_t i = 0; i < REGISTERS; i++) {
			const uint64_t *at = (const uint64_t *)(const void *)(uar->page +
									      FIRST_REGISTER +
									      i * REGISTER_BYTES);
			uint64_t value = __atomic_load_n(at, __ATOMIC_ACQUIRE);

			if (value == uar->seen[i])
				continue;
			uar->seen[i] = value;
			check_number(uar, value);
			rung = 1;
		}
		if (rung)
			read_records(uar);
	}
}
