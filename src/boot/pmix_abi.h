/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/pmix_abi.h - the types and numbers of PMIx that pmix.c uses.
 *
 * So neither the headers nor the library of PMIx are needed to build.  tests/unit/boot_pmix.c
 * compares them with pmix.h where that is installed.  The layouts are those of PMIx 3 to 5.
 */
#ifndef ORI_BOOT_PMIX_ABI_H
#define ORI_BOOT_PMIX_ABI_H

#include <stddef.h>
#include <stdint.h>

#define ORI_PMIX_SUCCESS 0
#define ORI_PMIX_OPERATION_SUCCEEDED (-157) /* the call is complete and will not call back */
#define ORI_PMIX_SCOPE_GLOBAL 3
#define ORI_PMIX_RANK_WILDCARD (UINT32_MAX - 1)

#define ORI_PMIX_TYPE_BOOL 1
#define ORI_PMIX_TYPE_INT 6
#define ORI_PMIX_TYPE_UINT32 14
#define ORI_PMIX_TYPE_BYTES 27

#define ORI_PMIX_KEY_JOB_SIZE "pmix.job.size"
#define ORI_PMIX_KEY_LOCAL_SIZE "pmix.local.size"
#define ORI_PMIX_KEY_COLLECT "pmix.collect"

struct ori_pmix_proc {
	char nspace[256];
	uint32_t rank;
};

struct ori_pmix_value {
	uint16_t type;
	union {
		_Bool flag;
		int number;
		uint32_t uint32;
		struct {
			char *bytes;
			size_t size;
		} object;
		uint64_t room[3]; /* as large as the largest unused member */
	} data;
};

struct ori_pmix_info {
	char key[512];
	uint32_t flags;
	struct ori_pmix_value value;
};

typedef void ori_pmix_ended_fn(int status, void *ctx);

/* The functions, as dlsym finds them. */
struct ori_pmix_api {
	int (*init)(struct ori_pmix_proc *, struct ori_pmix_info *, size_t);
	int (*finalize)(const struct ori_pmix_info *, size_t);
	int (*put)(uint8_t scope, const char *key, struct ori_pmix_value *);
	int (*commit)(void);
	int (*fence_nb)(const struct ori_pmix_proc *, size_t, const struct ori_pmix_info *, size_t,
			ori_pmix_ended_fn *, void *ctx);
	int (*get)(const struct ori_pmix_proc *, const char *key, const struct ori_pmix_info *,
		   size_t, struct ori_pmix_value **);
	const char *(*error_string)(int status);
};

#endif
