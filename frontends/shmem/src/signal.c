/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * signal.c - put with signal, and waits for signals.
 *
 * The signal is an atomic on a word of the PE that gets the data.  It is made after the data is
 * there.
 */
#include "amo.h"
#include "wait.h"

/* ---- put with signal ------------------------------------------------------------------------- */

static void signal_at(const char *call, const struct osh_ctx *ctx, uint64_t *sig_addr,
		      uint64_t signal, int sig_op, int pe)
{
	if (sig_op == SHMEM_SIGNAL_SET)
		(void)osh_amo(call, ctx, sig_addr, 8, ORIEL_ATOMIC_SET, 0, signal, pe, 0);
	else
		(void)osh_amo(call, ctx, sig_addr, 8, ORIEL_ATOMIC_ADD, 0, signal, pe, 0);
}

/*
 * Mapped PEs: the atomic is a release, so the data is visible before it.  Queued PEs: the request
 * to the agent follows the data on the lane of the default context.  Another context has another
 * lane, so its data must have arrived first.
 */
static void put_signal(const char *call, const struct osh_ctx *ctx, void *dest, const void *source,
		       size_t bytes, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
		       int nbi)
{
	if (sig_op != SHMEM_SIGNAL_SET && sig_op != SHMEM_SIGNAL_ADD)
		osh_fail(call, "%d is neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD", sig_op);
	osh_put(call, ctx, dest, source, bytes, pe, nbi);
	if (ctx->group.block && osh.nqueued && !osh.peers[osh_ctx_pe(call, ctx, pe)])
		osh_check(call, oriel_flush(&osh.dev, ctx->group, osh_ctx_pe(call, ctx, pe)));
	signal_at(call, ctx, sig_addr, signal, sig_op, pe);
}

#define CALL(F) "shmem_" #F
#define DEFAULT_CTX(F) (&osh.context)
#define GIVEN_CTX(F) osh_ctx_of(F, ctx)

/* F is the call's name after "shmem_". */
#define DEFINE_PUT(F, TYPE, BYTES, CTX, NBI, ...)                                                  \
	void shmem_##F(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems,                  \
		       uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)                    \
	{                                                                                          \
		put_signal(CALL(F), CTX(CALL(F)), dest, source, osh_bytes(nelems, BYTES),          \
			   sig_addr, signal, sig_op, pe, NBI);                                     \
	}
#define DEFINE_PUTS(F, TYPE, BYTES)                                                                \
	DEFINE_PUT(F, TYPE, BYTES, DEFAULT_CTX, 0, )                                               \
	DEFINE_PUT(F##_nbi, TYPE, BYTES, DEFAULT_CTX, 1, )                                         \
	DEFINE_PUT(ctx_##F, TYPE, BYTES, GIVEN_CTX, 0, OSH_CTX_PARAMETER)                          \
	DEFINE_PUT(ctx_##F##_nbi, TYPE, BYTES, GIVEN_CTX, 1, OSH_CTX_PARAMETER)
#define DEFINE_TYPED(NAME, TYPE, OP) DEFINE_PUTS(NAME##_put_signal, TYPE, sizeof(TYPE))
#define DEFINE_SIZED(BITS, OP) DEFINE_PUTS(put##BITS##_signal, void, BITS / 8)

OSH_RMA_TYPES(DEFINE_TYPED, )
OSH_RMA_SIZES(DEFINE_SIZED, )
DEFINE_PUTS(putmem_signal, void, 1)

/* ---- the signal word at its PE --------------------------------------------------------------- */

static uint64_t word_of(const char *call, const uint64_t *sig_addr)
{
	struct oriel_words one;

	osh_words(call, &one, sig_addr, 1, NULL, ORIEL_TYPE_UINT64, SHMEM_CMP_EQ, 0, NULL);
	return one.offset;
}

uint64_t shmem_signal_fetch(const uint64_t *sig_addr)
{
	return oriel_read_word(&osh.dev, word_of("shmem_signal_fetch", sig_addr),
			       ORIEL_TYPE_UINT64);
}

/* Returns the value that ended the wait, even if the word has changed since. */
uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value)
{
	static const char call[] = "shmem_signal_wait_until";
	uint64_t offset = word_of(call, sig_addr), value;

	do {
		osh_wait(call, offset, ORIEL_TYPE_UINT64, cmp, cmp_value);
		value = oriel_read_word(&osh.dev, offset, ORIEL_TYPE_UINT64);
	} while (!ori_word_compare(ORIEL_TYPE_UINT64, value, cmp, cmp_value));
	return value;
}
