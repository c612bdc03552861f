/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/links.c - the engine that executes a comm's queues, and what all queues share.
 *
 * Ranks agree on an engine, and each rank opens it.  Afterwards connect.c makes queues to the peers
 * that the user asks for.  Owns the tables of links and lanes, and the wire of this rank to itself.
 *
 * Called by comm creation, and by calls that free memory, on any thread.  The engine calls the
 * functions of engine_world() on the thread that drives it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <oriel/device/queue.h>

#include "agree.h"
#include "control.h"
#include "failure.h"
#include "gone.h"
#include "imports.h"
#include "links.h"
#include "registrations.h"
#include "trace.h"

#define IDLE_LOOK_NS 20000ull
#define BLOCK_BYTES (1u << 20)

const struct oriel_link *ori_link_to(struct oriel_comm *c, int rank)
{
	return c->links && c->links->link[rank].nlanes ? &c->links->dev_link[rank] : NULL;
}

/* ---- alone ---------------------------------------------------------------------------------- */

static int read_config(struct oriel_comm *c, struct ori_links *l)
{
	const struct ori_config *config = &c->config;
	char *end;

	if (config->lanes < 1 || config->lanes > 16)
		return ori_fail(ORIEL_ECONFIG, "ORIEL_LANES=%d: 1 to 16", config->lanes);
	if (config->nics < 1 || config->nics > ORIEL_NICS_MAX)
		return ori_fail(ORIEL_ECONFIG, "ORIEL_NICS=%d: 1 to %d", config->nics,
				ORIEL_NICS_MAX);
	if (config->depth < 2 || config->depth > 32768 || (config->depth & (config->depth - 1)))
		return ori_fail(ORIEL_ECONFIG, "ORIEL_QUEUE_DEPTH=%d: a power of two, 2 to 32768",
				config->depth);
	errno = 0;
	l->start = strtoull(config->queue_start, &end, 0);
	if (errno || *end || end == config->queue_start || l->start >> 62)
		return ori_fail(ORIEL_ECONFIG, "ORIEL_QUEUE_START=%s is not a number below 2^62",
				config->queue_start);
	l->lanes = (uint32_t)config->lanes;
	l->depth = (uint32_t)config->depth;
	return 0;
}

static const void *resolve(void *ctx, int rank, uint64_t id, uint64_t offset, uint64_t bytes,
			   int *device)
{
	struct oriel_comm *c = ctx;

	if (rank < 0 || rank >= c->nranks)
		return NULL;
	/*
	 * This comes first: a driver may give new memory the same handle as freed memory that is
	 * still mapped here.
	 */
	if (!c->peers[rank].same_process)
		ori_gone_check(c, rank);
	return ori_import_resolve(c, rank, id, offset, bytes, device);
}

static int copy(void *ctx, void *to, const void *from, uint64_t bytes)
{
	struct oriel_comm *c = ctx;

	/* If a peer died and this destroyed the context, report that peer, not this copy. */
	return ori_comm_device_status(c, c->device->ops->copy(c->device, to, from, bytes));
}

static int dmabuf(void *ctx, const void *base, uint64_t bytes, uint64_t *offset)
{
	struct oriel_comm *c = ctx;

	return c->device->nics->dmabuf(c->device, base, bytes, offset);
}

static int reach(void *ctx, void *base, uint64_t bytes, int registers, char *why, size_t why_bytes)
{
	struct oriel_comm *c = ctx;

	return c->device->nics->reach(c->device, base, bytes, registers, why, why_bytes);
}

static void unreach(void *ctx, void *base)
{
	struct oriel_comm *c = ctx;

	c->device->nics->unreach(c->device, base);
}

static int ordered(void *ctx, char *why, size_t why_bytes)
{
	struct oriel_comm *c = ctx;

	return c->device->nics->ordered(c->device, why, why_bytes);
}

/* Can that rank map this rank's device memory?  It can if it has the same kind of device. */
static int reaches(void *ctx, int rank)
{
	struct oriel_comm *c = ctx;

	return rank >= 0 && rank < c->nranks && c->facts[rank].device == c->facts[c->rank].device;
}

static void kick(void *ctx, int rank)
{
	struct oriel_comm *c = ctx;
	struct ori_control *control = c->peers[rank].slab_base;

	ori_wake(&control->engine_waiters);
}

static void completed(void *ctx, uint32_t nic, uint32_t qpn, uint64_t wqe)
{
	ori_trace_completed(ctx, nic, qpn, wqe);
}

static struct ori_engine_world engine_world(struct oriel_comm *c)
{
	struct ori_engine_world world = { .ctx = c,
					  .rank = c->rank,
					  .nranks = c->nranks,
					  .waiters = &c->control->waiters,
					  .kicks = &c->control->engine_waiters,
					  .resolve = resolve,
					  .copy = c->device->separate ? copy : NULL,
					  .reaches = reaches,
					  .dmabuf = c->device->separate ? dmabuf : NULL,
					  .reach = c->device->separate ? reach : NULL,
					  .unreach = c->device->separate ? unreach : NULL,
					  .ordered = c->device->separate ? ordered : NULL,
					  .device_posts = c->device->separate,
					  .kick = kick,
					  .doomed = ori_lane_doomed,
					  .failed = ori_lane_failed,
					  .completed = c->trace ? completed : NULL };

	return world;
}

static int open_engine(struct oriel_comm *c)
{
	struct ori_engine_world world = engine_world(c);
	int err = ori_engine_open(c->engine_name, &c->config, &world, &c->engine);

	if (!err)
		ori_trace_engine(c, c->engine->nics);
	return err;
}

/* Memory for the values that gets and atomics of all queues fetch from peers. */
static int make_results(struct oriel_comm *c, struct ori_links *l)
{
	struct ori_engine_memory results = { .bytes = sizeof(struct oriel_result) *
						      ORIEL_RESULT_SLOTS };
	int err = ori_links_take(c, results.bytes, &l->results);

	if (err)
		return err;
	results.base = ori_control_host(c, l->results);
	return c->engine->ops->memory_add(c->engine, &results, l->result_key, NULL);
}

/* Makes the wires from this rank to itself, which the companion queues use. */
static int make_own_wires(struct oriel_comm *c)
{
	uint64_t wires = 0;
	int err = ori_links_take(c, ori_links_wire_bytes(c), &wires);

	for (uint32_t nic = 0; nic < c->engine->nics && c->engine->wire_bytes && !err; nic++) {
		void *wire = ori_control_host(c, wires + nic * c->engine->wire_bytes);

		c->engine->ops->wire_set(c->engine, nic, c->rank, wire, wire);
	}
	return err;
}

/* Makes the tables that kernels of a separate device read; connect.c fills them. */
static int publish(struct oriel_comm *c, struct ori_links *l)
{
	uint64_t n = (uint64_t)c->nranks;
	const void *links;
	int err = ori_control_publish(c, l->lane, n * l->lanes * sizeof(*l->lane), &l->near_lanes);

	if (!err)
		err = ori_control_publish(c, l->last_signal, n * sizeof(*l->last_signal),
					  &l->near_words);
	if (!err)
		err = ori_control_publish(c, l->link, n * sizeof(*l->link), &links);
	if (!err)
		l->dev_link = links;
	return err;
}

int ori_links_take(struct oriel_comm *c, uint64_t bytes, uint64_t *offset)
{
	int err;

	if (!bytes)
		return 0;
	pthread_mutex_lock(&c->lock);
	err = ori_slab_take(&c->slab, bytes, offset);
	pthread_mutex_unlock(&c->lock);
	return err;
}

uint64_t ori_links_wire_bytes(const struct oriel_comm *c)
{
	return ((uint64_t)c->engine->wire_bytes * c->engine->nics + 4095) & ~4095ull;
}

/*
 * Memory of the library, which the user cannot free.  Its size is whole MiB, so that a later comm
 * can use the same memory again.
 */
static int make_block(struct oriel_comm *c, uint64_t bytes, int host, struct ori_memory **out)
{
	uint64_t whole = (bytes + BLOCK_BYTES - 1) & ~(uint64_t)(BLOCK_BYTES - 1);
	int err = host && c->device->separate ? ori_memory_alloc_host(c, whole, out) :
						ori_memory_alloc(c, whole, out);

	if (err)
		return ori_fail(err, "no memory for queues (%llu bytes): %s",
				(unsigned long long)bytes, ori_last_error_text());
	(*out)->owned = (*out)->users = 1;
	return 0;
}

static void place_peer(struct ori_peer_links *p, const struct ori_memory *m, uint64_t wire_bytes,
		       uint64_t at)
{
	p->wires = (char *)m->allocation.base + at;
	p->lanes = p->wires + wire_bytes;
	p->told.id = m->id;
	p->told.offset = at;
	p->told.allocation_bytes = m->allocation.bytes;
	p->told.address = (uint64_t)(uintptr_t)p->wires;
	p->told.bytes = wire_bytes;
}

int ori_links_make_memory(struct oriel_comm *c, const uint8_t *fresh, int count)
{
	struct ori_links *l = c->links;
	uint64_t wires = ori_links_wire_bytes(c), lanes = l->lanes * l->lane_bytes;
	uint64_t each = wires + ((lanes + 4095) & ~4095ull), at = 0;
	struct ori_memory *host = NULL, *near = NULL;
	struct ori_lane_memory *mirror;
	int err = count ? make_block(c, each * (uint64_t)count, 1, &host) : 0;

	if (!err && count && c->device->separate)
		err = make_block(c, sizeof(*mirror) * l->lanes * (uint64_t)count, 0, &near);
	if (err)
		return err;
	mirror = near ? near->allocation.base : NULL;
	for (int r = 0; r < c->nranks && count; r++) {
		if (!fresh[r])
			continue;
		place_peer(&l->peers[r], host, wires, at);
		l->peers[r].near = mirror;
		mirror = mirror ? mirror + l->lanes : NULL;
		at += each;
	}
	return 0;
}

static int make_tables(struct oriel_comm *c, struct ori_links *l)
{
	uint64_t n = (uint64_t)c->nranks;

	l->link = calloc(n, sizeof(*l->link));
	l->lane = calloc(n * l->lanes, sizeof(*l->lane));
	l->sink_key = calloc(n * l->lanes, sizeof(*l->sink_key));
	l->last_signal = calloc(n, sizeof(*l->last_signal));
	l->peers = calloc(n, sizeof(*l->peers));
	l->number = calloc(n * l->lanes, sizeof(*l->number));
	l->dev_link = l->link;
	if (!l->link || !l->lane || !l->sink_key || !l->last_signal || !l->peers || !l->number)
		return ori_fail(ORIEL_ENOMEM, "no memory for queues to %d ranks", c->nranks);
	return 0;
}

int ori_links_open(struct oriel_comm *c)
{
	struct ori_links *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return ori_fail(ORIEL_ENOMEM, "no memory for queues");
	c->links = l;
	err = read_config(c, l);
	if (!err)
		err = make_tables(c, l);
	if (!err)
		err = open_engine(c);
	if (!err)
		l->lane_bytes = ori_lane_bytes(l->depth, c->engine->own_rings);
	if (!err)
		err = make_results(c, l);
	if (!err)
		err = make_own_wires(c);
	if (!err)
		err = publish(c, l);
	if (err)
		return err;
	c->dev.results = ori_control_near(c, l->results);
	memcpy(c->dev.result_key, l->result_key, sizeof(c->dev.result_key));
	return c->engine->ops->start(c->engine);
}

/* ---- together ------------------------------------------------------------------------------- */

/*
 * The NIC should be near the GPU on the PCI bus, and the device knows the GPU's PCI address.  If a
 * container hides the PCI tree, the NIC is chosen by the CPU's place, as without a GPU.
 */
static void place_near_device(struct oriel_comm *c)
{
	char address[32], folder[64];

	if (c->config.ib_near[0] || c->device->nics->place(c->device, address, sizeof(address)))
		return;
	snprintf(folder, sizeof(folder), "/sys/bus/pci/devices/%s", address);
	if (access(folder, F_OK))
		ori_log(ORI_LOG_INFO,
			"%s is not there: the RDMA device is chosen by the CPU's place", folder);
	else
		snprintf(c->config.ib_near, sizeof(c->config.ib_near), "%s", address);
}

/* The engines that a rank could use, and why it cannot use the others. */
struct offer_record {
	uint32_t mask;
	char why[256];
};

int ori_links_choose(struct oriel_comm *c)
{
	struct offer_record mine = { 0 }, *all = calloc((size_t)c->nranks, sizeof(*all));
	struct ori_engine_world world = engine_world(c);
	int one_machine = 1, status, err;
	uint32_t common = UINT32_MAX;

	for (int r = 0; r < c->nranks; r++)
		one_machine &= c->facts[r].host_id == c->facts[c->rank].host_id;
	place_near_device(c);
	status = ori_engine_offer(&c->config, &world, one_machine, &mine.mask, mine.why,
				  sizeof(mine.why));
	if (!status && !all)
		status = ori_fail(ORIEL_ENOMEM, "no memory for queues");
	err = ori_comm_agree(c, status, &mine, all, all ? sizeof(mine) : 0);
	for (int r = 0; r < c->nranks && !err; r++) {
		all[r].why[sizeof(all[r].why) - 1] = '\0';
		if (!all[r].mask)
			err = ori_fail(ORIEL_EUNSUPPORTED,
				       "rank %d has no engine to reach other machines: %s", r,
				       all[r].why);
		else if (!(common & all[r].mask))
			err = ori_fail(ORIEL_EMISMATCH,
				       "rank %d and those before it have no engine "
				       "in common: is ORIEL_ENGINE alike on all ranks?",
				       r);
		common &= all[r].mask;
	}
	free(all);
	if (!err)
		c->engine_name = ori_engine_best(common);
	return err;
}

/*
 * Operations that were posted must be complete before memory is freed.  Otherwise a late write
 * would not find its key, and would fail the queue and the comm.
 */
static int wait_idle(struct oriel_comm *c)
{
	uint64_t deadline = ori_now_ns() + c->timeout_ns;

	while (!c->engine->ops->idle(c->engine)) {
		int err = ori_comm_failed(c);

		if (err)
			return err;
		if (ori_now_ns() > deadline)
			return ori_fail(ORIEL_ETIMEDOUT, "operations on queues did not complete");
		ori_sleep_ns(IDLE_LOOK_NS);
	}
	return 0;
}

int ori_links_flush(struct oriel_comm *c)
{
	struct ori_op_context scope = ori_comm_context(&c->dev);
	struct ori_links *l = c->links;
	uint64_t n = l ? (uint64_t)c->nranks * l->lanes : 0;
	int err = 0;

	/* The indices are in device memory, but the engine knows what was posted. */
	if (l && c->device->separate)
		return wait_idle(c);
	for (uint64_t i = 0; i < n && !err; i++) {
		struct oriel_lane *lane = &l->lane[i];
		struct oriel_queue *main = ori_lane_main(lane); /* another thread may connect */

		if (!main)
			continue;
		/* as [QUEUE8]: counts what kernels and other threads have rung */
		err = ori_queue_wait(&scope, main, ori_load_acquire_sys(&main->produced));
		if (!err)
			err = ori_queue_wait(&scope, lane->companion,
					     ori_load_acquire_sys(&lane->companion->produced));
	}
	return err;
}

void ori_links_free(struct oriel_comm *c)
{
	struct ori_links *l = c->links;

	if (c->engine) {
		char text[256];

		ori_sources_drop_all(c);
		c->engine->ops->statistics(c->engine, text, sizeof(text));
		ori_log(ORI_LOG_INFO, "%s engine: %s", c->engine->ops->name, text);
		c->engine->ops->close(c->engine);
		c->engine = NULL;
	}
	if (!l)
		return;
	free(l->link);
	free(l->lane);
	free(l->sink_key);
	free(l->last_signal);
	for (int r = 0; l->peers && r < c->nranks; r++)
		ori_import_drop(c, l->peers[r].import);
	free(l->peers);
	free(l->number);
	free(l);
	c->links = NULL;
}
