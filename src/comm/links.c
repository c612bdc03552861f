/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/links.c - makes the queues to all queued peers of a comm, and the engine that executes them.
 *
 * Two rounds: everybody lays out wires and queues in its slab and makes queue pairs, then tells where its
 * wires are and what its queues are called; everybody connects, then all start together.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/device/queue.h>

#include "links.h"

#define IDLE_LOOK_NS 20000ull

/* What ranks must agree on, and where a rank's wires are. */
struct link_record {
	uint32_t lanes, nics, flags, reserved;
	uint64_t wires;
	struct ori_engine_address address;
};

const struct oriel_link *ori_link(struct oriel_comm *c, int rank)
{
	return c->links && c->links->link[rank].nlanes ? &c->links->dev_link[rank] : NULL;
}

static int is_queued(struct oriel_comm *c, int rank)
{
	return c->peers[rank].pair.kind == ORIEL_PEER_QUEUED;
}

/* ---- alone ----------------------------------------------------------------------------------------------- */

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
	return ori_import_resolve(c, rank, id, offset, bytes, device);
}

static int copy(void *ctx, void *to, const void *from, uint64_t bytes)
{
	struct oriel_comm *c = ctx;

	return c->device->ops->copy(c->device, to, from, bytes);
}

/* Ranks with a GPU map this one's device memory; a CPU rank cannot. */
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

static int open_engine(struct oriel_comm *c)
{
	struct ori_engine_world world = { .ctx = c,
					  .rank = c->rank,
					  .nranks = c->nranks,
					  .waiters = &c->control->waiters,
					  .kicks = &c->control->engine_waiters,
					  .resolve = resolve,
					  .copy = c->device->separate ? copy : NULL,
					  .reaches = reaches,
					  .device_posts = c->device->separate,
					  .kick = kick,
					  .doomed = ori_lane_doomed,
					  .failed = ori_lane_failed };

	return ori_engine_open(c->engine_name, &c->config, &world, &c->engine);
}

/* Wires, result slots and lanes, one after the other in the slab. */
static int take_memory(struct oriel_comm *c, struct ori_links *l)
{
	uint64_t n = (uint64_t)c->nranks, wires, results;
	int err;

	wires = c->engine->wire_bytes * n * c->engine->nics;
	wires = (wires + 4095) & ~4095ull;
	results = sizeof(struct oriel_result) * ORIEL_RESULT_SLOTS;
	l->lane_bytes = sizeof(struct ori_lane_memory) + 4ull * l->depth * ORI_WQE_BYTES;
	l->bytes = wires + results + n * l->lanes * l->lane_bytes;
	pthread_mutex_lock(&c->lock);
	err = ori_slab_take(&c->slab, l->bytes, &l->offset);
	pthread_mutex_unlock(&c->lock);
	l->wires = l->offset;
	l->results = l->wires + wires;
	l->lane_memory = l->results + results;
	return err;
}

static void *slab_at(void *base, uint64_t offset)
{
	return (char *)base + offset;
}

/* The wire from rank `from`, by NIC `nic`, in a slab whose wires start at `wires`. */
static uint64_t wire_offset(struct oriel_comm *c, uint64_t wires, uint32_t nic, int from)
{
	return wires +
	       ((uint64_t)nic * (uint64_t)c->nranks + (uint64_t)from) * c->engine->wire_bytes;
}

static int make_queues(struct oriel_comm *c, struct ori_links *l)
{
	void *slab = ori_control_host(c, 0);
	struct ori_engine_memory results = { .base = slab_at(slab, l->results),
					     .bytes = sizeof(struct oriel_result) *
						      ORIEL_RESULT_SLOTS };
	int err = c->engine->ops->memory_add(c->engine, &results, l->result_key, NULL);

	for (int r = 0; r < c->nranks && !err; r++) {
		struct oriel_link *link = &l->link[r];

		for (uint32_t nic = 0; nic < c->engine->nics && c->engine->wire_bytes &&
				       (is_queued(c, r) || r == c->rank);
		     nic++)
			c->engine->ops->wire_prepare(c->engine,
						     slab_at(slab,
							     wire_offset(c, l->wires, nic, r)));
		if (!is_queued(c, r))
			continue;
		for (uint32_t n = 0; n < l->lanes && !err; n++)
			err = ori_lane_make(c, l, r, n);
		link->lanes = &l->lane[(uint64_t)r * l->lanes];
		link->nlanes = l->lanes;
		link->flags = c->engine->link_flags;
		link->message_bytes = c->engine->message_bytes;
		link->last_signal = &l->last_signal[r];
		l->last_signal[r] = l->start;
	}
	return err;
}

static int prepare(struct oriel_comm *c)
{
	uint64_t n = (uint64_t)c->nranks;
	struct ori_links *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return ori_fail(ORIEL_ENOMEM, "no memory for queues");
	c->links = l;
	err = read_config(c, l);
	if (err)
		return err;
	l->link = calloc(n, sizeof(*l->link));
	l->lane = calloc(n * l->lanes, sizeof(*l->lane));
	l->sink_key = calloc(n * l->lanes, sizeof(*l->sink_key));
	l->last_signal = calloc(n, sizeof(*l->last_signal));
	l->dev_link = l->link;
	if (!l->link || !l->lane || !l->sink_key || !l->last_signal)
		return ori_fail(ORIEL_ENOMEM, "no memory for queues to %d ranks", c->nranks);
	err = open_engine(c);
	if (!err)
		err = take_memory(c, l);
	if (!err)
		err = make_queues(c, l);
	return err;
}

/* ---- together ---------------------------------------------------------------------------------------------- */

static int compare(struct oriel_comm *c, const struct link_record *all)
{
	for (int r = 1; r < c->nranks; r++)
		if (all[r].lanes != all[0].lanes || all[r].nics != all[0].nics ||
		    all[r].flags != all[0].flags)
			return ori_fail(ORIEL_EMISMATCH,
					"rank %d and rank 0 differ in ORIEL_LANES, ORIEL_NICS or the "
					"engine's abilities",
					r);
	return 0;
}

/* To queued peers, and to this rank itself for the companions. */
static int set_wires(struct oriel_comm *c, const struct link_record *all)
{
	struct ori_links *l = c->links;
	void *slab = ori_control_host(c, 0);
	uint64_t wire = c->engine->wire_bytes;

	for (int r = 0; r < c->nranks && wire; r++) {
		if (!is_queued(c, r) && r != c->rank)
			continue;
		if (all[r].wires % 4096 || all[r].wires > c->peers[r].slab_bytes ||
		    wire * (uint64_t)c->nranks * c->engine->nics >
			    c->peers[r].slab_bytes - all[r].wires)
			return ori_fail(ORIEL_EPROTO, "rank %d names wires outside its slab", r);
		for (uint32_t nic = 0; nic < c->engine->nics; nic++)
			c->engine->ops->wire_set(c->engine, nic, r,
						 slab_at(slab, wire_offset(c, l->wires, nic, r)),
						 slab_at(c->peers[r].slab_base,
							 wire_offset(c, all[r].wires, nic,
								     c->rank)));
	}
	return 0;
}

static int connect_all(struct oriel_comm *c, const struct link_record *all, const uint32_t *numbers)
{
	struct ori_links *l = c->links;
	uint64_t row = (uint64_t)c->nranks * l->lanes;
	int err = set_wires(c, all);

	for (int r = 0; r < c->nranks && !err; r++)
		if (is_queued(c, r))
			err = c->engine->ops->peer(c->engine, r, &all[r].address);
	for (int r = 0; r < c->nranks && !err; r++)
		for (uint32_t n = 0; n < l->lanes && !err && is_queued(c, r); n++)
			err = ori_lane_connect(c, l, r, n,
					       numbers[(uint64_t)r * row +
						       (uint64_t)c->rank * l->lanes + n]);
	return err;
}

/* Every rank's queue numbers: [rank][peer][lane]. */
static int exchange_numbers(struct oriel_comm *c, uint32_t **out)
{
	struct ori_links *l = c->links;
	uint64_t row = (uint64_t)c->nranks * l->lanes;
	uint32_t *mine = calloc(row, sizeof(*mine));
	uint32_t *all = calloc(row * (uint64_t)c->nranks, sizeof(*all));
	int err = !mine || !all ? ori_fail(ORIEL_ENOMEM, "no memory for queue numbers") : 0;

	for (uint64_t i = 0; i < row && !err; i++)
		mine[i] = l->lane[i].main ? c->engine->ops->queue_number(c->engine, l->lane[i].nic,
									 l->lane[i].main->qpn) :
					    0;
	/* A rank without memory does not come; the others learn it from the boot's deadline or abort. */
	if (!err)
		err = c->boot->ops->allgather(c->boot, mine, all, row * sizeof(*mine),
					      c->timeout_ns);
	else
		c->boot->ops->abort(c->boot, err, ori_last_error_text());
	free(mine);
	if (err)
		free(all);
	else
		*out = all;
	return err;
}

/* Lanes, links and their words, as kernels of a separate device see them. */
static int publish(struct oriel_comm *c)
{
	struct ori_links *l = c->links;
	uint64_t n = (uint64_t)c->nranks, total = n * l->lanes;
	struct oriel_lane *lanes = calloc(total, sizeof(*lanes));
	struct oriel_link *links = calloc(n, sizeof(*links));
	const void *near_lanes, *near_words, *near_links;
	int err = lanes && links ? 0 : ori_fail(ORIEL_ENOMEM, "no memory for queues");

	for (uint64_t i = 0; i < total && !err; i++)
		if (l->lane[i].main)
			err = ori_lane_publish(c, l, (int)(i / l->lanes), (uint32_t)(i % l->lanes),
					       &lanes[i]);
	if (!err)
		err = ori_control_publish(c, lanes, total * sizeof(*lanes), &near_lanes);
	if (!err)
		err = ori_control_publish(c, l->last_signal, n * 8, &near_words);
	for (uint64_t r = 0; r < n && !err; r++) {
		links[r] = l->link[r];
		links[r].lanes = (const struct oriel_lane *)near_lanes + r * l->lanes;
		links[r].last_signal = (uint64_t *)(uintptr_t)near_words + r;
	}
	if (!err)
		err = ori_control_publish(c, links, n * sizeof(*links), &near_links);
	if (!err)
		l->dev_link = near_links;
	free(lanes);
	free(links);
	return err;
}

/* What a rank could use. */
struct offer_record {
	uint32_t mask;
	char why[256];
};

/* The best engine that all ranks offer: the same on all of them. */
static int choose_engine(struct oriel_comm *c)
{
	struct offer_record mine = { 0 }, *all = calloc((size_t)c->nranks, sizeof(*all));
	int one_machine = 1, status, err;
	uint32_t common = UINT32_MAX;

	for (int r = 0; r < c->nranks; r++)
		one_machine &= c->facts[r].host_id == c->facts[c->rank].host_id;
	status = ori_engine_offer(&c->config, one_machine, &mine.mask, mine.why, sizeof(mine.why));
	if (!status && !all)
		status = ori_fail(ORIEL_ENOMEM, "no memory for queues");
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_COMM_CREATE, status, &mine, all,
			all ? sizeof(mine) : 0);
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

int ori_links_build(struct oriel_comm *c)
{
	struct link_record mine = { 0 }, *all = calloc((size_t)c->nranks, sizeof(*all));
	uint32_t *numbers = NULL;
	int status, err = choose_engine(c);

	if (err)
		goto out;
	status = prepare(c);
	if (!all && !status)
		status = ori_fail(ORIEL_ENOMEM, "no memory for queues");
	if (!status) {
		mine.lanes = c->links->lanes;
		mine.nics = c->engine->nics;
		mine.flags = c->engine->link_flags;
		mine.wires = c->links->wires;
		status = c->engine->ops->address(c->engine, &mine.address);
	}
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_COMM_CREATE, status, &mine, all,
			all ? sizeof(mine) : 0);
	if (!err)
		err = compare(c, all);
	if (!err)
		err = exchange_numbers(c, &numbers);
	if (err)
		goto out;
	status = connect_all(c, all, numbers);
	if (!status && c->device->separate)
		status = publish(c);
	if (!status)
		status = c->engine->ops->start(c->engine);
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_COMM_CREATE, status, NULL, NULL, 0);
	c->dev.results = ori_control_near(c, c->links->results);
	memcpy(c->dev.result_key, c->links->result_key, sizeof(c->dev.result_key));
out:
	free(numbers);
	free(all);
	return err;
}

/*
 * What was posted and not waited for is complete before memory goes: a late write would find its key gone
 * and take the queue, and with it the comm, down.
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
	struct ori_scope scope = ori_comm_scope(&c->dev);
	struct ori_links *l = c->links;
	uint64_t n = l ? (uint64_t)c->nranks * l->lanes : 0;
	int err = 0;

	/* The device keeps the indices; what it rang, the engine knows. */
	if (l && c->device->separate)
		return wait_idle(c);
	for (uint64_t i = 0; i < n && !err; i++) {
		struct oriel_lane *lane = &l->lane[i];

		if (!lane->main)
			continue;
		err = ori_queue_wait(&scope, lane->main,
				     ori_load_acquire_sys(&lane->main->produced));
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

		ori_registrations_drop(c, NULL, 0);
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
	free(l);
	c->links = NULL;
}
