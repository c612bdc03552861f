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

void soft_place_copy(void *to, const void *from, uint32_t bytes)
{
	uint64_t word = 0;

	if (bytes > 8 || !bytes || (bytes & (bytes - 1))) {
		/* source and target may overlap: thread ranks and loopback use one mapping */
		memmove(to, from, bytes);
		return;
	}
	/*
	 * [SOFT8] acquire, sys; partner [SIG1], or [SOFT7] and [SOFT9] of another NIC.  An atomic
	 * load, because an aligned word that is read over the wire is never torn.
	 */
	if (is_aligned(from, bytes))
		word = ori_load_word_acquire_sys(from, bytes);
	else
		memcpy(&word, from, bytes);
	if (is_aligned(to, bytes))
		store_word(to, bytes, word);
	else
		memcpy(to, &word, bytes);
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
