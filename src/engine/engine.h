/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/engine.h - what executes the work queues of queued peers.
 *
 * This build has no engine: only the listing and the refusal are here, so that a topology which
 * needs one fails with a reason instead of a crash.
 */
#ifndef ORI_ENGINE_H
#define ORI_ENGINE_H

/* For listings: n counts from 0; 0 past the end. */
struct ori_engine_row {
	const char *name;
	char text[160];
};
int ori_engine_row(int n, struct ori_engine_row *);

/*
 * Called for a pair of queued peers before anything is made for them.  `reason` is the pair's, of
 * ori_classify_pair().  ORIEL_EUNSUPPORTED with a line that names both ranks when nothing compiled
 * in can serve them.
 */
int ori_engine_require(int rank_a, int rank_b, const char *reason);

#endif
