/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/comm.c - a comm is made and ended here.
 *
 * Creation is two rounds: everybody tells its facts and where its control memory is; everybody classifies
 * the same facts, maps the control memory of its mapped peers, and tells how that went.  A rank whose own
 * preparation failed still takes part in the round, so that all ranks learn who and why.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/engine.h"
#include "comm.h"

/* What a rank tells in the first round. */
struct create_record {
	struct ori_facts facts;
	struct ori_export slab, near; /* the two halves of control memory */
	char socket[32];
	uint8_t token[16];
};
_Static_assert(sizeof(struct create_record) <= ORI_RECORD_BYTES, "must fit a record");

/* ---- first round: this rank alone ------------------------------------------------------------------ */

/*
 * A GPU has few channels to feed it (32 in a process), and streams that share one wait for each
 * other's kernels: a split comm takes its parent's stream.  On the CPU there is nothing to save,
 * and launches of two comms may go on side by side.
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
		err = ori_cpu_device_open(c->timeout_ns, &c->host_device);
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

static int prepare(struct oriel_comm *c, const struct oriel_comm *parent, const int *forced_nodes,
		   struct create_record *mine)
{
	int err;

	c->facts = calloc((size_t)c->nranks, sizeof(*c->facts));
	c->peers = calloc((size_t)c->nranks, sizeof(*c->peers));
	c->dev_peers = calloc((size_t)c->nranks, sizeof(*c->dev_peers));
	if (!c->facts || !c->peers || !c->dev_peers)
		return ori_fail(ORIEL_ENOMEM, "no memory for a comm of %d ranks", c->nranks);
	err = open_devices(c, parent);
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
	if (forced_nodes) {
		mine->facts.forced_node = forced_nodes[c->rank];
		memset(mine->facts.layout, 0, sizeof(mine->facts.layout));
	}
	memcpy(mine->socket, ori_passing_socket(c->passing), sizeof(mine->socket));
	memcpy(mine->token, ori_passing_token(c->passing), sizeof(mine->token));
	export_whole(c->slab_memory, &mine->slab);
	export_whole(c->near_memory, &mine->near);
	return 0;
}

/* ---- second round: with everybody's facts ------------------------------------------------------------ */

/* Ranks on the GPU of this one, and the processes they are in. */
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
	ori_cpu_neighbours_set(on_host, in_process);
	tell_sharers(c);
}

/*
 * Host memory does not cross hosts: of a mapped peer on another one there is the device's half
 * alone. It has the words that devices write.  What the host's half holds is done without: its
 * board, so late reports do not say what that rank itself waits for; its sleepers, of which a
 * GPU has none; its failure word, since the boot tells of failures, too.
 */
static int map_control(struct oriel_comm *c, int r, const struct create_record *theirs)
{
	struct ori_peer *p = &c->peers[r];
	int err;

	/* Its memory cannot be mapped, and need not: queues are all there is. */
	if (p->far && p->pair.kind == ORIEL_PEER_QUEUED)
		return 0;
	if (theirs->slab.bytes < ORI_SLAB_LEAST_BYTES || theirs->slab.bytes > ORI_SLAB_BYTES)
		return ori_fail(ORIEL_EMISMATCH, "rank %d runs another version of Oriel", r);
	p->slab_bytes = theirs->slab.bytes;
	if (p->far)
		return ori_import_range(c, r, &theirs->near, &p->near_base, &p->near_import);
	/* Of a queued peer only the engine uses it, as its wire. */
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

/* The same place in the device's half. */
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
	c->dev.spin_polls = ori_cpu_spin_polls();
	c->dev.failure = near_of(c, &c->control->failure);
	c->dev.waiters = &c->control->waiters;
	c->dev.board = &c->control->board;
	c->dev.engine = c->device->separate ? NULL : c->engine; /* kernels there drive nothing */
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

static void on_boot_failure(void *ctx, int status, int rank, const char *why)
{
	struct oriel_comm *c = ctx;
	int speaker = ori_log_rank_get();

	/* Often on a thread of the boot's, which speaks for nobody. */
	ori_log_rank_set(c->rank);
	ori_log(ORI_LOG_ERROR, "the comm has failed: %s", why);
	ori_log_rank_set(speaker);
	ori_comm_fail(c, status, rank, why);
}

/* Ends all that works by itself for this rank and may reach peers' memory: the engine. */
static void stop_comm(struct oriel_comm *c)
{
	if (c->boot)
		c->boot->ops->watch(c->boot, NULL, NULL);
	ori_reports_close(c);
	while (c->attachments) {
		struct ori_attachment *attachment = c->attachments;

		c->attachments = attachment->next;
		attachment->destroy(attachment);
	}
	while (c->children) {
		struct ori_child *child = c->children;

		ori_child_remove(c, child);
		child->destroy(child);
	}
	ori_links_free(c);
	ori_failure_stop(c);
}

/*
 * Frees everything there is of a comm, also of one that was never finished; talks to nobody.  After a
 * failure thread ranks may still be storing to this rank's memory: then its addresses stay.
 */
static void free_comm(struct oriel_comm *c)
{
	int abandon = c->control && ori_comm_has_failed(c);

	if (abandon)
		c->quiet = 0;
	stop_comm(c);
	ori_speaker_stop(c);
	for (int r = 0; c->peers && r < c->nranks; r++) {
		ori_import_drop(c, c->peers[r].slab_import);
		ori_import_drop(c, c->peers[r].near_import);
	}
	ori_imports_drop_all(c);
	while (c->memories) {
		if (abandon)
			ori_memory_abandon(c, c->memories);
		else
			ori_memory_free(c, c->memories);
	}
	ori_slab_destroy(&c->slab);
	if (c->host_device && c->host_device != c->device)
		c->host_device->ops->close(c->host_device);
	if (c->device)
		ori_device_drop(c->device);
	if (c->passing)
		ori_passing_close(c->passing);
	ori_topology_free(&c->topology);
	if (c->node_boot)
		ori_boot_drop(c->node_boot);
	if (c->boot)
		ori_boot_drop(c->boot);
	free(c->facts);
	free(c->peers);
	free(c->dev_peers);
	ori_failure_close(c);
	ori_returned_close(c);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

int ori_comm_build(struct oriel_boot *boot, const struct ori_config *config, int status,
		   const struct oriel_comm *parent, const int *forced_nodes,
		   struct oriel_comm **out)
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
		(void)ori_agree(boot, (uint64_t)(config->timeout * 1e9), ORI_CALL_COMM_CREATE, err,
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
	c->quiet = 1; /* until the second round is over nobody stores to another's memory */
	ori_comm_call_begin(c, ORI_CALL_COMM_CREATE);
	if (parent) { /* the second half of a split: its deadline is the call's */
		c->call_rounds = parent->call_rounds;
		c->call_end_ns = parent->call_end_ns;
	}
	if (!status)
		status = prepare(c, parent, forced_nodes, &mine);
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
	if (!err && c->topology.nnodes > 1)
		err = ori_links_build(c);
	if (err)
		goto err_live;
	err = build_device_handle(c);
	if (!err)
		err = ori_speaker_start(c);
	if (err) {
		/* The others have theirs: they learn it as a failure of this rank. */
		ori_comm_fail_all(c, err, ori_last_error_text());
		goto err_live;
	}
	c->boot->ops->watch(c->boot, on_boot_failure, c);
	free(all);
	*out = c;
	return 0;

err_live:
	ori_live_remove(c);
err_comm:
	free(all);
	free_comm(c);
	return err;
}

/* ---- public ------------------------------------------------------------------------------------------ */

static int apply_options(const struct oriel_comm_options *options, struct ori_config *config)
{
	if (!options)
		return 0;
	if (options->size != sizeof(*options))
		return ori_fail(ORIEL_EINVAL,
				"oriel_comm_create: options of %zu bytes, expected %zu: use "
				"ORIEL_COMM_OPTIONS_INIT",
				options->size, sizeof(*options));
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
	if (options->device)
		snprintf(config->device, sizeof(config->device), "%s", options->device);
	if (options->topology)
		snprintf(config->topology, sizeof(config->topology), "%s", options->topology);
	if (options->timeout > 0)
		config->timeout = options->timeout;
	if (options->connect)
		config->connect = options->connect == ORIEL_CONNECT_ALL;
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
	struct ori_config config = { .timeout = 60, .late = 10 }; /* to tell of a bad one */
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
	return err ? err : ori_comm_build(own, &config, status, NULL, NULL, comm);
}

/* All that is on the comm's own stream. */
static int await_kernels(struct oriel_comm *c)
{
	int err = c->device->ops->sync(c->device, NULL);

	if (err == ORIEL_ETIMEDOUT)
		__atomic_store_n(&c->overdue, 1, __ATOMIC_RELAXED);
	return err;
}

/*
 * Kernels of a failed comm end when they look at its failure, which another rank may have told the host only.  Until
 * then the memory they look at must stay.
 */
static void end_kernels(struct oriel_comm *c)
{
	if (!c->device->separate || __atomic_load_n(&c->overdue, __ATOMIC_RELAXED))
		return;
	ori_comm_tell_device(c);
	(void)await_kernels(c);
}

int ori_comm_settle(struct oriel_comm *c)
{
	int err;

	if (ori_comm_has_failed(c)) {
		end_kernels(c);
		return 0;
	}
	err = ori_comm_device_status(c, await_kernels(c));
	return err ? err : ori_links_flush(c);
}

static int has_children(struct oriel_comm *c)
{
	int has = 0;

	pthread_mutex_lock(&c->lock);
	for (struct ori_child *child = c->children; child; child = child->next)
		has |= !child->along;
	pthread_mutex_unlock(&c->lock);
	return has;
}

/*
 * An engine may still hold packets for a peer, and with thread ranks that peer's memory is gone once it is freed: all
 * engines stop first.  Who fails here tells no peer in its memory, as that may be another comm's already.
 */
static int stop_together(struct oriel_comm *c)
{
	int err;

	stop_comm(c);
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_COMM_DESTROY, 0, NULL, NULL, 0);
	c->quiet = !err;
	if (err) {
		ori_comm_fail(c, err, c->rank, ori_last_error_text());
		c->boot->ops->abort(c->boot, err, ori_last_error_text());
	}
	return err;
}

int oriel_comm_destroy(struct oriel_comm *c)
{
	int status = 0, err;

	if (!c)
		return 0;
	err = ori_comm_check(c, "oriel_comm_destroy");
	if (err)
		return err;
	/*
	 * Peers may still be storing to control memory of this rank (a wake after the last signal), and
	 * thread ranks share the mapping: all must have come here before it goes.
	 */
	if (!ori_comm_failed(c)) {
		if (has_children(c))
			status = ori_fail(ORIEL_EBUSY,
					  "oriel_comm_destroy: windows or buffers are left");
		else
			status = ori_comm_settle(c);
		err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_COMM_DESTROY, status, NULL, NULL,
				0);
		if (err == ORIEL_EBUSY)
			return err; /* on all ranks: the comm lives on */
		/* Ranks that did not come may still be storing there: the addresses stay. */
		if (err)
			ori_comm_fail_all(c, err, ori_last_error_text());
		else
			err = stop_together(c);
	} else {
		(void)ori_comm_settle(c);
	}
	ori_live_remove(c);
	free_comm(c);
	return err;
}
