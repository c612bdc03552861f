/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/objects.c - a rank's comms, memory, windows, requests and graphs.
 *
 * Every function does one action.  Called on the rank's thread.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gpu.h"
#include "rank.h"

#define TRIES 4

int camp_do_split(struct camp_state *s, const struct camp_act *a)
{
	return camp_call(s, a,
			 oriel_comm_split(s->comms[0], a->id, (int)a->value, &s->comms[a->comm]),
			 "oriel_comm_split");
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* At its previous address, if that is still free. */
static void *map_again(void *last, size_t bytes)
{
	void *p = mmap(last, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | (last ? MAP_FIXED_NOREPLACE : 0), -1, 0);

	if (p == MAP_FAILED)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* The same on a GPU: what is made meanwhile moves it to another address, so some are tried. */
static int gpu_again(struct camp_state *s, void *last, size_t bytes, void **ptr)
{
	void *tried[TRIES];
	int n = 0, err;

	do {
		err = camp_gpu_malloc(s->comms[0], bytes, ptr);
		tried[n++] = *ptr;
	} while (!err && last && *ptr != last && n < TRIES);
	for (int i = 0; i < n - 1; i++)
		(void)camp_gpu_free(s->comms[0], tried[i]);
	return err;
}

int camp_do_memory(struct camp_state *s, const struct camp_act *a)
{
	struct camp_memory *m = &s->memories[a->memory];
	int err = 0;

	m->kind = a->how;
	m->comm = a->comm;
	m->bytes = a->bytes;
	m->ptr = NULL;
	if (a->how == CAMP_MEMORY_ALLOC)
		return camp_call(s, a, oriel_alloc(s->comms[a->comm], a->bytes, &m->ptr),
				 "oriel_alloc");
	if (s->cuda)
		err = gpu_again(s, m->last, a->bytes, &m->ptr);
	else
		m->ptr = map_again(m->last, a->bytes);
	if (err || !m->ptr)
		return camp_fail(s, CAMP_LEVEL_CALL, a->step, "no memory of %llu bytes (%d)",
				 (unsigned long long)a->bytes, err);
	return 0;
}

/*
 * The contract says: release sources before their memory is freed.  A later release is also
 * accepted.
 */
static int release(struct camp_state *s, const struct camp_act *a, struct camp_memory *m)
{
	struct oriel_window *w = m->sourced ? s->windows[m->window] : NULL;

	m->sourced = 0;
	if (!w || m->kind == CAMP_MEMORY_ALLOC || a->memory % 2)
		return 0;
	return camp_call(s, a, oriel_window_source_release(w, &s->places[m->place].source),
			 "oriel_window_source_release");
}

int camp_do_free(struct camp_state *s, const struct camp_act *a)
{
	struct camp_memory *m = &s->memories[a->memory];
	void *ptr = m->ptr;
	int err = release(s, a, m);

	if (err)
		return err;
	m->last = ptr;
	m->ptr = NULL;
	if (m->kind == CAMP_MEMORY_ALLOC)
		return camp_call(s, a, oriel_free(s->comms[m->comm], ptr), "oriel_free");
	if (!s->cuda)
		munmap(ptr, m->bytes);
	else if (camp_gpu_free(s->comms[0], ptr))
		return camp_fail(s, CAMP_LEVEL_CALL, a->step, "cuMemFree failed");
	return 0;
}

static int set_place(struct camp_state *s, const struct camp_act *a, int place, void *at)
{
	s->places[place].address = (uint64_t)(uintptr_t)at;
	return camp_call(s, a,
			 oriel_copy(s->comms[0], s->dev_places + place, &s->places[place],
				    sizeof(s->places[place])),
			 "oriel_copy");
}

int camp_do_source(struct camp_state *s, const struct camp_act *a)
{
	struct camp_memory *m = &s->memories[a->memory];
	int err = camp_call(s, a,
			    oriel_window_source(s->windows[a->window], m->ptr, a->bytes,
						&s->places[a->place].source),
			    "oriel_window_source");

	m->sourced = !err;
	m->window = a->window;
	m->place = a->place;
	return err ? err : set_place(s, a, a->place, m->ptr);
}

/* ---- windows --------------------------------------------------------------------------------- */

int camp_do_window(struct camp_state *s, const struct camp_act *a)
{
	struct oriel_window_options o = a->options;
	struct oriel_window_dev dev;
	struct oriel_window *w;
	int err;

	if (a->memory >= 0)
		o.buffer = s->memories[a->memory].ptr;
	err = camp_call(s, a, oriel_window_create(s->comms[a->comm], &o, &w),
			"oriel_window_create");
	if (err)
		return err;
	s->windows[a->window] = w;
	err = camp_call(s, a, oriel_window_device(w, &dev), "oriel_window_device");
	if (!err)
		err = camp_call(s, a,
				oriel_copy(s->comms[0], s->dev_windows + a->window, &dev,
					   sizeof(dev)),
				"oriel_copy");
	return err ? err : set_place(s, a, a->place, oriel_window_buffer(w));
}

int camp_do_window_destroy(struct camp_state *s, const struct camp_act *a)
{
	struct oriel_window *w = s->windows[a->window];
	int err = camp_call(s, a, oriel_window_status(w), "oriel_window_status");

	if (err)
		return err;
	s->windows[a->window] = NULL;
	return camp_call(s, a, oriel_window_destroy(w), "oriel_window_destroy");
}

/* Half of them are exchanged here, the others by the request. */
int camp_do_buffer(struct camp_state *s, const struct camp_act *a)
{
	struct camp_memory *m = &s->memories[a->memory];
	int err;

	if (a->kind == CAMP_ACT_BUFFER_RELEASE)
		return camp_call(s, a, oriel_buffer_release(m->buffer), "oriel_buffer_release");
	err = camp_call(s, a,
			oriel_buffer_register(s->comms[a->comm], m->ptr, a->bytes, &m->buffer),
			"oriel_buffer_register");
	if (!err && a->memory % 2)
		err = camp_call(s, a, oriel_buffer_exchange(s->comms[a->comm], m->buffer),
				"oriel_buffer_exchange");
	return err ? err : set_place(s, a, a->place, m->ptr);
}

/* ---- all-gather ------------------------------------------------------------------------------ */

static int gather_init(struct camp_state *s, const struct camp_act *a)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;

	o.algorithm = a->how;
	o.offset = a->off;
	o.bytes = a->memory < 0 ? a->bytes : 0;
	o.chunk_bytes = a->value;
	if (a->memory >= 0)
		return camp_call(s, a,
				 oriel_allgather_create_buffer(s->comms[a->comm],
							       s->memories[a->memory].buffer,
							       a->bytes /
								       (uint64_t)oriel_comm_size(
									       s->comms[a->comm]),
							       1, &o,
							       &s->requests[a->request].gather),
				 "oriel_allgather_create_buffer");
	return camp_call(s, a,
			 oriel_allgather_create(s->comms[a->comm], s->windows[a->window], &o,
						&s->requests[a->request].gather),
			 "oriel_allgather_create");
}

static int gather_destroy(struct camp_state *s, const struct camp_act *a)
{
	struct oriel_allgather_request *g = s->requests[a->request].gather;
	int err = camp_call(s, a, oriel_allgather_status(g), "oriel_allgather_status");

	s->requests[a->request].gather = NULL;
	return err ? err : camp_call(s, a, oriel_allgather_destroy(g), "oriel_allgather_destroy");
}

int camp_do_gather(struct camp_state *s, const struct camp_act *a)
{
	uint8_t *recv = (uint8_t *)(uintptr_t)s->places[a->place].address + a->off;
	uint8_t *send = (uint8_t *)(uintptr_t)s->places[a->id].address + a->src_off;
	void *stream = s->streams[a->stream];

	if (a->how)
		send = NULL;
	switch (a->kind) {
	case CAMP_ACT_GATHER_INIT:
		return gather_init(s, a);
	case CAMP_ACT_GATHER_DESTROY:
		return gather_destroy(s, a);
	case CAMP_ACT_GATHER_EXEC:
		return camp_call(s, a,
				 oriel_allgather_exec(s->requests[a->request].gather, send,
						      a->value, a->bytes, stream),
				 "oriel_allgather_exec");
	default:
		return camp_call(s, a,
				 oriel_allgather(s->comms[a->comm], send, recv, a->value, a->bytes,
						 stream),
				 "oriel_allgather");
	}
}

/* ---- broadcast and reductions ---------------------------------------------------------------- */

int camp_do_reduce(struct camp_state *s, const struct camp_act *a)
{
	uint8_t *pool = (uint8_t *)(uintptr_t)s->places[a->place].address;
	uint8_t *send = pool + a->src_off, *recv = pool + a->off;
	struct oriel_comm *comm = s->comms[a->comm];
	void *stream = s->streams[a->stream];

	switch (a->kind) {
	case CAMP_ACT_BROADCAST:
		return camp_call(s, a, oriel_broadcast(comm, recv, a->value, 1, a->peer, stream),
				 "oriel_broadcast");
	case CAMP_ACT_ALLREDUCE:
		return camp_call(s, a,
				 oriel_allreduce(comm, send, recv, a->value, a->id, a->how, stream),
				 "oriel_allreduce");
	default:
		return camp_call(s, a,
				 oriel_reducescatter(comm, send, recv, a->value, a->id, a->how,
						     stream),
				 "oriel_reducescatter");
	}
}

/* ---- all-to-all-v ---------------------------------------------------------------------------- */

/* Places: a slot each (packed: the receive buffer first), then the send buffer. */
static int a2a_create(struct camp_state *s, const struct camp_act *a)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_alltoallv_request **r = &s->requests[a->request].a2a;
	int err;

	o.elem_bytes = a->value;
	o.slot_bytes = a->how ? 0 : a->bytes;
	o.recv_bytes = a->how ? a->bytes : 0;
	err = camp_call(s, a, oriel_alltoallv_create(s->comms[a->comm], &o, r),
			"oriel_alltoallv_create");
	s->requests[a->request].place = a->place;
	for (int i = 0; i < oriel_comm_size(s->comms[a->comm]) && !err; i++)
		err = set_place(s, a, a->place + i,
				a->how ? oriel_alltoallv_recv_buffer(*r) :
					 oriel_alltoallv_slot(*r, i));
	return err ? err : set_place(s, a, a->place + CAMP_RANKS, oriel_alltoallv_send_buffer(*r));
}

static int a2a_exec(struct camp_state *s, const struct camp_act *a)
{
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	uint8_t *pool = (uint8_t *)(uintptr_t)s->places[a->place].address;

	args.send = a->src_off == UINT64_MAX ? NULL : pool + a->src_off;
	args.send_sizes = (const uint64_t *)(const void *)(pool + a->off);
	args.send_offsets = a->value == UINT64_MAX ?
				    NULL :
				    (const uint64_t *)(const void *)(pool + a->value);
	args.recv_sizes = (uint64_t *)(void *)(pool + a->recv_off);
	return camp_call(s, a,
			 oriel_alltoallv_exec(s->requests[a->request].a2a, &args,
					      s->streams[a->stream]),
			 "oriel_alltoallv_exec");
}

int camp_do_a2a(struct camp_state *s, const struct camp_act *a)
{
	struct oriel_alltoallv_request *r = s->requests[a->request].a2a;
	int err;

	if (a->kind == CAMP_ACT_A2A_CREATE)
		return a2a_create(s, a);
	if (a->kind == CAMP_ACT_A2A_EXEC)
		return a2a_exec(s, a);
	s->requests[a->request].a2a = NULL;
	err = camp_call(s, a, oriel_alltoallv_status(r), "oriel_alltoallv_status");
	return err ? err : camp_call(s, a, oriel_alltoallv_destroy(r), "oriel_alltoallv_destroy");
}

/* ---- graphs ---------------------------------------------------------------------------------- */

int camp_do_graph(struct camp_state *s, const struct camp_act *a)
{
	struct camp_request *r = &s->requests[a->request];
	void *stream = s->streams[a->stream];
	int err;

	switch (a->kind) {
	case CAMP_ACT_CAPTURE:
		err = camp_gpu_capture(s->comms[0], stream);
		break;
	case CAMP_ACT_CAPTURED:
		err = camp_gpu_captured(s->comms[0], stream, &r->graph, &r->exec);
		break;
	case CAMP_ACT_GRAPH_LAUNCH:
		err = camp_gpu_graph_launch(s->comms[0], r->exec, stream);
		break;
	default:
		err = camp_gpu_graph_destroy(s->comms[0], r->graph, r->exec);
	}
	return err ? camp_fail(s, CAMP_LEVEL_CALL, a->step, "a graph: the driver says %d", err) : 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

void camp_drop_objects(struct camp_state *s)
{
	/* after an abort kernels end soon; what they use must not go before them */
	for (int i = 0; i < CAMP_STREAMS; i++)
		if (s->streams[i]) {
			(void)oriel_comm_sync(s->comms[0], s->streams[i]);
			(void)camp_gpu_stream_destroy(s->comms[0], s->streams[i]);
		}
	for (int i = 0; i < CAMP_MEMORIES && !s->failed; i++) {
		struct camp_memory *m = &s->memories[i];

		if (!m->ptr)
			continue;
		if (m->kind == CAMP_MEMORY_ALLOC)
			(void)oriel_free(s->comms[m->comm], m->ptr);
		else if (s->cuda)
			(void)camp_gpu_free(s->comms[0], m->ptr);
		else
			munmap(m->ptr, m->bytes);
	}
}
