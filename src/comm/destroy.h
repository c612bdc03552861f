/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/destroy.h - the end of a comm, also of one that was never finished (destroy.c). */
#ifndef ORI_COMM_DESTROY_H
#define ORI_COMM_DESTROY_H

#include "comm.h"

/*
 * Frees everything there is of a comm; talks to nobody.  After a failure thread ranks may still
 * store to this rank's memory: then its addresses stay.
 */
void ori_comm_free(struct oriel_comm *);

#endif
