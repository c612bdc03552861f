/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/place_copy.c - writes bytes to memory of the host or of a device.
 *
 * Called within soft_nic_step().
 */
#include <string.h>

#include <oriel/device/access_words.h>
#include <oriel/oriel.h>

#include "../../util/util.h"
#include "state.h"

static int is_aligned(const void *p, uint32_t bytes)
{
	return ((uintptr_t)p & (bytes - 1)) == 0;
}

static void store_word(void *to, uint32_t bytes, uint64_t word)
{
	/*
	 * [SOFT9] release, sys; partners [SIG2], [SIG3] and [WORD1] of the threads that wait for
	 * the word, and [SOFT8].  Publishes what this NIC placed before, for earlier messages.
	 * Without it a thread could see the word and not the data before it.  Device copies are
	 * covered, because they were complete before soft_place_move() returned.
	 */
	if (bytes == 8)
		__atomic_store_n((uint64_t *)to, word, __ATOMIC_RELEASE);
	else if (bytes == 4)
		__atomic_store_n((uint32_t *)to, (uint32_t)word, __ATOMIC_RELEASE);
	else if (bytes == 2) /* as [SOFT9] */
		__atomic_store_n((uint16_t *)to, (uint16_t)word, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint8_t *)to, (uint8_t)word, __ATOMIC_RELEASE);
}

/* Stores every aligned word once, the last one last. */
static void store_words(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	uint64_t word;
	uint32_t n;

	for (; bytes; bytes -= n, to += n, from += n) {
		for (n = 8; n > bytes || !is_aligned(to, n);)
			n /= 2;
		word = 0;
		memcpy(&word, from, n);
		store_word(to, n, word);
	}
}

#define ONCE_BYTES 64u /* of so few bytes every word is stored once */

/*
 * The last word is stored once, as a NIC does it: a program may wait for that word, and set it to 0
 * as soon as it has come.  memmove() stores some bytes twice, so its second store could bring the
 * word back.  Source and target may overlap, because thread ranks and loopback use one mapping; so
 * what is stored later is loaded first.
 */
static void copy_many(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	uint8_t data[ONCE_BYTES];
	uint32_t last = sizeof(uint64_t);

	if (bytes <= ONCE_BYTES) {
		memcpy(data, from, bytes);
		store_words(to, data, bytes);
		return;
	}
	memcpy(data, from + bytes - last, last);
	memmove(to, from, bytes - last);
	store_words(to + bytes - last, data, last);
}

void soft_place_copy(void *to, const void *from, uint32_t bytes)
{
	uint64_t word;

	/*
	 * [SOFT8] acquire, sys; partner [SIG1], or [SOFT7] and [SOFT9] of another NIC.  An atomic
	 * load, because an aligned word that is read over the wire is never torn.
	 */
	if (bytes && bytes <= sizeof(word) && !(bytes & (bytes - 1)) && is_aligned(from, bytes)) {
		word = ori_load_word_acquire_sys(from, bytes);
		store_words(to, (const uint8_t *)&word, bytes);
	} else {
		copy_many(to, from, bytes);
	}
}

/*
 * Loads the next word of at most 8 bytes, as large as alignment and `bytes` allow.  Returns its
 * size.  Acquire as [SOFT8], since the answer may be the first that arrives.  ThreadSanitizer does
 * not see that acquire either: a program that polls a word by READs, and loses packets, could be
 * reported without reason.
 */
__attribute__((noinline, no_sanitize("thread"))) static uint32_t load_again(uint64_t *word,
									    const uint8_t *from,
									    uint32_t bytes)
{
	if (bytes >= 8 && is_aligned(from, 8)) {
		*word = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
		return 8;
	}
	if (bytes >= 4 && is_aligned(from, 4)) { /* as [SOFT8] */
		*word = __atomic_load_n((const uint32_t *)(const void *)from, __ATOMIC_ACQUIRE);
		return 4;
	}
	if (bytes >= 2 && is_aligned(from, 2)) { /* as [SOFT8] */
		*word = __atomic_load_n((const uint16_t *)(const void *)from, __ATOMIC_ACQUIRE);
		return 2;
	}
	*word = __atomic_load_n(from, __ATOMIC_ACQUIRE); /* as [SOFT8] */
	return 1;
}

void soft_place_copy_again(void *to, const void *from, uint32_t bytes)
{
	const uint8_t *f = from;
	uint8_t *t = to;
	uint64_t word;
	uint32_t n;

	for (; bytes; bytes -= n) {
		n = load_again(&word, f, bytes);
		memcpy(t, &word, n);
		f += n;
		t += n;
	}
}

int soft_place_move(struct soft_nic *nic, void *to, const void *from, uint32_t bytes, int device)
{
	int err;

	if (!device) {
		soft_place_copy(to, from, bytes);
		return 0;
	}
	nic->copied++;
	nic->stats.copies++;
	err = nic->world.copy ? nic->world.copy(nic->world.ctx, to, from, bytes) :
				ORIEL_EUNSUPPORTED;
	if (err)
		ori_log(ORI_LOG_ERROR,
			"software NIC of rank %d: device copy of %u bytes from %p to %p failed: %s",
			nic->rank, bytes, from, to, oriel_status_name(err));
	return err;
}
