/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/comm.c - creates a comm; destroy.c ends it.
 *
 * Creation has two rounds.  In the first, all ranks exchange their facts and the location of their
 * control memory.  Then each rank classifies the same facts and maps the control memory of its
 * mapped peers.  In the second round all ranks exchange how that went.  If there are several nodes,
 * the rounds that choose an engine (links.c) and make queues (connect.c) follow.  A rank that
 * failed still takes part, so that all ranks learn which rank failed and why.
 *
 * Called on user threads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../engine/engine.h"
#include "../util/options.h"
#include "agree.h"
#include "comm.h"
#include "connect.h"
#include "control.h"
#include "destroy.h"
#include "failure.h"
#include "imports.h"
#include "links.h"
#include "passing.h"
#include "reports.h"
#include "speaker.h"
#include "trace.h"

/* What a rank sends in the first round. */
struct create_record {
	struct ori_facts facts;
	struct ori_export slab, near; /* the two halves of control memory */
	char socket[32];
	uint8_t token[16];
	uint64_t job, key;
	int32_t job_rank, job_ranks;
	struct ori_trace_offer trace;
};
_Static_assert(sizeof(struct create_record) <= ORI_RECORD_BYTES, "must fit a record");
_Static_assert(sizeof(struct create_record) >= sizeof(struct ori_clock_reading),
	       "its memory is reused");

/* ---- first round: this rank alone ----------------------------------------------------------- */

/*
 * A process has few channels to a GPU (32), and streams that share a channel wait for each other's
 * kernels.  So a split comm uses its parent's stream.  CPU devices have no such limit: each comm
 * has its own, and launches of two comms may run at the same time.
 */
static int open_devices(struct oriel_comm *c, const struct oriel_comm *parent)
{
	int err = 0;

	if (parent && parent->device->separate) {
		c->device = parent->device;
		ori_device_hold(c->device);
	} else {
		err = ori_device_open(c->config.device, c->timeout_ns, &c->device);
	}
	c->host_device = c->device;
	if (!err && c->device->separate) {
		c->host_device = NULL;
		err = ori_device_open("cpu", c->timeout_ns, &c->host_device);
	}
	return err;
}

static int gather_facts(struct oriel_comm *c, struct ori_facts *facts)
{
	int err = ori_facts_gather(facts, &c->config);

	if (!err)
		err = c->device->ops->facts(c->device, facts);
	return err ? err : ori_facts_override(facts, &c->config);
}

static void export_whole(const struct ori_memory *m, struct ori_export *out)
{
	out->id = m->id;
	out->allocation_bytes = m->allocation.bytes;
	out->bytes = m->allocation.bytes;
	out->address = (uint64_t)(uintptr_t)m->allocation.base;
	ori_memory_export_far(&m->allocation, out);
}

/*
 * Reports name a rank by its number in the job.  What rank 0 sends here names the job and the comm.
 * The lower half of a job's name is the process id of its rank 0, which users know.  Comms that the
 * same processes create one by one belong to one job, so that a cycle over two of them is found.
 */
static int name_job(struct oriel_comm *c, const struct oriel_comm *parent,
		    struct create_record *mine)
{
	uint64_t place = (mine->facts.host_id ^ (uint64_t)c->nranks) * 0x9e3779b97f4a7c15ull;
	int err = ori_random_bytes(&mine->key, sizeof(mine->key));

	mine->job = parent ? parent->job : place >> 32 << 32 | (uint32_t)getpid();
	mine->job_rank = parent ? parent->job_rank : c->rank;
	mine->job_ranks = parent ? parent->job_ranks : c->nranks;
	c->world = calloc((size_t)c->nranks, sizeof(*c->world));
	if (!err && !c->world)
		err = ori_fail(ORIEL_ENOMEM, "no memory for a comm of %d ranks", c->nranks);
	return err;
}

static int prepare(struct oriel_comm *c, const struct ori_origin *origin,
		   struct create_record *mine)
{
	int err;

	c->facts = calloc((size_t)c->nranks, sizeof(*c->facts));
	c->peers = calloc((size_t)c->nranks, sizeof(*c->peers));
	c->dev_peers = calloc((size_t)c->nranks, sizeof(*c->dev_peers));
	if (!c->facts || !c->peers || !c->dev_peers)
		return ori_fail(ORIEL_ENOMEM, "no memory for a comm of %d ranks", c->nranks);
	err = open_devices(c, origin ? origin->parent : NULL);
	if (!err)
		err = ori_passing_open(&c->passing);
	if (!err)
		err = ori_control_open(c);
	if (!err)
		err = ori_random_bytes(&c->generation_seed, sizeof(c->generation_seed));
	if (!err)
		err = gather_facts(c, &mine->facts);
	if (err)
		return err;
	if (origin) {
		mine->facts.forced_node = origin->nodes[c->rank];
		memset(mine->facts.layout, 0, sizeof(mine->facts.layout));
	}
	memcpy(mine->socket, ori_passing_socket(c->passing), sizeof(mine->socket));
	memcpy(mine->token, ori_passing_token(c->passing), sizeof(mine->token));
	export_whole(c->slab_memory, &mine->slab);
	export_whole(c->near_memory, &mine->near);
	ori_trace_offer(c, &mine->trace);
	return name_job(c, origin ? origin->parent : NULL, mine);
}

/* ---- second round: with everybody's facts --------------------------------------------------- */

/* Tells the device how many ranks, and how many processes, use its GPU. */
static void tell_sharers(struct oriel_comm *c)
{
	const struct ori_facts *mine = &c->facts[c->rank];
	int ranks = 0, processes = 0;

	for (int r = 0; r < c->nranks; r++) {
		int first = 1;

		if (c->facts[r].host_id != mine->host_id || c->facts[r].device != mine->device ||
		    c->facts[r].gpu != mine->gpu)
			continue;
		for (int s = 0; s < r && first; s++)
			first = memcmp(c->peers[s].token, c->peers[r].token,
				       sizeof(c->peers[r].token)) != 0;
		ranks++;
		processes += first;
	}
	c->device->ops->shared(c->device, ranks, processes);
}

static void learn_peers(struct oriel_comm *c, const struct create_record *all)
{
	int on_host = 0, in_process = 0;

	for (int r = 0; r < c->nranks; r++) {
		struct ori_peer *p = &c->peers[r];

		c->facts[r] = all[r].facts;
		c->facts[r].host[sizeof(c->facts[r].host) - 1] = '\0';
		c->facts[r].layout[sizeof(c->facts[r].layout) - 1] = '\0';
		memcpy(p->socket, all[r].socket, sizeof(p->socket));
		p->socket[sizeof(p->socket) - 1] = '\0';
		memcpy(p->token, all[r].token, sizeof(p->token));
		p->same_process = !memcmp(p->token, all[c->rank].token, sizeof(p->token));
		p->far = all[r].facts.host_id != all[c->rank].facts.host_id;
		on_host += !p->far;
		in_process += p->same_process;
	}
	ori_crowd_ranks_set(on_host, in_process);
	tell_sharers(c);
	c->job = all[0].job;
	c->key = all[0].key;
	c->job_rank = all[c->rank].job_rank;
	c->job_ranks = all[c->rank].job_ranks;
	for (int r = 0; r < c->nranks; r++)
		c->world[r] = all[r].job_rank;
}

/*
 * Host memory of another host cannot be mapped.  If a mapped peer is on another host, only its near
 * half is mapped, with the words that devices write.  The host half is missing, with three effects:
 * - its board: reports of late waits ask the rank through the boot;
 * - its waiters: a GPU has none that sleep;
 * - its failure word: the boot tells of failures.
 */
static int map_control(struct oriel_comm *c, int r, const struct create_record *theirs)
{
	struct ori_peer *p = &c->peers[r];
	int err;

	/* Its memory cannot be mapped, and queues to it do not need that. */
	if (p->far && p->pair.kind == ORIEL_PEER_QUEUED)
		return 0;
	if (theirs->slab.bytes < ORI_SLAB_LEAST_BYTES || theirs->slab.bytes > ORI_SLAB_BYTES)
		return ori_fail(ORIEL_EMISMATCH, "rank %d runs another version of Oriel", r);
	p->slab_bytes = theirs->slab.bytes;
	if (p->far)
		return ori_import_range(c, r, &theirs->near, &p->near_base, &p->near_import);
	/* Of a queued peer only the engine uses it: gone.c and the engine's wake-up words. */
	err = ori_import_range(c, r, &theirs->slab, &p->slab_base, &p->slab_import);
	if (err || p->pair.kind == ORIEL_PEER_QUEUED)
		return err;
	p->control = p->slab_base;
	p->near_base = p->slab_base;
	if (theirs->near.id != theirs->slab.id)
		err = ori_import_range(c, r, &theirs->near, &p->near_base, &p->near_import);
	return err;
}

static int meet_peers(struct oriel_comm *c, const struct create_record *all)
{
	int err = ori_classify(c->facts, c->nranks, &c->topology);

	for (int r = 0; !err && r < c->nranks; r++) {
		struct ori_peer *p = &c->peers[r];

		err = ori_classify_pair(c->facts, &c->topology, c->rank, r, &p->pair);
		if (!err)
			err = map_control(c, r, &all[r]);
	}
	return err;
}

/* The same offset in the device's half. */
static void *near_of(struct oriel_comm *c, void *host)
{
	return ori_control_near(c, (uint64_t)((char *)host - (char *)c->control));
}

static int build_device_handle(struct oriel_comm *c)
{
	const void *peers;
	int err;

	for (int r = 0; r < c->nranks; r++) {
		struct oriel_comm_peer *d = &c->dev_peers[r];
		struct ori_peer *p = &c->peers[r];

		d->kind = p->pair.kind;
		d->node = c->topology.node[r];
		d->link = ori_link_to(c, r);
		if (d->kind == ORIEL_PEER_MAPPED)
			d->flags = p->pair.flags;
		c->dev.flags |= d->flags;
		if (p->pair.kind != ORIEL_PEER_QUEUED)
			d->waiters = ori_peer_waiters(c, r);
		if (!p->control)
			continue;
		d->board = &p->control->board;
		d->failure = &p->control->failure;
	}
	c->dev.rank = c->rank;
	c->dev.nranks = c->nranks;
	c->dev.timeout_ns = c->timeout_ns;
	c->dev.late_ns = (uint64_t)(c->config.late * 1e9);
	c->dev.spin_polls = ori_device_spin_polls();
	c->dev.failure = near_of(c, &c->control->failure);
	c->dev.waiters = &c->control->waiters;
	c->dev.board = &c->control->board;
	/* Kernels of a separate device do not drive the engine. */
	c->dev.engine = c->device->separate ? NULL : c->engine;
	c->dev.host_shift = (char *)ori_control_host(c, 0) - (char *)ori_control_near(c, 0);
	err = ori_control_publish(c, c->dev_peers, (uint64_t)c->nranks * sizeof(*c->dev_peers),
				  &peers);
	c->dev.peers = peers;
	return err;
}

static int make_node_boot(struct oriel_comm *c)
{
	int node = c->topology.node[c->rank], n = 0, err;
	int *members;

	if (c->topology.nnodes == 1) {
		c->node_boot = c->boot;
		ori_boot_hold(c->boot);
		return 0;
	}
	members = calloc((size_t)c->nranks, sizeof(*members));
	if (!members)
		return ori_fail(ORIEL_ENOMEM, "no memory for the ranks of a node");
	for (int r = 0; r < c->nranks; r++)
		if (c->topology.node[r] == node)
			members[n++] = r;
	err = c->boot->ops->subgroup(c->boot, members, n, (uint32_t)node + 1, c->timeout_ns,
				     &c->node_boot);
	free(members);
	return err;
}

/* Opens the engine and makes the queues that the comm starts with. */
static int build_links(struct oriel_comm *c)
{
	int err = ori_links_choose(c);

	if (err)
		return err;
	/* If the engine does not open, the first round of connecting tells the others. */
	return ori_connect_queues(c, ori_links_open(c), NULL,
				  c->config.connect ? ORI_CONNECT_ALL : 0);
}

/* A user who asks for faults and gets none would take the run for a proof. */
static void warn_of_faults(const struct oriel_comm *c)
{
	if (c->rank == 0 && c->nranks > 1 && c->config.soft_faults[0])
		ori_log(ORI_LOG_WARN, "ORIEL_SOFT_FAULTS has no effect: all ranks are on one node, "
				      "so no peer is queued (oriel-run --topology makes nodes)");
}

static void on_boot_failure(void *ctx, int status, int rank, const char *why)
{
	struct oriel_comm *c = ctx;
	int speaker = ori_log_rank_get();

	/* Often a thread of the boot calls this; such a thread logs for no rank. */
	ori_log_rank_set(c->rank);
	ori_log(ORI_LOG_ERROR, "the comm has failed: %s", why);
	ori_log_rank_set(speaker);
	ori_comm_fail(c, status, rank, why);
}

int ori_comm_build(struct oriel_boot *boot, const struct ori_config *config, int status,
		   const struct ori_origin *origin, struct oriel_comm **out)
{
	struct oriel_comm *c = calloc(1, sizeof(*c));
	struct create_record mine, *all = calloc((size_t)boot->nranks, sizeof(*all));
	int err;

	if (c && all && ori_failure_open(c)) {
		free(c);
		c = NULL;
	}
	if (!c || !all) {
		err = ori_fail(ORIEL_ENOMEM, "no memory for a comm");
		(void)ori_agree(boot, (uint64_t)(config->timeout * 1e9),
				origin ? (enum ori_call)origin->call : ORI_CALL_COMM_CREATE, err,
				NULL, NULL, 0);
		free(c);
		free(all);
		ori_boot_drop(boot);
		return err;
	}
	memset(&mine, 0, sizeof(mine));
	pthread_mutex_init(&c->lock, NULL);
	c->boot = boot;
	c->rank = boot->rank;
	c->nranks = boot->nranks;
	c->config = *config;
	c->timeout_ns = (uint64_t)(config->timeout * 1e9);
	c->quiet = 1; /* no rank stores to another's memory until the second round is over */
	ori_comm_call_begin(c, origin ? (enum ori_call)origin->call : ORI_CALL_COMM_CREATE);
	if (origin) { /* part of a call that has one deadline */
		c->call_rounds = 1;
		c->call_end_ns = origin->end_ns;
	}
	if (!status)
		status = prepare(c, origin, &mine);
	err = ori_comm_agree(c, status, &mine, all, sizeof(mine));
	if (err)
		goto err_comm;
	boot->ops->watch(boot, ori_comm_boot_failed, c);
	learn_peers(c, all);
	status = ori_reports_open(c);
	if (!status)
		status = meet_peers(c, all);
	if (!status)
		status = make_node_boot(c);
	if (!status)
		status = ori_live_add(c, ORI_LIVE_COMM);
	c->quiet = 0;
	err = ori_comm_agree(c, status, NULL, NULL, 0);
	if (!err)
		err = ori_trace_open(c, &all[0].trace, sizeof(*all), all);
	if (!err && c->topology.nnodes > 1)
		err = build_links(c);
	else if (!err && !origin)
		warn_of_faults(c);
	if (err)
		goto err_live;
	err = build_device_handle(c);
	if (!err)
		err = ori_speaker_start(c);
	if (err) {
		/* The other ranks already have their comm: for them this rank fails it. */
		ori_comm_fail_all(c, err, ori_last_error_text());
		goto err_live;
	}
	c->boot->ops->watch(c->boot, on_boot_failure, c);
	ori_reports_ready(c);
	free(all);
	*out = c;
	return 0;

err_live:
	ori_live_remove(c);
err_comm:
	free(all);
	ori_comm_free(c);
	return err;
}

/* ---- public --------------------------------------------------------------------------------- */

ORI_OPTIONS_NO_PADDING(struct oriel_comm_options, reserved);

static int check_options(const struct oriel_comm_options *options, const struct ori_config *config)
{
	if (!(options->timeout >= 0) || options->timeout > 1e9)
		return ori_fail(ORIEL_EINVAL, "oriel_comm_create: timeout of %g seconds",
				options->timeout);
	if (options->connect && options->connect != ORIEL_CONNECT_ALL &&
	    options->connect != ORIEL_CONNECT_NONE)
		return ori_fail(ORIEL_EINVAL,
				"oriel_comm_create: connect is %d, not ORIEL_CONNECT_ALL or NONE",
				options->connect);
	if (options->device && strlen(options->device) >= sizeof(config->device))
		return ori_fail(ORIEL_EINVAL, "oriel_comm_create: device name too long");
	if (options->topology && strlen(options->topology) >= sizeof(config->topology))
		return ori_fail(ORIEL_EINVAL, "oriel_comm_create: topology text too long");
	if (options->reserved)
		return ori_fail(ORIEL_EINVAL,
				"oriel_comm_create: reserved is %d, must be 0: use "
				"ORIEL_COMM_OPTIONS_INIT",
				options->reserved);
	return 0;
}

static int apply_options(const struct oriel_comm_options *given, struct ori_config *config)
{
	struct oriel_comm_options options = ORIEL_COMM_OPTIONS_INIT;
	int err;

	if (!given)
		return 0;
	err = ori_options_take("oriel_comm_create", "ORIEL_COMM_OPTIONS_INIT", given, &options,
			       sizeof(options));
	if (!err)
		err = check_options(&options, config);
	if (err)
		return err;
	if (options.device)
		snprintf(config->device, sizeof(config->device), "%s", options.device);
	if (options.topology)
		snprintf(config->topology, sizeof(config->topology), "%s", options.topology);
	if (options.timeout > 0)
		config->timeout = options.timeout;
	if (options.connect)
		config->connect = options.connect == ORIEL_CONNECT_ALL;
	return 0;
}

static int duplicate_boot(struct oriel_boot *boot, uint64_t timeout_ns, struct oriel_boot **out)
{
	int *members = calloc((size_t)boot->nranks, sizeof(*members));
	int err;

	if (!members)
		return ori_fail(ORIEL_ENOMEM, "no memory for a comm");
	for (int r = 0; r < boot->nranks; r++)
		members[r] = r;
	err = boot->ops->subgroup(boot, members, boot->nranks, 0, timeout_ns, out);
	free(members);
	return err;
}

int oriel_comm_create(struct oriel_boot *boot, const struct oriel_comm_options *options,
		      struct oriel_comm **comm)
{
	struct oriel_boot *own;
	/* Used by the round that reports a configuration that cannot be read. */
	struct ori_config config = { .timeout = 60, .late = 10 };
	int status, err = ori_live_check(boot, ORI_LIVE_BOOT, "oriel_comm_create");

	if (err)
		return err;
	ori_log_rank_set(boot->rank);
	status = ori_config_read(&config);
	if (!status)
		status = apply_options(options, &config);
	if (!status && !comm)
		status = ori_fail(ORIEL_EINVAL, "oriel_comm_create: no place for the comm");
	err = duplicate_boot(boot, (uint64_t)(config.timeout * 1e9), &own);
	return err ? err : ori_comm_build(own, &config, status, NULL, comm);
}
