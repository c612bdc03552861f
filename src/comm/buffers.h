/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/buffers.h - registered buffers, for the layers above (buffers.c). */
#ifndef ORI_COMM_BUFFERS_H
#define ORI_COMM_BUFFERS_H

#include "comm.h"

/* A held buffer cannot be exchanged again, and it stays alive after the user's last release. */
void ori_buffer_hold(struct oriel_buffer *);
void ori_buffer_unhold(struct oriel_buffer *);
int ori_buffer_is_exchanged(struct oriel_buffer *);
size_t ori_buffer_range(struct oriel_buffer *, void **ptr);
struct oriel_comm *ori_buffer_comm(struct oriel_buffer *);
/* The exchanged buffer, registered last, that contains [ptr, ptr + bytes); NULL: there is none. */
struct oriel_buffer *ori_buffer_covering(struct oriel_comm *, const void *ptr, size_t bytes);

#endif
