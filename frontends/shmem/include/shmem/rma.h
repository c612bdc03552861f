/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shmem/rma.h - put and get: typed, by element size and by bytes; put with signal.
 *
 * shmem_int_put() and its relatives exist for OSH_RMA_TYPES, shmem_put32() for OSH_RMA_SIZES.  Each
 * has a form shmem_ctx_... with a context before its arguments.
 */
#ifndef SHMEM_RMA_H
#define SHMEM_RMA_H

#include "def.h"
#include "tables.h"

#ifdef __cplusplus
extern "C" {
#endif

/* P is "" or "ctx_"; __VA_ARGS__ is nothing or the context's parameter with its comma. */
#define OSH_DECLARE_RMA(P, NAME, TYPE, ...)                                                        \
	void shmem_##P##NAME##_put(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems,      \
				   int pe);                                                        \
	void shmem_##P##NAME##_get(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems,      \
				   int pe);                                                        \
	void shmem_##P##NAME##_put_nbi(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems,  \
				       int pe);                                                    \
	void shmem_##P##NAME##_get_nbi(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems,  \
				       int pe);                                                    \
	void shmem_##P##NAME##_p(__VA_ARGS__ TYPE *dest, TYPE value, int pe);                      \
	TYPE shmem_##P##NAME##_g(__VA_ARGS__ const TYPE *source, int pe);                          \
	void shmem_##P##NAME##_iput(__VA_ARGS__ TYPE *dest, const TYPE *source, ptrdiff_t dst,     \
				    ptrdiff_t sst, size_t nelems, int pe);                         \
	void shmem_##P##NAME##_iget(__VA_ARGS__ TYPE *dest, const TYPE *source, ptrdiff_t dst,     \
				    ptrdiff_t sst, size_t nelems, int pe);                         \
	void shmem_##P##NAME##_put_signal(__VA_ARGS__ TYPE *dest, const TYPE *source,              \
					  size_t nelems, uint64_t *sig_addr, uint64_t signal,      \
					  int sig_op, int pe);                                     \
	void shmem_##P##NAME##_put_signal_nbi(__VA_ARGS__ TYPE *dest, const TYPE *source,          \
					      size_t nelems, uint64_t *sig_addr, uint64_t signal,  \
					      int sig_op, int pe);
#define OSH_DECLARE_RMA_TYPED(NAME, TYPE, OP)                                                      \
	OSH_DECLARE_RMA(, NAME, TYPE, )                                                            \
	OSH_DECLARE_RMA(ctx_, NAME, TYPE, OSH_CTX_PARAMETER)

OSH_RMA_TYPES(OSH_DECLARE_RMA_TYPED, )

/* The same for elements of a size, and for bytes (BITS is "mem"). */
#define OSH_DECLARE_RMA_BLOCK(P, BITS, ...)                                                        \
	void shmem_##P##put##BITS(__VA_ARGS__ void *dest, const void *source, size_t nelems,       \
				  int pe);                                                         \
	void shmem_##P##get##BITS(__VA_ARGS__ void *dest, const void *source, size_t nelems,       \
				  int pe);                                                         \
	void shmem_##P##put##BITS##_nbi(__VA_ARGS__ void *dest, const void *source, size_t nelems, \
					int pe);                                                   \
	void shmem_##P##get##BITS##_nbi(__VA_ARGS__ void *dest, const void *source, size_t nelems, \
					int pe);                                                   \
	void shmem_##P##put##BITS##_signal(__VA_ARGS__ void *dest, const void *source,             \
					   size_t nelems, uint64_t *sig_addr, uint64_t signal,     \
					   int sig_op, int pe);                                    \
	void shmem_##P##put##BITS##_signal_nbi(__VA_ARGS__ void *dest, const void *source,         \
					       size_t nelems, uint64_t *sig_addr, uint64_t signal, \
					       int sig_op, int pe);
#define OSH_DECLARE_RMA_STRIDED(P, BITS, ...)                                                      \
	void shmem_##P##iput##BITS(__VA_ARGS__ void *dest, const void *source, ptrdiff_t dst,      \
				   ptrdiff_t sst, size_t nelems, int pe);                          \
	void shmem_##P##iget##BITS(__VA_ARGS__ void *dest, const void *source, ptrdiff_t dst,      \
				   ptrdiff_t sst, size_t nelems, int pe);
#define OSH_DECLARE_RMA_SIZED(BITS, OP)                                                            \
	OSH_DECLARE_RMA_BLOCK(, BITS, )                                                            \
	OSH_DECLARE_RMA_BLOCK(ctx_, BITS, OSH_CTX_PARAMETER)                                       \
	OSH_DECLARE_RMA_STRIDED(, BITS, )                                                          \
	OSH_DECLARE_RMA_STRIDED(ctx_, BITS, OSH_CTX_PARAMETER)

OSH_RMA_SIZES(OSH_DECLARE_RMA_SIZED, )
OSH_DECLARE_RMA_BLOCK(, mem, )
OSH_DECLARE_RMA_BLOCK(ctx_, mem, OSH_CTX_PARAMETER)

/* ---- signals --------------------------------------------------------------------------------- */

uint64_t shmem_signal_fetch(const uint64_t *sig_addr);
uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value);

#ifdef __cplusplus
}
#endif

#endif
