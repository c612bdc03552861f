/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/library.h - libibverbs, loaded at its first use.
 *
 * One binary runs with and without it.  The header's inline functions (post, poll) go through the
 * device's own table and need no symbol.  Other functions are called through this table.  Some
 * names of the header are macros, so the members here have other names.
 */
#ifndef ORI_VERBS_LIBRARY_H
#define ORI_VERBS_LIBRARY_H

#include <infiniband/verbs.h>
#include <stddef.h>

/* X(result, member, symbol, arguments, needed) */
#define VERBS_LIBRARY_LIST(X)                                                                      \
	X(struct ibv_device **, device_list, ibv_get_device_list, (int *), 1)                      \
	X(void, device_list_free, ibv_free_device_list, (struct ibv_device **), 1)                 \
	X(const char *, device_name, ibv_get_device_name, (struct ibv_device *), 1)                \
	X(struct ibv_context *, open, ibv_open_device, (struct ibv_device *), 1)                   \
	X(int, close, ibv_close_device, (struct ibv_context *), 1)                                 \
	X(int, query_device, ibv_query_device, (struct ibv_context *, struct ibv_device_attr *),   \
	  1)                                                                                       \
	X(int, query_port, ibv_query_port,                                                         \
	  (struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *), 1)                      \
	X(int, query_gid, ibv_query_gid, (struct ibv_context *, uint8_t, int, union ibv_gid *), 1) \
	X(int, query_gid_ex, _ibv_query_gid_ex,                                                    \
	  (struct ibv_context *, uint32_t, uint32_t, struct ibv_gid_entry *, uint32_t, size_t), 0) \
	X(struct ibv_pd *, pd_alloc, ibv_alloc_pd, (struct ibv_context *), 1)                      \
	X(int, pd_free, ibv_dealloc_pd, (struct ibv_pd *), 1)                                      \
	X(struct ibv_mr *, mr_add, ibv_reg_mr, (struct ibv_pd *, void *, size_t, int), 1)          \
	X(struct ibv_mr *, mr_add_dmabuf, ibv_reg_dmabuf_mr,                                       \
	  (struct ibv_pd *, uint64_t, size_t, uint64_t, int, int), 0)                              \
	X(int, mr_remove, ibv_dereg_mr, (struct ibv_mr *), 1)                                      \
	X(struct ibv_comp_channel *, channel_create, ibv_create_comp_channel,                      \
	  (struct ibv_context *), 1)                                                               \
	X(int, channel_destroy, ibv_destroy_comp_channel, (struct ibv_comp_channel *), 1)          \
	X(struct ibv_cq *, cq_create, ibv_create_cq,                                               \
	  (struct ibv_context *, int, void *, struct ibv_comp_channel *, int), 1)                  \
	X(int, cq_destroy, ibv_destroy_cq, (struct ibv_cq *), 1)                                   \
	X(int, cq_event, ibv_get_cq_event, (struct ibv_comp_channel *, struct ibv_cq **, void **), \
	  1)                                                                                       \
	X(void, cq_event_ack, ibv_ack_cq_events, (struct ibv_cq *, unsigned int), 1)               \
	X(struct ibv_qp *, qp_create, ibv_create_qp, (struct ibv_pd *, struct ibv_qp_init_attr *), \
	  1)                                                                                       \
	X(int, qp_modify, ibv_modify_qp, (struct ibv_qp *, struct ibv_qp_attr *, int), 1)          \
	X(int, qp_destroy, ibv_destroy_qp, (struct ibv_qp *), 1)                                   \
	X(int, event, ibv_get_async_event, (struct ibv_context *, struct ibv_async_event *), 1)    \
	X(void, event_ack, ibv_ack_async_event, (struct ibv_async_event *), 1)                     \
	X(const char *, event_text, ibv_event_type_str, (enum ibv_event_type), 1)                  \
	X(const char *, status_text, ibv_wc_status_str, (enum ibv_wc_status), 1)

struct verbs_library {
#define VERBS_LIBRARY_MEMBER(result, member, symbol, arguments, needed) result(*member) arguments;
	VERBS_LIBRARY_LIST(VERBS_LIBRARY_MEMBER)
#undef VERBS_LIBRARY_MEMBER
};

/*
 * The library of that name; stays loaded for the life of the process.  NULL: `why` says what is
 * missing.  On any thread.
 */
const struct verbs_library *verbs_library(const char *name, char *why, size_t bytes);

/* For tests: from now on this is the library of that name. */
void verbs_library_set(const char *name, const struct verbs_library *);

/* Queries the port, with all fields that the device reports. */
int verbs_query_port(const struct verbs_library *, struct ibv_context *, uint8_t port,
		     struct ibv_port_attr *);

#endif
