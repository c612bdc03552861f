/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/team/create.c - creates and destroys teams.
 *
 * A team is a window that the library lays out (include/oriel/device/team.h).  Creation is a round
 * in which ranks compare options, then one for the tuner if the comm had none yet, then the rounds
 * of the window, then a last one.  A rank that failed still takes part in each round, and all ranks
 * fail alike.
 *
 * Called by users, and by calls.c for the comm's own team; on all ranks at once.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../../comm/agree.h"
#include "../../comm/control.h"
#include "../../comm/failure.h"
#include "../../kernels/coll.h"
#include "../../util/options.h"
#include "../../window/window.h"
#include "../connect.h"
#include "../tune/plan.h"
#include "cards.h"
#include "team.h"

#define CHANNELS_MAX 1024u
#define SLOT_BYTES_MAX (1ull << 32)
/* With 64 ranks; then ori_short_step() of device/coll_cells.h is exact. */
#define LINE_BYTES_MAX (64u << 10)
#define UNIT 64u /* slots and rows are multiples of it */

/*
 * Data of a slot on the CPU.  Slots of eight ranks then stay in a cache of 8 MiB, and a round moves
 * enough to make its meeting cheap beside it.
 */
#define CPU_SLOT_BYTES (512u << 10)
#define GPU_SLOT_BYTES (512u << 10)
/* Without a table an all-reduce of up to this much is one round, and a row has room for it. */
#define ROW_BYTES (64u << 10)

int ori_team_check(struct oriel_team *t, const char *call)
{
	return ori_live_check(t, ORI_LIVE_TEAM, call);
}

/* ---- options --------------------------------------------------------------------------------- */

ORI_OPTIONS_NO_PADDING(struct oriel_team_options, line_bytes);

static int check_options(const char *call, const struct oriel_team_options *o, int nranks)
{
	uint64_t least = (uint64_t)UNIT * (uint64_t)(nranks + 1);
	uint32_t most = nranks <= 64 ? LINE_BYTES_MAX : LINE_BYTES_MAX / 16;

	if (o->channels < 1 || o->channels > CHANNELS_MAX)
		return ori_fail(ORIEL_ERANGE, "%s: %u channels, must be 1 to %u", call, o->channels,
				CHANNELS_MAX);
	if (o->cells > ORIEL_CELLS_IF_POSSIBLE)
		return ori_fail(ORIEL_EINVAL, "%s: cells is %u, must be one of ORIEL_CELLS_*", call,
				o->cells);
	if (o->line_bytes % 8 || o->line_bytes > most)
		return ori_fail(ORIEL_ERANGE,
				"%s: line_bytes %llu, must be a multiple of 8, at most %u for %d ranks",
				call, (unsigned long long)o->line_bytes, most, nranks);
	if (o->slot_bytes && (o->slot_bytes < least || o->slot_bytes > SLOT_BYTES_MAX))
		return ori_fail(ORIEL_ERANGE,
				"%s: slot_bytes %llu, must be 0 or %llu to %llu for %d ranks", call,
				(unsigned long long)o->slot_bytes, (unsigned long long)least,
				SLOT_BYTES_MAX, nranks);
	return 0;
}

static int take_options(struct oriel_team *t, const char *call,
			const struct oriel_team_options *given)
{
	uint64_t chosen = t->comm->device->separate ? GPU_SLOT_BYTES : CPU_SLOT_BYTES;
	uint64_t least = (uint64_t)UNIT * (uint64_t)(t->comm->nranks + 1);
	const struct oriel_team_options init = ORIEL_TEAM_OPTIONS_INIT;
	int err = 0;

	t->options = init;
	if (given)
		err = ori_options_take(call, "ORIEL_TEAM_OPTIONS_INIT", given, &t->options,
				       sizeof(t->options));
	if (!err)
		err = check_options(call, &t->options, t->comm->nranks);
	if (!err && !t->options.slot_bytes)
		t->options.slot_bytes = chosen > least ? chosen : least;
	return err;
}

/* ---- layout ---------------------------------------------------------------------------------- */

/*
 * A row has room for a piece and a common part.  Both are about slot_bytes / nranks in long calls.
 * In short ones the common part is everything, so a row has room for those too.
 */
static uint64_t row_bytes(uint64_t slot_bytes, int nranks)
{
	uint64_t row = 2 * slot_bytes / (uint64_t)nranks, whole = ROW_BYTES;

	if (whole > slot_bytes)
		whole = slot_bytes;
	row = row > whole ? row : whole;
	row = row > 2 * UNIT ? row : 2 * UNIT;
	/* An all-to-all-v tells sizes and their largest in it (device/coll_v.h). */
	whole = ((uint64_t)nranks + 1) * sizeof(uint64_t);
	row = row > whole ? row : whole;
	return (row + UNIT - 1) / UNIT * UNIT;
}

/*
 * Where calls change their way: as the tuner says.  Cells need ranks that all map each other.  PCIe
 * does not promise that 8 bytes stay whole: there no team has cells.  Collective.
 */
static int choose_ways(struct oriel_team *t, int queued)
{
	const struct oriel_comm *c = t->comm;
	int err = ori_tune_agree(t->comm);

	if (err)
		return err;
	ori_tune_ways(t->comm, &t->ways);
	if (t->options.cells == ORIEL_CELLS_IF_POSSIBLE)
		t->ways.cells = ORI_TUNE_CELLS_MAX;
	if (queued || t->options.cells == ORIEL_CELLS_NEVER ||
	    ori_facts_lack_atomics(c->facts, c->nranks))
		t->ways.cells = 0;
	return 0;
}

uint64_t ori_team_layout(const struct oriel_team_options *o, int nranks, int queued,
			 const struct ori_tune_ways *ways, struct oriel_team_dev *d)
{
	uint64_t n = (uint64_t)nranks, bytes;
	uint32_t cells = ways->cells;

	d->channels = o->channels;
	d->slot_bytes = o->slot_bytes / UNIT * UNIT;
	d->row_bytes = queued ? row_bytes(d->slot_bytes, nranks) : 0;
	d->once_bytes = ways->once;
	bytes = sizeof(struct ori_channel) + 2 * (sizeof(struct ori_show) + d->slot_bytes);
	if (queued)
		bytes += 2 * n * (sizeof(struct ori_show) + d->row_bytes) +
			 2 * n * sizeof(uint64_t);
	if (cells) {
		d->short_bytes = cells;
		cells += 16; /* an all-to-all-v tells sizes in two of them */
		if (o->line_bytes > cells)
			cells = (uint32_t)o->line_bytes;
		d->cell_bytes = cells;
		d->first_round = o->first_count;
		d->cells_off = (bytes + ORIEL_LINE_BYTES - 1) / ORIEL_LINE_BYTES * ORIEL_LINE_BYTES;
		bytes = d->cells_off + 2 * n * (ORI_TERMS_CELLS + cells / 8u) * 16u;
	}
	d->channel_bytes = (bytes + ORIEL_LINE_BYTES - 1) / ORIEL_LINE_BYTES * ORIEL_LINE_BYTES;
	return d->channel_bytes * o->channels;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* What a rank sends in the round. */
struct record {
	struct oriel_team_options options;
	int32_t connected; /* it has queues to all its queued peers */
	int32_t queued;    /* it has queued peers */
	int32_t blocks;    /* separate devices: blocks that it may launch */
	int32_t checked;   /* its comm has ORIEL_CHECKED */
};

static int blocks_of(struct oriel_team *t, struct record *mine)
{
	struct ori_device *d = t->comm->device;
	const struct oriel_kernel *kernels[] = { ori_coll_kernel(), ori_reduce_node_kernel(),
						 ori_scatter_node_kernel() };
	int blocks = 0, fit = 0, err = 0;

	for (size_t k = 0; k < ORI_COUNT(kernels) && d->separate && !err; k++) {
		err = d->ops->resident(d, kernels[k], ORI_COLL_THREADS, &fit);
		if (!k || fit < blocks)
			blocks = fit;
	}
	/* with less than one, the launch refuses and gives the reason */
	mine->blocks = blocks < 1 ? 1 : blocks;
	return err;
}

/* The same status on all ranks: each rank compares all options with those of rank 0. */
static int compare_options(const char *call, const struct record *all, int nranks)
{
	for (int r = 1; r < nranks; r++) {
		const struct oriel_team_options *a = &all[0].options, *b = &all[r].options;
		const char *field = a->channels != b->channels       ? "channels" :
				    a->slot_bytes != b->slot_bytes   ? "slot_bytes" :
				    a->first_count != b->first_count ? "first_count" :
				    a->cells != b->cells             ? "cells" :
				    a->line_bytes != b->line_bytes   ? "line_bytes" :
								       NULL;

		if (field)
			return ori_fail(ORIEL_EMISMATCH,
					"%s: rank %d and rank 0 differ in option %s", call, r,
					field);
	}
	return 0;
}

static int make_window(struct oriel_team *t, uint64_t bytes, int along)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int err;

	o.signals = t->options.channels + (t->stage_off ? ORI_COLL_SIGNALS : 0);
	o.counters = 0;
	o.barriers = ORI_COLL_BARRIERS;
	o.bytes = bytes;
	o.first_count = t->options.first_count;
	err = oriel_window_create(t->comm, &o, &t->window);
	if (!err) {
		t->window->child.along = along;
		ori_window_use_set(t->window, ORI_USE_TEAM);
	}
	return err;
}

/*
 * A team of the comm itself has desks behind its channels, or on a separate device a stage, if all
 * ranks can read them.  Returns the bytes of the window.
 */
static uint64_t add_desk(struct oriel_team *t, int along, uint64_t bytes)
{
	int nranks = t->comm->nranks, separate = t->comm->device->separate;

	if (!along || nranks > (separate ? ORI_COLL_STAGE_RANKS : ORI_CARDS_RANKS))
		return bytes;
	if (!separate) {
		t->desk_off = bytes;
		return bytes + sizeof(struct ori_desk);
	}
	/* its kernels add to words of peers */
	if (ori_facts_lack_atomics(t->comm->facts, nranks))
		return bytes;
	t->stage_off = bytes;
	return bytes + sizeof(struct ori_coll_desk) + 2ull * ORI_COLL_STAGE_BYTES;
}

/* Where ranks are, behind the channels of a team with queued peers. */
static uint64_t nodes_bytes(const struct oriel_team *t)
{
	return sizeof(struct ori_team_nodes) +
	       (uint64_t)t->comm->nranks * sizeof(struct ori_team_place);
}

static int write_nodes(struct oriel_team *t, const char *call)
{
	const struct ori_topology *map = &t->comm->topology;
	uint64_t bytes = nodes_bytes(t);
	struct ori_team_nodes *nodes = calloc(1, bytes);
	struct ori_team_place *places;
	int err;

	if (!nodes)
		return ori_fail(ORIEL_ENOMEM, "%s: no memory", call);
	places = (struct ori_team_place *)(void *)(nodes + 1);
	nodes->least = UINT32_MAX;
	for (int r = 0; r < t->comm->nranks; r++) {
		uint32_t size = (uint32_t)map->node_size[r];

		places[r].node = (uint32_t)map->node[r];
		places[r].index = (uint16_t)map->node_rank[r];
		places[r].size = (uint16_t)size;
		nodes->least = size < nodes->least ? size : nodes->least;
		nodes->most = size > nodes->most ? size : nodes->most;
	}
	t->by_nodes = nodes->most > 1;
	err = oriel_copy(t->comm, t->dev.win.buffer + t->dev.channels * t->dev.channel_bytes, nodes,
			 bytes);
	free(nodes);
	return err;
}

/* Only one thread at a time publishes a handle.  It is rare: once per team that needs it. */
static pthread_mutex_t publishing = PTHREAD_MUTEX_INITIALIZER;

static void unpublish(struct oriel_team *t)
{
	ori_control_unpublish(t->comm, t->near_handle, sizeof(t->dev));
	t->near_handle = NULL;
}

static int publish(struct oriel_team *t)
{
	int err = 0;

	pthread_mutex_lock(&publishing);
	if (!t->near_handle) {
		err = ori_comm_device_status(t->comm,
					     ori_control_publish(t->comm, &t->dev, sizeof(t->dev),
								 &t->near_handle));
		if (err)
			unpublish(t);
	}
	pthread_mutex_unlock(&publishing);
	return err;
}

/* The rounds.  On failure nothing is left of the window. */
static int meet(struct oriel_team *t, const char *call, int status, int along, struct record *mine,
		struct record *all)
{
	struct oriel_comm *c = t->comm;
	int err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_TEAM_CREATE, status, mine, all,
			    sizeof(*mine));
	int connected = 1, queued = 0;
	uint64_t bytes;

	if (!err)
		err = compare_options(call, all, c->nranks);
	t->blocks = mine->blocks;
	for (int r = 0; !err && r < c->nranks; r++) {
		connected &= all[r].connected;
		queued |= all[r].queued;
		t->checked |= all[r].checked;
		t->blocks = all[r].blocks < t->blocks ? all[r].blocks : t->blocks;
	}
	if (!err && !connected)
		err = ori_coll_connect(c, ORI_CALL_TEAM_CREATE);
	if (!err)
		err = choose_ways(t, queued);
	if (!err) {
		bytes = ori_team_layout(&t->options, c->nranks, queued, &t->ways, &t->dev);
		bytes = queued ? bytes + nodes_bytes(t) : add_desk(t, along, bytes);
		err = make_window(t, bytes, along);
	}
	if (err)
		return err;
	status = oriel_window_device(t->window, &t->dev.win);
	if (!status)
		status = oriel_window_source(t->window, t->dev.win.buffer, t->dev.win.bytes,
					     &t->dev.source);
	if (!status && t->stage_off)
		status = publish(t);
	if (!status && queued)
		status = write_nodes(t, call);
	if (!status)
		status = ori_live_add(t, ORI_LIVE_TEAM);
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_TEAM_CREATE, status, NULL, NULL, 0);
	if (err) {
		ori_live_remove(t);
		if (t->near_handle)
			unpublish(t);
		(void)oriel_window_destroy(t->window);
	}
	return err;
}

/* Called by a failed comm, or for a team that goes along with it.  It frees the window itself. */
static void destroy_child(struct ori_child *child)
{
	ori_live_remove(child);
	free(child);
}

int ori_team_make(struct oriel_comm *c, const char *call, const struct oriel_team_options *options,
		  int along, struct oriel_team **team)
{
	struct record *all = calloc((size_t)c->nranks, sizeof(*all)), mine;
	struct oriel_team *t = calloc(1, sizeof(*t));
	int err;

	memset(&mine, 0, sizeof(mine));
	if (!t || !all) {
		err = ori_fail(ORIEL_ENOMEM, "%s: no memory", call);
		(void)ori_agree(c->boot, c->timeout_ns, ORI_CALL_TEAM_CREATE, err, NULL, NULL, 0);
		goto err_memory;
	}
	t->comm = c;
	t->child.destroy = destroy_child;
	t->child.along = along;
	err = team ? take_options(t, call, options) :
		     ori_fail(ORIEL_EINVAL, "%s: no place for the team", call);
	if (!err)
		err = blocks_of(t, &mine);
	mine.options = t->options;
	mine.connected = ori_coll_is_connected(c);
	mine.checked = c->config.checked;
	for (int r = 0; r < c->nranks; r++)
		mine.queued |= c->peers[r].pair.kind == ORIEL_PEER_QUEUED;
	err = meet(t, call, err, along, &mine, all);
	if (err || !team)
		goto err_memory;
	free(all);
	ori_child_add(c, &t->child);
	*team = t;
	return 0;
err_memory:
	free(all);
	free(t);
	return err;
}

/* ---- public ---------------------------------------------------------------------------------- */

int oriel_team_create(struct oriel_comm *c, const struct oriel_team_options *options,
		      struct oriel_team **team)
{
	const char *call = "oriel_team_create", *outer;
	int err = ori_comm_check(c, call);

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	outer = ori_boot_serve_begin(c->boot, call);
	err = ori_team_make(c, call, options, 0, team);
	ori_boot_serve_end(c->boot, outer);
	return err;
}

int oriel_team_device(struct oriel_team *t, struct oriel_team_dev *dev)
{
	int err = ori_team_check(t, "oriel_team_device");

	if (err)
		return err;
	if (!dev)
		return ori_fail(ORIEL_EINVAL, "oriel_team_device: no place for the handle");
	*dev = t->dev;
	return 0;
}

int oriel_team_device_address(struct oriel_team *t, const struct oriel_team_dev **dev)
{
	const char *call = "oriel_team_device_address";
	int err = ori_team_check(t, call);

	if (!err && !dev)
		err = ori_fail(ORIEL_EINVAL, "%s: no place for the address", call);
	if (err)
		return err;
	err = publish(t);
	if (!err)
		*dev = t->near_handle;
	return err;
}

int oriel_team_status(struct oriel_team *t)
{
	const char *call = "oriel_team_status";
	int err = ori_team_check(t, call);

	if (!err)
		err = oriel_window_status(t->window);
	for (uint32_t i = 0; !err && i < t->options.channels; i++)
		err = ori_team_refusal_take(t, i, call);
	return err;
}

int oriel_team_destroy(struct oriel_team *t)
{
	const char *call = "oriel_team_destroy", *outer;
	struct oriel_comm *c;
	int err;

	if (!t)
		return 0;
	err = ori_team_check(t, call);
	if (err)
		return err;
	c = t->comm;
	outer = ori_boot_serve_begin(c->boot, call);
	err = oriel_window_destroy(t->window);
	ori_boot_serve_end(c->boot, outer);
	if (err && !ori_comm_failed(c))
		return err; /* the same on all ranks: teams differ and all stay */
	ori_child_remove(c, &t->child);
	ori_live_remove(t);
	unpublish(t);
	free(t);
	return err;
}
