/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/object.h - the comm as an object: its handle, its failure word, its children (object.c). */
#ifndef ORI_COMM_OBJECT_H
#define ORI_COMM_OBJECT_H

#include "comm.h"

/*
 * First member of windows, buffers and requests, which stand on a comm.  destroy frees without
 * talking to other ranks.  A failed comm destroys all its children, another comm those that are
 * `along`.
 */
struct ori_child {
	void (*destroy)(struct ori_child *);
	/*
	 * Writes, in a user's words, which part of the child a queue names by this key and address
	 * at that rank.  0: none.  NULL: peers' queues never name the child.  Under the comm's
	 * lock.
	 */
	int (*name)(const struct ori_child *, int rank, uint32_t nic, uint32_t key,
		    uint64_t address, char *out, size_t bytes);
	struct ori_child *next;
	/*
	 * The value of signal `id` from `rank`, if this is window `number` and the host can read
	 * it.  0: it is not.
	 */
	int (*signal_from)(const struct ori_child *, int number, int id, int rank, uint64_t *value);
	/* Of windows: their number, and their failure word in the device's half; else NULL. */
	int number;
	const uint64_t *failure;
	int along; /* the user has no handle to it, so it does not keep the comm from ending */
};

/*
 * First member of a struct that a layer above keeps on a comm.  Called on the thread that ends the
 * window, buffer or comm; none talks to other ranks.  forget and destroy are called only when all
 * ranks have come to that call.
 */
struct ori_attachment {
	void (*reap)(struct ori_attachment *); /* frees what is no longer needed; may be NULL */
	void (*forget)(struct ori_attachment *, const void *owner); /* a window or buffer goes */
	void (*destroy)(struct ori_attachment *);                   /* the comm goes */
	struct ori_attachment *next;
};

/* First line of a public call: is the handle alive? */
int ori_comm_check(struct oriel_comm *, const char *call);
int ori_comm_check_rank(struct oriel_comm *, int rank, const char *call);

/* Keeps the first failure in a word, as ORIEL_FAILURE() makes it.  1: this was the first. */
int ori_failure_set(uint64_t *word, uint64_t failure);
/* The first failure of the comm; 0: none.  Any thread. */
uint64_t ori_comm_failure(const struct oriel_comm *);
/*
 * Has the comm failed?  For calls that end things: the last error stays as it is, with the cause of
 * the call that fails.
 */
int ori_comm_has_failed(const struct oriel_comm *);

void ori_child_add(struct oriel_comm *, struct ori_child *);
void ori_child_remove(struct oriel_comm *, struct ori_child *);
void ori_child_unlink(struct oriel_comm *, struct ori_child *); /* lock held */
void ori_attachment_add(struct oriel_comm *, struct ori_attachment *);
/* The attachment with that destroy function, or NULL. */
struct ori_attachment *ori_attachment_find(struct oriel_comm *,
					   void (*destroy)(struct ori_attachment *));
/* Before the users of a window or buffer are counted. */
void ori_attachments_reap(struct oriel_comm *);
/* Before the window or buffer `owner` goes. */
void ori_attachments_forget(struct oriel_comm *, const void *owner);

#endif
