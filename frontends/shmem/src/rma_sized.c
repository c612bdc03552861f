/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma_sized.c - shmem_put32() and its relatives, and shmem_putmem(), also with a context.
 */
#include "osh.h"

#define CALL(F) "shmem_" #F
#define DEFAULT_CTX(F) (&osh.context)
#define GIVEN_CTX(F) osh_ctx_of(F, ctx)

/* F is the name of the call after "shmem_". */
#define DEFINE_MOVE(F, MOVE, BYTES, NBI, CTX, ...)                                                 \
	void shmem_##F(__VA_ARGS__ void *dest, const void *source, size_t nelems, int pe)          \
	{                                                                                          \
		MOVE(CALL(F), CTX(CALL(F)), dest, source, nelems *(BYTES), pe, NBI);               \
	}
#define DEFINE_BOTH(F, MOVE, BYTES, NBI)                                                           \
	DEFINE_MOVE(F, MOVE, BYTES, NBI, DEFAULT_CTX, )                                            \
	DEFINE_MOVE(ctx_##F, MOVE, BYTES, NBI, GIVEN_CTX, OSH_CTX_PARAMETER)
#define DEFINE_STRIDED(F, MOVE, BYTES, CTX, ...)                                                   \
	void shmem_##F(__VA_ARGS__ void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,   \
		       size_t nelems, int pe)                                                      \
	{                                                                                          \
		MOVE(CALL(F), CTX(CALL(F)), dest, source, dst, sst, nelems, BYTES, pe);            \
	}
#define DEFINE_STRIDED_BOTH(F, MOVE, BYTES)                                                        \
	DEFINE_STRIDED(F, MOVE, BYTES, DEFAULT_CTX, )                                              \
	DEFINE_STRIDED(ctx_##F, MOVE, BYTES, GIVEN_CTX, OSH_CTX_PARAMETER)
#define DEFINE_SIZE(BITS, OP)                                                                      \
	DEFINE_BOTH(put##BITS, osh_put, BITS / 8, 0)                                               \
	DEFINE_BOTH(get##BITS, osh_get, BITS / 8, 0)                                               \
	DEFINE_BOTH(put##BITS##_nbi, osh_put, BITS / 8, 1)                                         \
	DEFINE_BOTH(get##BITS##_nbi, osh_get, BITS / 8, 1)                                         \
	DEFINE_STRIDED_BOTH(iput##BITS, osh_iput, BITS / 8)                                        \
	DEFINE_STRIDED_BOTH(iget##BITS, osh_iget, BITS / 8)

OSH_RMA_SIZES(DEFINE_SIZE, )
DEFINE_BOTH(putmem, osh_put, 1, 0)
DEFINE_BOTH(getmem, osh_get, 1, 0)
DEFINE_BOTH(putmem_nbi, osh_put, 1, 1)
DEFINE_BOTH(getmem_nbi, osh_get, 1, 1)
