/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/object.h - the comm as an object: its handle, its failure word, its children (object.c). */
#ifndef ORI_COMM_OBJECT_H
#define ORI_COMM_OBJECT_H

#include "comm.h"

/*
 * First member of windows, buffers and requests: objects that belong to a comm.  A comm that ends
 * calls destroy for all its children; they free themselves without communication.  Only a failed
 * comm may end while it has children that are not `along`.
 */
struct ori_child {
	void (*destroy)(struct ori_child *);
	/*
	 * For messages about a WQE: writes which part of this child has that key and address at
	 * that rank.  Returns 0 if none has.  NULL if no WQE ever names the child.  The caller
	 * holds the comm's lock.
	 */
	int (*name)(const struct ori_child *, int rank, uint32_t nic, uint32_t key,
		    uint64_t address, char *out, size_t bytes);
	struct ori_child *next;
	/*
	 * Reads signal `id` from `rank`.  Returns 0 if this is not window `number`, or if the host
	 * cannot read it.
	 */
	int (*signal_from)(const struct ori_child *, int number, int id, int rank, uint64_t *value);
	/* Windows only: the number, and the failure word in the device's half (else NULL). */
	int number;
	const uint64_t *failure;
	int along; /* the user has no handle to it: oriel_comm_destroy() does not refuse */
};

/*
 * First member of a struct that a layer above keeps on a comm.  The thread that ends the window,
 * buffer or comm, or asks for the failures of kernels, calls these functions.  None of them
 * communicates.
 */
struct ori_attachment {
	void (*reap)(struct ori_attachment *); /* frees what is no longer needed; may be NULL */
	void (*forget)(struct ori_attachment *, const void *owner); /* a window or buffer ends */
	void (*destroy)(struct ori_attachment *);                   /* the comm ends */
	/*
	 * oriel_comm_sync() has found that `kernel` failed.  Writes the reason to `out` if this
	 * layer launched it and knows why.  What it kept about failed kernels is old afterwards,
	 * so it forgets that in any case.  May be NULL.
	 */
	void (*explain)(struct ori_attachment *, const struct oriel_kernel *kernel, int status,
			char *out, size_t bytes);
	struct ori_attachment *next;
};

/* Every public call begins with it: is the handle valid? */
int ori_comm_check(struct oriel_comm *, const char *call);
int ori_comm_check_rank(struct oriel_comm *, int rank, const char *call);

/* Keeps the first failure in a word, as ORIEL_FAILURE() makes it.  1: this was the first. */
int ori_failure_set(uint64_t *word, uint64_t failure);
/* The first failure of the comm; 0: none.  Any thread. */
uint64_t ori_comm_failure(const struct oriel_comm *);
/*
 * Has the comm failed?  Unlike ori_comm_failed() it leaves the thread's last error as it is.  Calls
 * that clean up after an error use it, so that the user still sees the cause.
 */
int ori_comm_has_failed(const struct oriel_comm *);

void ori_child_add(struct oriel_comm *, struct ori_child *);
void ori_child_remove(struct oriel_comm *, struct ori_child *);
void ori_child_unlink(struct oriel_comm *, struct ori_child *); /* lock held */
void ori_attachment_add(struct oriel_comm *, struct ori_attachment *);
/* The attachment with that destroy function, or NULL. */
struct ori_attachment *ori_attachment_find(struct oriel_comm *,
					   void (*destroy)(struct ori_attachment *));
/* Call it before you test whether a window or buffer has users. */
void ori_attachments_reap(struct oriel_comm *);
/* Call it before the window or buffer `owner` ends. */
void ori_attachments_forget(struct oriel_comm *, const void *owner);
/* Why the kernel failed, as far as a layer above knows it; else "".  kernel may be NULL. */
void ori_attachments_explain(struct oriel_comm *, const struct oriel_kernel *kernel, int status,
			     char *out, size_t bytes);

#endif
