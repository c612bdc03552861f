/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/request.c - the calls on a request: exec, status, destroy, explain.
 *
 * It tests arguments and chooses the path.  run.c and show.c move data on the CPU, stream.c on
 * other devices.  Called on user threads; one exec at a time runs on a request.
 */
#include <stdio.h>

#include "../../comm/failure.h"
#include "../../comm/trace.h"
#include "gather.h"

int ori_gather_bytes(const char *call, int nranks, uint64_t count, uint64_t elem_bytes,
		     uint64_t *bytes)
{
	uint64_t all;

	if (!elem_bytes)
		return ori_fail(ORIEL_EINVAL, "%s: elements of 0 bytes", call);
	if (__builtin_mul_overflow(count, elem_bytes, bytes) ||
	    __builtin_mul_overflow(*bytes, (uint64_t)nranks, &all))
		return ori_fail(ORIEL_ERANGE, "%s: %llu elements of %llu bytes are too many", call,
				(unsigned long long)count, (unsigned long long)elem_bytes);
	return 0;
}

int ori_gather_plan(struct oriel_allgather_request *r, int algorithm, struct ori_gather_plan **out)
{
	int err = 0;

	if (!r->plans[algorithm])
		err = ori_gather_plan_make(&r->state->map, algorithm, &r->plans[algorithm]);
	*out = r->plans[algorithm];
	return err;
}

static void choose(struct oriel_allgather_request *r, uint64_t bytes, struct ori_gather_choice *c)
{
	ori_gather_choose(&r->state->map, &r->state->speed, bytes, r->options.algorithm,
			  r->options.chunk_bytes, r->state->direct, c);
}

/* Finds and tests the source of the own block: in place, or entirely outside receive memory. */
static int find_source(struct oriel_allgather_request *r, const char *call, const void *sendbuf,
		       uint64_t bytes, const void **from)
{
	const uint8_t *own = r->view.buffer + (uint64_t)r->comm->rank * bytes, *s = sendbuf;

	*from = s ? s : own;
	if (!s || s == own || s + bytes <= r->view.buffer ||
	    s >= r->view.buffer + (uint64_t)r->comm->nranks * bytes)
		return 0;
	return ori_fail(ORIEL_EINVAL,
			"%s: sendbuf lies in the receive memory, but not where block %d belongs",
			call, r->comm->rank);
}

static int run(struct oriel_allgather_request *r, const void *from, uint64_t bytes, void *stream)
{
	struct ori_gather_choice choice;
	struct ori_gather_plan *plan;
	int err;

	if (ori_gather_is_shown(r, bytes))
		return ori_gather_run_shown(r, from, bytes);
	choose(r, bytes, &choice);
	err = ori_gather_plan(r, choice.algorithm, &plan);
	if (err && !r->comm->device->separate)
		ori_gather_give_up(ori_gather_dev(r), err, r->comm->rank);
	if (err)
		return err;
	if (r->comm->device->separate)
		return ori_gather_enqueue(r, from, &choice, plan, bytes, stream);
	return ori_gather_run(r, from, &choice, plan, bytes);
}

int ori_gather_exec(struct oriel_allgather_request *r, const char *call, const void *sendbuf,
		    uint64_t count, uint64_t elem_bytes, void *stream)
{
	const void *from;
	uint64_t bytes = 0, texts, begin_ns;
	int err = ori_gather_bytes(call, r->comm->nranks, count, elem_bytes, &bytes);

	if (!err && bytes * (uint64_t)r->comm->nranks > r->view.bytes)
		err = ori_fail(ORIEL_ERANGE,
			       "%s: %llu elements of %llu bytes from each of %d ranks do not fit "
			       "the %llu bytes of the receive memory",
			       call, (unsigned long long)count, (unsigned long long)elem_bytes,
			       r->comm->nranks, (unsigned long long)r->view.bytes);
	if (!err)
		err = find_source(r, call, sendbuf, bytes, &from);
	/*
	 * The kernels of a separate device test its failure word; a copy per exec would cost more.
	 */
	if (!err)
		err = r->comm->device->separate ? ori_comm_failed(r->comm) :
						  oriel_window_status(r->words->window);
	if (err || !bytes)
		return err;
	/* [AG1] acquire, process scope; partner [AG2] of the previous exec. */
	if (__atomic_exchange_n(&r->busy, 1, __ATOMIC_ACQUIRE))
		return ori_fail(ORIEL_EBUSY, "%s: another thread runs this request", call);
	texts = ori_last_error_count();
	begin_ns = ori_trace_call_begin(r->comm);
	err = run(r, from, bytes, stream);
	ori_trace_call(r->comm, begin_ns, "all-gather", bytes, err);
	/*
	 * [AG2] release, process scope; partner [AG1], [AG3].  Publishes the state that this exec
	 * left in the request: counts, plans, scratch memory.  Without it an exec on another thread
	 * could use the old counts, and wait for words that are already used up.
	 */
	__atomic_store_n(&r->busy, 0, __ATOMIC_RELEASE);
	/* another thread may have decided the failure; then that thread has its text */
	if (err && !r->comm->device->separate && ori_last_error_count() == texts)
		(void)oriel_window_status(r->words->window);
	return err;
}

static int check_request(struct oriel_allgather_request *r, const char *call)
{
	int err = ori_live_check(r, ORI_LIVE_ALLGATHER, call);

	if (!err && !r->state)
		err = ori_fail(ORIEL_ESTALE, "%s: the request's window or comm is gone", call);
	return err;
}

int oriel_allgather_exec(struct oriel_allgather_request *r, const void *sendbuf, uint64_t count,
			 uint64_t elem_bytes, void *stream)
{
	const char *call = "oriel_allgather_exec";
	int err = check_request(r, call);

	return err ? err : ori_gather_exec(r, call, sendbuf, count, elem_bytes, stream);
}

int oriel_allgather_status(struct oriel_allgather_request *r)
{
	int err = check_request(r, "oriel_allgather_status");

	return err ? err : oriel_window_status(r->words->window);
}

int oriel_allgather_destroy(struct oriel_allgather_request *r)
{
	int err;

	if (!r)
		return 0;
	err = ori_live_check(r, ORI_LIVE_ALLGATHER, "oriel_allgather_destroy");
	if (err)
		return err;
	/*
	 * [AG3] acquire, process scope; partner [AG2].  The exec no longer writes what is freed
	 * here.
	 */
	if (__atomic_load_n(&r->busy, __ATOMIC_ACQUIRE))
		return ori_fail(ORIEL_EBUSY, "oriel_allgather_destroy: an exec is running");
	ori_live_remove(r);
	ori_gather_retire(r);
	return 0;
}

/* What moves an exec's blocks inside a node. */
static const char *mover(const struct oriel_allgather_request *r, uint64_t bytes)
{
	if (!r->comm->device->separate)
		return ori_gather_is_shown(r, bytes) ?
			       "each shows its block and copies all others" :
			       "each stores its block to all";
	return bytes <= r->kernel_bytes ? "a kernel stores each block to all" :
					  "copy engines copy each block to all, without SMs";
}

/* The policy matters, and is named, where there are copy engines. */
static const char *policy_text(const struct oriel_allgather_request *r, char *text, size_t bytes)
{
	if (!r->comm->device->separate)
		return "";
	snprintf(text, bytes, " (policy %s)", ori_gather_policy_name(r->options.policy));
	return text;
}

int oriel_allgather_explain(struct oriel_allgather_request *r, uint64_t count, uint64_t elem_bytes,
			    char *text, size_t bytes)
{
	const char *call = "oriel_allgather_explain";
	struct ori_gather_choice c;
	const struct ori_gather_speed *s;
	const struct ori_gather_map *m;
	uint64_t each = 0;
	char words[32];
	const char *policy;
	int err = check_request(r, call);

	if (!err && (!text || !bytes))
		err = ori_fail(ORIEL_EINVAL, "%s: no place for the text", call);
	if (!err)
		err = ori_gather_bytes(call, r->comm->nranks, count, elem_bytes, &each);
	if (err)
		return err;
	choose(r, each, &c);
	s = &r->state->speed;
	m = &r->state->map;
	policy = policy_text(r, words, sizeof(words));
	if (m->nnodes == 1)
		snprintf(text, bytes, "%s: one node of %d ranks, %s%s",
			 ori_gather_name(c.algorithm), m->nranks, mover(r, each), policy);
	else
		snprintf(text, bytes,
			 "%s%s: %d nodes, chunk %llu; expected us: direct %.0f, ring %.0f, doubling "
			 "%.0f (put %.1f us, %.2f GB/s; copy %.1f GB/s)%s; in a node %s%s",
			 ori_gather_name(c.algorithm), r->options.algorithm ? " (forced)" : "",
			 m->nnodes, (unsigned long long)c.chunk, c.cost_ns[1] / 1e3,
			 c.cost_ns[2] / 1e3, c.cost_ns[3] / 1e3, s->latency_ns / 1e3,
			 1 / s->net_ns_byte, 1 / s->copy_ns_byte,
			 r->state->direct ? "" : "; direct is not connected", mover(r, each),
			 policy);
	return 0;
}
