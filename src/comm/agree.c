/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/agree.c - one round in which all ranks exchange their call, status and a small record.
 *
 * Every collective call of the library consists of such rounds.  All records have the same size.
 * So a rank that is in another call is reported as such, not as a message of wrong length.
 *
 * Called by collective calls, on user threads.
 */
#include <stdlib.h>
#include <string.h>

#include "agree.h"

#define CAUSE_BYTES 224
/* Extra time for a round after the deadline, and the least time that is left after round 1. */
#define LAST_ROUND_NS ORI_NS_PER_S

struct record {
	uint32_t call;
	int32_t status;
	uint64_t bytes; /* per rank, of the whole call, which may have further rounds */
	char cause[CAUSE_BYTES];
	uint8_t payload[ORI_RECORD_BYTES];
};

const char *ori_call_name(int call)
{
	switch (call) {
	case ORI_CALL_COMM_CREATE:
		return "oriel_comm_create";
	case ORI_CALL_COMM_SPLIT:
		return "oriel_comm_split";
	case ORI_CALL_COMM_DESTROY:
		return "oriel_comm_destroy";
	case ORI_CALL_ALLGATHER:
		return "oriel_comm_allgather";
	case ORI_CALL_BARRIER:
		return "oriel_comm_barrier";
	case ORI_CALL_BUFFER_EXCHANGE:
		return "oriel_buffer_exchange";
	case ORI_CALL_WINDOW_CREATE:
		return "oriel_window_create";
	case ORI_CALL_COMM_CONNECT:
		return "oriel_comm_connect";
	case ORI_CALL_WINDOW_DESTROY:
		return "oriel_window_destroy";
	case ORI_CALL_GATHER_INIT:
		return "oriel_allgather_create";
	case ORI_CALL_TUNE_AGREE:
		return "the choice of a tuning table";
	case ORI_CALL_ALLTOALLV_CREATE:
		return "oriel_alltoallv_create";
	case ORI_CALL_GATHER:
		return "oriel_allgather";
	case ORI_CALL_FINALIZE:
		return "oriel_finalize";
	case ORI_CALL_TEAM_CREATE:
		return "oriel_team_create";
	case ORI_CALL_COMM_SUBSET:
		return "oriel_comm_subset";
	case ORI_CALL_COMM_SHRINK:
		return "oriel_comm_shrink";
	default:
		return "an unknown call";
	}
}

static int judge(struct oriel_boot *boot, const struct record *mine, const struct record *all)
{
	for (int r = 0; r < boot->nranks; r++) {
		if (!all[r].status)
			continue;
		if (mine->status == all[r].status)
			return mine->status; /* logged where it was decided */
		return ori_fail(all[r].status, "%s: rank %d failed: %.*s",
				ori_call_name((int)mine->call), r, CAUSE_BYTES, all[r].cause);
	}
	for (int r = 1; r < boot->nranks; r++) {
		if (all[r].call == all[0].call && all[r].bytes != all[0].bytes)
			return ori_fail(ORIEL_EMISMATCH,
					"%s: rank %d gives %llu bytes, rank 0 %llu",
					ori_call_name((int)mine->call), r,
					(unsigned long long)all[r].bytes,
					(unsigned long long)all[0].bytes);
		if (all[r].call != all[0].call)
			return ori_fail(ORIEL_EMISMATCH, "rank %d is in %s while rank 0 is in %s",
					r, ori_call_name((int)all[r].call),
					ori_call_name((int)all[0].call));
	}
	return 0;
}

int ori_agree_bytes(struct oriel_boot *boot, uint64_t timeout_ns, enum ori_call call, int status,
		    const void *mine, void *all, size_t bytes, uint64_t call_bytes)
{
	struct record *record = calloc(1, sizeof(*record));
	struct record *records = calloc((size_t)boot->nranks, sizeof(*records));
	int err;

	if (!record || !records) {
		/* This rank cannot take part.  Without abort the others would wait in vain. */
		err = ori_fail(ORIEL_ENOMEM, "%s: no memory", ori_call_name(call));
		boot->ops->abort(boot, err, ori_last_error_text());
		goto out;
	}
	record->call = call;
	record->status = status;
	record->bytes = call_bytes;
	if (status)
		strncpy(record->cause, ori_last_error_text(), CAUSE_BYTES - 1);
	if (bytes)
		memcpy(record->payload, mine, bytes);
	err = ori_boot_round(boot, ori_call_name(call), record, records, sizeof(*record),
			     timeout_ns);
	if (err)
		goto out;
	for (int r = 0; r < boot->nranks; r++) {
		records[r].cause[CAUSE_BYTES - 1] = '\0';
		if (records[r].status > 0)
			records[r].status = ORIEL_EPROTO;
	}
	err = judge(boot, record, records);
	for (int r = 0; !err && bytes && r < boot->nranks; r++)
		memcpy((char *)all + (size_t)r * bytes, records[r].payload, bytes);
out:
	free(record);
	free(records);
	return err;
}

int ori_agree(struct oriel_boot *boot, uint64_t timeout_ns, enum ori_call call, int status,
	      const void *mine, void *all, size_t bytes)
{
	return ori_agree_bytes(boot, timeout_ns, call, status, mine, all, bytes, 0);
}

void ori_comm_call_begin(struct oriel_comm *c, enum ori_call call)
{
	c->call = call;
	c->call_rounds = 0;
	c->call_end_ns = ori_deadline_ns(c->timeout_ns);
}

uint64_t ori_comm_call_left_ns(const struct oriel_comm *c)
{
	uint64_t now = ori_now_ns();

	return c->call_end_ns > now ? c->call_end_ns - now : 0;
}

uint64_t ori_comm_round_ns(const struct oriel_comm *c)
{
	uint64_t left = ori_comm_call_left_ns(c);

	return c->call_rounds ? left + LAST_ROUND_NS : left;
}

/*
 * All ranks have come.  Counts the deadline from the rank that came first.  If the last one came
 * just before the deadline, a minimum is left for the other rounds of the call.
 */
static void share_deadline(struct oriel_comm *c)
{
	uint64_t least = c->timeout_ns < LAST_ROUND_NS ? c->timeout_ns : LAST_ROUND_NS;
	uint64_t waited = c->boot->waited_ns, left = ori_comm_call_left_ns(c);

	if (waited >= c->timeout_ns)
		left = 0;
	else if (c->timeout_ns - waited < left)
		left = c->timeout_ns - waited;
	c->call_end_ns = ori_deadline_ns(left > least ? left : least);
}

int ori_comm_agree(struct oriel_comm *c, int status, const void *mine, void *all, size_t bytes)
{
	int err = ori_agree(c->boot, ori_comm_round_ns(c), (enum ori_call)c->call, status, mine,
			    all, bytes);

	if (!err && !c->call_rounds++)
		share_deadline(c);
	return err;
}
