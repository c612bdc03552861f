/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/team/direct.h - long data of the host's collectives that all ranks reach where it is. */
#ifndef ORI_COLL_DIRECT_H
#define ORI_COLL_DIRECT_H

#include "cards.h"

/*
 * Looks for the buffers of this rank in the windows of the comm, and notes their places on the card
 * that is written next.  `send` or `recv` may be NULL: no other rank needs it.  Returns 1 if both
 * were found.  Else the card says that they were not.
 */
int ori_direct_find(struct ori_cards *, const uint8_t *send, const uint8_t *recv, uint64_t bytes);
/* After the meeting: did that rank find its buffers? */
int ori_direct_is_found(const struct ori_cards *, int rank);

/* The meeting is over, and the root has found its buffer. */
int ori_direct_broadcast(struct ori_cards *, uint8_t *data, uint64_t bytes);
/* The meeting is over, and all ranks have found theirs. */
int ori_direct_allreduce(struct ori_cards *, uint64_t bytes);
/*
 * Likewise; bytes: of a block.  Only the send buffers were looked for.  recv may be the start of
 * send, or the own block in it.
 */
int ori_direct_reducescatter(struct ori_cards *, const uint8_t *send, uint8_t *recv,
			     uint64_t bytes);

#endif
