/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cards.h - how mapped PEs of a set tell each other what they call, and pass short data (cards.c).
 */
#ifndef OSH_CARDS_H
#define OSH_CARDS_H

#include "set.h"

#define OSH_CARD_INLINE 24    /* bytes of data in a card */
#define OSH_SHORT_BYTES 4096u /* bytes of data that a PE shows beside its cards, per block */

enum osh_kind { OSH_BROADCAST = 1, OSH_FCOLLECT, OSH_COLLECT, OSH_ALLTOALL, OSH_REDUCE };

/* A call of a PE, at another PE.  One cache line: `number` and short data come together. */
struct osh_card {
	uint64_t number;       /* of the call; stored last */
	uint64_t bytes;        /* of a block */
	uint64_t source, dest; /* offsets in the window of the world, or OSH_NOWHERE */
	uint8_t kind;          /* enum osh_kind */
	uint8_t type, op;      /* of a reduction */
	uint8_t pad;
	int32_t root; /* of a broadcast */
	uint8_t data[OSH_CARD_INLINE];
};
_Static_assert(sizeof(struct osh_card) == 64, "layout");

/* Memory that each PE of a set of n PEs needs for the cards of all. */
uint64_t osh_cards_bytes(int n);
/* The set's window has been made: notes where each PE has it. */
void osh_cards_open(const char *call, struct osh_set *);
void osh_cards_close(struct osh_set *);

/*
 * All PEs of the set make this call, and return when all cards are here and were compared.  A PE
 * that makes another call ends the job.  If `data` is not NULL, PE i gets terms->bytes, at most
 * OSH_SHORT_BYTES, from data + i * stride.  stride is 0 or terms->bytes.
 */
void osh_cards_exchange(const char *call, struct osh_set *, const struct osh_card *terms,
			const void *data, uint64_t stride);
/*
 * Short data of terms->root goes to `dest` of all others.  The root does not wait for them.  So a
 * PE learns of other terms only from the root's card, or when it waits for a PE that has gone on.
 */
void osh_cards_broadcast(const char *call, struct osh_set *, const struct osh_card *terms,
			 const void *source, void *dest);
/* The card of PE i in the call that was exchanged last, and the short data of PE i for this PE. */
const struct osh_card *osh_card_of(const struct osh_set *, int i);
const uint8_t *osh_card_data(const struct osh_set *, int i);

#endif
