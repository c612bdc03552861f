/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/uverbs/uverbs.h - the kernel's side of /dev/infiniband/uverbs*, in the process itself.
 *
 * Preloaded, this library lets the real libibverbs and libmlx5 run on a machine without such a NIC.
 * It answers the calls that they make to the kernel (calls.c), as the mlx5 driver would, and gives
 * the queues to the software NICs of ../mlx5_stub/nics.h.  What the engine under test calls is the
 * code that it calls on hardware: allocation of queues, doorbell pages, layouts, commands.
 *
 * Two devices exist, mlx5_0 and mlx5_1, with one RoCE port each.  Their entries of sysfs are files
 * of the build (CMakeLists.txt), which libibverbs finds by SYSFS_PATH.
 *
 * Requests and answers have the types of the kernel's own headers, rdma/<name>.h.  Handlers run
 * under stub_lock() and return 0 or an errno.
 */
#ifndef ORI_TEST_UVERBS_H
#define ORI_TEST_UVERBS_H

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../mlx5_stub/nics.h"

#define UV_GID_INDEX 3u /* of the address that is RoCE v2 and IPv4, as on most ConnectX */

enum uv_kind {
	UV_PD,
	UV_MR,
	UV_AH,
	UV_UAR,
	UV_UMEM,
	UV_CHANNEL,
	UV_CQ,
	UV_QP,
	UV_OBJECT,
	UV_KINDS
};

struct uv_object {
	uint32_t handle;
	struct uv_object *next;
};

/* An open descriptor of a device.  Closing it destroys what is left. */
struct uv_file {
	struct stub_device *device;
	pid_t process;           /* that opened it; its children cannot use it */
	int number;              /* of the device */
	int up;                  /* it has a context, and the NICs are up for it */
	int event_in, event_out; /* both ends of its events: -1, or a socket pair */
	struct uv_object *objects[UV_KINDS];
};

struct uv_pd {
	struct uv_object base; /* first, as in all below */
	uint32_t number;
	uint32_t users; /* regions, address handles, queue pairs: while there are any, it stays */
};

struct uv_ah {
	struct uv_object base;
	struct uv_pd *pd;
};

/* A key of the software NIC: of a memory region, or made by command. */
struct uv_mr {
	struct uv_object base;
	struct uv_pd *pd; /* NULL: made by command */
	struct stub_device *device;
	uint32_t key;
};

struct uv_umem {
	struct uv_object base;
	uint8_t *address;
	uint64_t bytes;
};

/* A page of doorbell registers.  The program maps it a second time, and may unmap that. */
struct uv_uar {
	struct uv_object base;
	uint32_t id; /* by which commands name the page */
	int fd;      /* its memory */
	uint8_t *page;
	uint64_t seen[8]; /* last value of each register */
	struct uv_qp *queues;
	struct uv_uar *next; /* of the process */
};

/* Completion events: both ends of a socket pair, and the program's descriptor of the second. */
struct uv_channel {
	struct uv_object base;
	int fd, in, out;
};

/* A CQ, and the software NIC's queue pair behind it, which waits for its send queue. */
struct uv_cq {
	struct uv_object base;
	struct stub_device *device;
	struct uv_channel *channel; /* or NULL */
	uint64_t user_handle;       /* by which an event names it */
	const uint32_t *record_arm; /* the program's: ring index, then what it is armed for */
	struct stub_notice notice;
	uint32_t events; /* sent */
	uint32_t qpn;    /* of the software queue pair; 0: it is gone */
	uint32_t cqn, depth;
	uint64_t doorbell; /* what the software NIC looks at: uar.c */
	uint32_t record[2];
	struct uv_qp *qp; /* that uses it, or did */
};

/* Made by libibverbs, or (then `by_command`) by a command. */
struct uv_qp {
	struct uv_object base;
	struct uv_cq *cq;
	struct uv_pd *pd; /* NULL: made by command */
	struct uv_file *file;
	struct uv_uar *uar;
	const uint32_t *record;
	uint64_t user_handle; /* by which an event names it */
	uint32_t blocks, dest;
	uint32_t rung;   /* producer index that the software NIC was told of */
	uint32_t events; /* sent */
	int state;       /* enum ib_qp_state: reset, init, rtr, rts */
	int by_command;
	struct uv_qp *next; /* of the page */
};

/* A request: its attributes are read and written by number. */
struct uv_call {
	struct uv_file *file;
	struct ib_uverbs_ioctl_hdr *header;
};

/* ioctl.c */
int uv_ioctl(struct uv_file *, struct ib_uverbs_ioctl_hdr *);
/* Up to `bytes`, the rest zeros.  Returns how many the attribute had. */
size_t uv_get(const struct uv_call *, uint16_t id, void *out, size_t bytes);
uint64_t uv_get_value(const struct uv_call *, uint16_t id);
void uv_put(const struct uv_call *, uint16_t id, const void *from, size_t bytes);
void uv_put_handle(const struct uv_call *, uint16_t id, uint32_t handle);
/* The buffer of an attribute, for a command that is read or answered in place. */
void *uv_buffer(const struct uv_call *, uint16_t id, size_t *bytes);

/* objects.c */
uint32_t uv_add(struct uv_file *, enum uv_kind, struct uv_object *);
void *uv_find(const struct uv_file *, enum uv_kind, uint64_t handle);
void uv_forget(struct uv_file *, enum uv_kind, struct uv_object *);
struct uv_file *uv_open(int number);
void uv_close(struct uv_file *);

/* device.c */
int uv_get_context(const struct uv_call *); /* without the lock */
int uv_query_device(const struct uv_call *);
int uv_query_port(const struct uv_call *);
int uv_query_gid(const struct uv_call *);
/* The address at an index of the port's table; ENODATA. */
int uv_gid(int device, uint32_t index, uint8_t gid[16]);
void uv_mac(const uint8_t gid[16], uint8_t mac[6]);

/* events.c */
int uv_events_alloc(const struct uv_call *);
void uv_event(struct uv_qp *, uint32_t type);
/* Takes back unread events of a queue pair.  Returns how many were read. */
uint32_t uv_events_end(struct uv_qp *);

/* channels.c */
int uv_channel_create(const struct uv_call *);
void uv_channel_drop(struct uv_channel *);
/* NULL: the program has no such descriptor. */
struct uv_channel *uv_channel_of(const struct uv_file *, uint64_t fd);
/* A queue pair is in error: an event follows, if its CQ is armed. */
void uv_cq_failed(struct stub_device *, uint32_t qpn);
void uv_channels_look(void);
/* Takes back unread events of a CQ.  Returns how many were read. */
uint32_t uv_cq_events_end(struct uv_cq *);

/* memory.c */
int uv_pd_alloc(const struct uv_call *);
int uv_pd_destroy(const struct uv_call *);
int uv_mr_reg(const struct uv_call *);
int uv_mr_destroy(const struct uv_call *);
int uv_ah_create(const struct uv_call *);
int uv_ah_destroy(const struct uv_call *);
int uv_umem_reg(const struct uv_call *);
int uv_umem_destroy(const struct uv_call *);
void uv_mr_drop(struct uv_mr *);
void uv_ah_drop(struct uv_ah *);
/* Is all of it mapped?  The kernel would pin it. */
int uv_is_mapped(uint64_t address, uint64_t bytes);

/* uar.c */
int uv_uar_alloc(const struct uv_call *);
int uv_uar_destroy(const struct uv_call *);
void uv_uar_drop(struct uv_uar *);
struct uv_uar *uv_uar_of_page(const struct uv_file *, uint32_t page);
struct uv_qp *uv_qp_of_number(const struct stub_device *, uint32_t qpn);
void uv_each_qp(void (*what)(struct uv_qp *)); /* of the process */
/* Looks at all registers; what was rung reaches the software NIC. */
void uv_look(void);

/* queues.c */
int uv_cq_create(const struct uv_call *);
int uv_cq_destroy(const struct uv_call *);
int uv_qp_create(const struct uv_call *);
int uv_qp_modify(const struct uv_call *);
int uv_qp_destroy(const struct uv_call *);
struct uv_send_queue {
	uint8_t *sq;
	const uint32_t *record;
	uint32_t blocks, page, pd;
	int core_direct;
};
int uv_qp_attach(struct uv_qp *, struct uv_cq *, const struct uv_send_queue *);
int uv_qp_ready(struct uv_qp *); /* to RTS */
void uv_qp_drop(struct uv_qp *);
void uv_cq_drop(struct uv_cq *);

/* devx.c */
int uv_devx_other(const struct uv_call *);
int uv_devx_create(const struct uv_call *);
int uv_devx_modify(const struct uv_call *);
int uv_devx_destroy(const struct uv_call *);
struct uv_command_object {
	struct uv_object base;
	struct uv_qp *qp; /* or */
	struct uv_mr *mr;
};
void uv_devx_drop(struct uv_command_object *);

#endif
