/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma_typed.c - shmem_long_put() and its relatives, for every type and with a context.
 *
 * NAME##_put without a context is the same call on the default context.
 */
#include "osh.h"

/* CTX says where the context comes from. */
#define CALL(F) "shmem_" #F

#define DEFINE_BLOCKS(P, NAME, TYPE, CTX, ...)                                                     \
	void shmem_##P##NAME##_put(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems,      \
				   int pe)                                                         \
	{                                                                                          \
		osh_put(CALL(P##NAME##_put), CTX(CALL(P##NAME##_put)), dest, source,               \
			osh_bytes(nelems, sizeof(TYPE)), pe, 0);                                   \
	}                                                                                          \
	void shmem_##P##NAME##_get(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems,      \
				   int pe)                                                         \
	{                                                                                          \
		osh_get(CALL(P##NAME##_get), CTX(CALL(P##NAME##_get)), dest, source,               \
			osh_bytes(nelems, sizeof(TYPE)), pe, 0);                                   \
	}                                                                                          \
	void shmem_##P##NAME##_put_nbi(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems,  \
				       int pe)                                                     \
	{                                                                                          \
		osh_put(CALL(P##NAME##_put_nbi), CTX(CALL(P##NAME##_put_nbi)), dest, source,       \
			osh_bytes(nelems, sizeof(TYPE)), pe, 1);                                   \
	}                                                                                          \
	void shmem_##P##NAME##_get_nbi(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems,  \
				       int pe)                                                     \
	{                                                                                          \
		osh_get(CALL(P##NAME##_get_nbi), CTX(CALL(P##NAME##_get_nbi)), dest, source,       \
			osh_bytes(nelems, sizeof(TYPE)), pe, 1);                                   \
	}

#define DEFINE_ONE(P, NAME, TYPE, CTX, ...)                                                        \
	void shmem_##P##NAME##_p(__VA_ARGS__ TYPE *dest, TYPE value, int pe)                       \
	{                                                                                          \
		osh_put(CALL(P##NAME##_p), CTX(CALL(P##NAME##_p)), dest, &value, sizeof(TYPE), pe, \
			0);                                                                        \
	}                                                                                          \
	TYPE shmem_##P##NAME##_g(__VA_ARGS__ const TYPE *source, int pe)                           \
	{                                                                                          \
		TYPE value;                                                                        \
                                                                                                   \
		osh_get(CALL(P##NAME##_g), CTX(CALL(P##NAME##_g)), &value, source, sizeof(TYPE),   \
			pe, 0);                                                                    \
		return value;                                                                      \
	}

#define DEFINE_STRIDED(P, NAME, TYPE, CTX, ...)                                                    \
	void shmem_##P##NAME##_iput(__VA_ARGS__ TYPE *dest, const TYPE *source, ptrdiff_t dst,     \
				    ptrdiff_t sst, size_t nelems, int pe)                          \
	{                                                                                          \
		osh_iput(CALL(P##NAME##_iput), CTX(CALL(P##NAME##_iput)), dest, source, dst, sst,  \
			 nelems, sizeof(TYPE), pe);                                                \
	}                                                                                          \
	void shmem_##P##NAME##_iget(__VA_ARGS__ TYPE *dest, const TYPE *source, ptrdiff_t dst,     \
				    ptrdiff_t sst, size_t nelems, int pe)                          \
	{                                                                                          \
		osh_iget(CALL(P##NAME##_iget), CTX(CALL(P##NAME##_iget)), dest, source, dst, sst,  \
			 nelems, sizeof(TYPE), pe);                                                \
	}

#define DEFAULT_CTX(F) (&osh.context)
#define GIVEN_CTX(F) osh_ctx_of(F, ctx)

#define DEFINE_ALL(NAME, TYPE, OP)                                                                 \
	DEFINE_BLOCKS(, NAME, TYPE, DEFAULT_CTX, )                                                 \
	DEFINE_BLOCKS(ctx_, NAME, TYPE, GIVEN_CTX, OSH_CTX_PARAMETER)                              \
	DEFINE_ONE(, NAME, TYPE, DEFAULT_CTX, )                                                    \
	DEFINE_ONE(ctx_, NAME, TYPE, GIVEN_CTX, OSH_CTX_PARAMETER)                                 \
	DEFINE_STRIDED(, NAME, TYPE, DEFAULT_CTX, )                                                \
	DEFINE_STRIDED(ctx_, NAME, TYPE, GIVEN_CTX, OSH_CTX_PARAMETER)

OSH_RMA_TYPES(DEFINE_ALL, )
