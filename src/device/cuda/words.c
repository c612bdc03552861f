/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/words.c - words that the stream of a lane writes: the end of its work, and copies of
 * a few words.
 *
 * To ask the driver whether a stream is idle takes 2 us each time (H200 under MPS), and the calls
 * of other threads wait meanwhile.  So behind a copy the stream writes a count into a word of pinned
 * host memory, and the waiter polls that; the driver is asked seldom, for errors.  A word or two
 * from the host need no copy engine at all: the stream writes them as it writes the count.
 *
 * A driver that cannot do this, or refuses it once, is asked as before: by ori_cuda_stream_wait().
 *
 * Called by: copy.c, by the owner of the lane, with the context current.
 */
#include <sched.h>
#include <string.h>

#include <oriel/device/port.h>

#include "../../util/util.h"
#include "cuda_device.h"

#define SPIN_NS 50000
#define LOOK_NS 200000 /* between questions to the driver: small copies are done before the first */
/* Before each word the stream has a barrier: of many words a copy engine makes less. */
#define WORDS_MAX 2

void ori_cuda_words_open(struct ori_cuda_gpu *gpu, char *words)
{
	const struct ori_cuda_stream_calls *cu = &gpu->cu->streams;
	int can = 0;

	memset(words, 0, ORI_CUDA_LANES * (size_t)ORIEL_LINE_BYTES);
	for (int i = 0; i < ORI_CUDA_LANES; i++) {
		gpu->lanes[i].word = (uint64_t *)(void *)(words + (size_t)i * ORIEL_LINE_BYTES);
		gpu->lanes[i].count = 0;
	}
	/* a driver that does not know the attribute does not have the calls */
	if (gpu->cu->cuDeviceGetAttribute(&can, ORI_CU_DEV_WORDS, gpu->dev))
		can = 0;
	gpu->words = can && cu->cuStreamWriteValue64 && cu->cuStreamBatchMemOp;
}

/* relaxed: whoever sees it late is refused, too */
static int have_words(const struct ori_cuda_gpu *gpu)
{
	return __atomic_load_n(&gpu->words, __ATOMIC_RELAXED);
}

/* What is wrong with the context, if that is it, the calls that follow will say. */
static void refused(struct ori_cuda_gpu *gpu, const char *call, int err)
{
	if (__atomic_exchange_n(&gpu->words, 0, __ATOMIC_RELAXED))
		ori_log(ORI_LOG_INFO, "GPU %d: copies end when their streams are idle: %s: %s",
			gpu->ordinal, call, ori_cuda_text(err));
}

/* ---- the end of a lane's work ---------------------------------------------------------------- */

/* Also an idle stream is the end, whatever the word says. */
int ori_cuda_words_wait(struct ori_cuda_gpu *gpu, struct ori_cuda_lane *lane, uint64_t timeout_ns,
			const char *what)
{
	uint64_t look_ns = timeout_ns < LOOK_NS ? timeout_ns : LOOK_NS;
	uint64_t start = ori_now_ns(), age;
	int err;

	for (;;) {
		/*
		 * [Q1] acquire; partner [Q2], the stream's write of the count: it comes after the
		 * lane's work and has a barrier of system scope before it, so what was copied is
		 * there for this thread, and for kernels that it tells.
		 */
		if (__atomic_load_n(lane->word, __ATOMIC_ACQUIRE) == lane->count)
			return 0;
		age = ori_now_ns() - start;
		if (age <= look_ns) {
			if (age > SPIN_NS)
				sched_yield();
			else
				ori_pause();
			continue;
		}
		err = gpu->cu->cuStreamQuery(lane->stream);
		if (!err)
			return 0;
		if (err != ORI_CU_NOT_READY)
			return ori_cuda_fail(err, "cuStreamQuery", "%s", what);
		if (age > timeout_ns)
			return ori_fail(ORIEL_ETIMEDOUT, "%s: not done after %.1f s", what,
					(double)age / 1e9);
		look_ns = timeout_ns - age < LOOK_NS ? timeout_ns : age + LOOK_NS;
	}
}

int ori_cuda_words_end(struct ori_cuda_gpu *gpu, struct ori_cuda_lane *lane, uint64_t timeout_ns,
		       const char *what)
{
	int err;

	if (have_words(gpu)) {
		/*
		 * A count is used once, whatever the driver says of the write.  A lane that was lost
		 * is used again when its stream is idle, so no older count comes after this one.
		 */
		lane->count++;
		/* [Q2] release, by default and at system scope; partner [Q1]. */
		err = gpu->cu->streams.cuStreamWriteValue64(lane->stream,
							    (ori_cu_ptr)(uintptr_t)lane->word,
							    lane->count, 0);
		if (!err)
			return ori_cuda_words_wait(gpu, lane, timeout_ns, what);
		refused(gpu, "cuStreamWriteValue64", err);
	}
	return ori_cuda_stream_wait(gpu->cu, lane->stream, timeout_ns, what);
}

/* ---- copies of words ------------------------------------------------------------------------- */

/*
 * Memory that this library mapped for this GPU: a stream's write to any other address might be a
 * fault, where a copy is refused.
 */
static int is_for_words(const struct ori_cuda_gpu *gpu, const void *to, size_t bytes)
{
	return bytes <= WORDS_MAX * sizeof(uint64_t) && bytes % sizeof(uint64_t) == 0 &&
	       (uintptr_t)to % sizeof(uint64_t) == 0 && have_words(gpu) &&
	       ori_cuda_range_is_mapped(to, bytes, gpu);
}

/* In one piece if it can be: others may write it meanwhile. */
static uint64_t read_word(const char *from)
{
	uint64_t word;

	if ((uintptr_t)from % sizeof(word) == 0) /* [F1] acquire, as for any word that is copied */
		return __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
	memcpy(&word, from, sizeof(word));
	return word;
}

static struct ori_cu_write_value write_of(const void *to, uint64_t value)
{
	struct ori_cu_write_value w = { .operation = ORI_CU_WRITE_VALUE_64,
					.address = (ori_cu_ptr)(uintptr_t)to,
					.value = value };

	return w;
}

int ori_cuda_words_copy(struct ori_cuda_gpu *gpu, struct ori_cuda_lane *lane, char *to,
			const char *from, size_t bytes)
{
	struct ori_cu_write_value writes[WORDS_MAX + 1];
	unsigned int n = 0;
	int err;

	if (!is_for_words(gpu, to, bytes))
		return 0;
	for (size_t at = 0; at < bytes; at += sizeof(uint64_t))
		writes[n++] = write_of(to + at, read_word(from + at));
	lane->count++;
	writes[n++] = write_of(lane->word, lane->count); /* [Q2] as above, partner [Q1] */
	err = gpu->cu->streams.cuStreamBatchMemOp(lane->stream, n, writes, 0);
	if (err)
		refused(gpu, "cuStreamBatchMemOp", err);
	return !err;
}
