/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/library.h - the functions of libfabric that are real symbols, found by dlopen.
 *
 * All others are inline in its headers and call through the tables of its objects.
 */
#ifndef ORI_OFI_LIBRARY_H
#define ORI_OFI_LIBRARY_H

#include <rdma/fabric.h>

#define OFI_API_VERSION FI_VERSION(1, 14)

struct ofi_library {
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	void (*freeinfo)(struct fi_info *);
	struct fi_info *(*dupinfo)(const struct fi_info *);
	int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *context);
	const char *(*strerror)(int errnum);
	uint32_t (*version)(void);
};

/*
 * The one library of this process, loaded by the first call and kept.  NULL: none; *why has the
 * reason.
 */
const struct ofi_library *ori_ofi_library(const char **why);
/* Text of a negative or positive FI_E* code. */
const char *ori_ofi_error(const struct ofi_library *, long err);

#endif
