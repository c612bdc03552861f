/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/destroy.h - frees a comm, also one whose creation failed half-way (destroy.c). */
#ifndef ORI_COMM_DESTROY_H
#define ORI_COMM_DESTROY_H

#include "comm.h"

/*
 * Frees all parts of a comm that exist, without communication.  After a failure, ranks that are
 * threads of this process may still store to this rank's memory.  Then the addresses stay mapped.
 */
void ori_comm_free(struct oriel_comm *);

#endif
