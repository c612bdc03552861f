/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/topology.c - from the facts of all ranks to nodes, peer kinds and reasons.
 *
 * Two steps.  decide() gives a verdict for a pair of ranks alone: why they are mapped, or why not.
 * build_nodes() then makes nodes: sets of ranks in which every pair is mapped.  This is a step of
 * its own because "mapped" need not be transitive.  Both are pure, so every rank gets the same
 * answer from the same facts.
 *
 * Does not gather facts (facts.c) and does not read layout texts (layout.c).  Called by comm
 * creation, split and oriel-info, on any thread.  The facts come from other processes: before use,
 * check_facts() tests every value that serves as an index, a shift or a string.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../util/util.h"
#include "topology.h"
#include <oriel/device/types.h>

#define GPUS_MAX 64   /* bits of gpu_access */
#define HOST_SHOWN 24 /* two names and a sentence fit into a reason */

/* What decided a pair.  VIA_: mapped.  CUT_: not mapped. */
enum verdict {
	VIA_FABRIC,
	VIA_SAME_GPU,
	VIA_PEER_ACCESS,
	VIA_SHARED_MEMORY,
	VIA_LAST = VIA_SHARED_MEMORY,
	CUT_LAYOUT,
	CUT_PARENT,
	CUT_MAPPED_OFF,
	CUT_MIXED_DEVICES,
	CUT_NO_ACCESS,
	CUT_HOSTS,
};

static int is_mapped(enum verdict v)
{
	return v <= VIA_LAST;
}

static int fabric_usable(const struct ori_facts *f)
{
	return f->fabric_available && f->fabric_mode != ORI_MODE_OFF;
}

static int same_fabric(const struct ori_facts *a, const struct ori_facts *b)
{
	return !memcmp(a->fabric_uuid, b->fabric_uuid, sizeof(a->fabric_uuid));
}

static int can_access(const struct ori_facts *a, const struct ori_facts *b)
{
	return (int)(a->gpu_access >> b->gpu & 1);
}

static int has_atomics(const struct ori_facts *a, const struct ori_facts *b)
{
	return (int)(a->gpu_atomics >> b->gpu & 1);
}

int ori_facts_lack_atomics(const struct ori_facts *facts, int nranks)
{
	for (int r = 0; r < nranks; r++)
		if (facts[r].gpu_access & ~facts[r].gpu_atomics)
			return 1;
	return 0;
}

static enum verdict decide_cuda(const struct ori_facts *a, const struct ori_facts *b)
{
	if (fabric_usable(a) && fabric_usable(b) && same_fabric(a, b) &&
	    a->fabric_clique == b->fabric_clique)
		return VIA_FABRIC;
	if (a->host_id != b->host_id)
		return CUT_HOSTS;
	/* A GPU has no peer access to itself, but its processes can map each other's memory. */
	if (a->gpu == b->gpu)
		return VIA_SAME_GPU;
	return can_access(a, b) && can_access(b, a) ? VIA_PEER_ACCESS : CUT_NO_ACCESS;
}

/* The verdict for two ranks alone; node_a and node_b come from a layout or a parent comm. */
static enum verdict decide(const struct ori_facts *a, const struct ori_facts *b, int node_a,
			   int node_b)
{
	if (node_a != node_b)
		return a->forced_node >= 0 ? CUT_PARENT : CUT_LAYOUT;
	if (!a->mapped_allowed || !b->mapped_allowed)
		return CUT_MAPPED_OFF;
	if (a->device != b->device)
		return CUT_MIXED_DEVICES;
	if (a->device == ORI_DEVICE_CUDA)
		return decide_cuda(a, b);
	return a->host_id == b->host_id ? VIA_SHARED_MEMORY : CUT_HOSTS;
}

/* ---- checks --------------------------------------------------------------------------------- */

static int check_facts(const struct ori_facts *f, int rank)
{
	const char *what = NULL;

	if (!memchr(f->host, 0, sizeof(f->host)) || !memchr(f->layout, 0, sizeof(f->layout)))
		what = "a text without an end";
	else if (f->device != ORI_DEVICE_CPU && f->device != ORI_DEVICE_CUDA)
		what = "an unknown kind of device";
	else if (f->device == ORI_DEVICE_CUDA && (f->gpu < 0 || f->gpu >= GPUS_MAX))
		what = "a GPU number out of range";
	else if (f->fabric_mode < ORI_MODE_AUTO || f->fabric_mode > ORI_MODE_OFF)
		what = "an unknown fabric mode";
	if (what)
		return ori_fail(ORIEL_EPROTO, "rank %d sent facts with %s", rank, what);
	return 0;
}

static const char *mode_name(int mode)
{
	return mode == ORI_MODE_ON ? "on" : mode == ORI_MODE_OFF ? "off" : "auto";
}

/* Compares settings that must be the same on all ranks with those of rank 0. */
static int check_alike(const struct ori_facts *first, const struct ori_facts *f, int rank)
{
	if ((first->forced_node >= 0) != (f->forced_node >= 0))
		return ori_fail(ORIEL_EMISMATCH,
				"only one of ranks 0 and %d inherits its node from a parent comm",
				rank);
	if (first->forced_node < 0 && strcmp(first->layout, f->layout))
		return ori_fail(ORIEL_EMISMATCH,
				"ranks 0 and %d disagree on ORIEL_TOPOLOGY: \"%s\" and \"%s\"",
				rank, first->layout, f->layout);
	if (first->fabric_mode != f->fabric_mode)
		return ori_fail(ORIEL_EMISMATCH,
				"ranks 0 and %d disagree on ORIEL_FABRIC: %s and %s", rank,
				mode_name(first->fabric_mode), mode_name(f->fabric_mode));
	return 0;
}

static int check_all(const struct ori_facts *facts, int nranks)
{
	int err = 0;

	for (int r = 0; r < nranks && !err; r++)
		err = check_facts(&facts[r], r);
	for (int r = 1; r < nranks && !err; r++)
		err = check_alike(&facts[0], &facts[r], r);
	for (int r = 0; r < nranks && !err; r++)
		if (facts[r].fabric_mode == ORI_MODE_ON && !facts[r].fabric_available)
			err = ori_fail(ORIEL_EUNSUPPORTED,
				       "ORIEL_FABRIC=on, but rank %d on %s has no NVLink fabric%s",
				       r, facts[r].host,
				       facts[r].fabric_refused ?
					       " that takes its memory: has its process an IMEX "
					       "channel?" :
					       "");
	return err;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* The node of a rank in a layout or a parent comm.  Without either it is 0 for all ranks. */
static int emulated_node(const struct ori_facts *facts, int rank)
{
	if (facts[rank].forced_node >= 0)
		return facts[rank].forced_node;
	return facts[0].layout[0] ? ori_layout_node(facts[0].layout, rank) : 0;
}

/* Scratch of build_nodes(), one array of each per rank or node. */
struct builder {
	int *emulated; /* [rank] */
	int *next;     /* [rank] the next member of its node, -1 at the end */
	int *head;     /* [node] lowest member */
	int *tail;     /* [node] highest member so far */
};

static int fits(const struct ori_facts *facts, const struct builder *b, int node, int rank)
{
	for (int m = b->head[node]; m >= 0; m = b->next[m])
		if (!is_mapped(decide(&facts[m], &facts[rank], b->emulated[m], b->emulated[rank])))
			return 0;
	return 1;
}

/*
 * In the order of ranks, each rank joins the first node in which it is mapped to all members.  Each
 * pair is decided at most once: n * n / 2 verdicts.  Nodes are numbered by their lowest rank.
 */
static void build_nodes(const struct ori_facts *facts, struct builder *b, struct ori_topology *t)
{
	for (int r = 0; r < t->nranks; r++) {
		int n = 0;

		b->next[r] = -1;
		while (n < t->nnodes && !fits(facts, b, n, r))
			n++;
		if (n == t->nnodes) {
			b->head[t->nnodes++] = r;
		} else {
			b->next[b->tail[n]] = r;
			t->node_rank[r] = t->node_rank[b->tail[n]] + 1;
		}
		b->tail[n] = r;
		t->node[r] = n;
	}
	for (int r = 0; r < t->nranks; r++)
		t->node_size[r] = t->node_rank[b->tail[t->node[r]]] + 1;
}

static int read_layout(const struct ori_facts *facts, int nranks, int *emulated)
{
	if (facts[0].forced_node < 0 && facts[0].layout[0])
		return ori_layout_parse(facts[0].layout, nranks, emulated);
	for (int r = 0; r < nranks; r++)
		emulated[r] = emulated_node(facts, r);
	return 0;
}

int ori_classify(const struct ori_facts *facts, int nranks, struct ori_topology *out)
{
	struct ori_topology t = { .nranks = nranks };
	struct builder b;
	int *scratch;
	int err;

	if (!facts || !out || nranks < 1)
		return ori_fail(ORIEL_EINVAL, "a topology needs the facts of at least one rank");
	err = check_all(facts, nranks);
	if (err)
		return err;
	t.node = calloc((size_t)nranks, 3 * sizeof(*t.node));
	scratch = calloc((size_t)nranks, 4 * sizeof(*scratch));
	if (!t.node || !scratch) {
		err = ori_fail(ORIEL_ENOMEM, "no memory for the topology of %d ranks", nranks);
		goto err_arrays;
	}
	t.node_rank = t.node + nranks;
	t.node_size = t.node_rank + nranks;
	b.emulated = scratch;
	b.next = b.emulated + nranks;
	b.head = b.next + nranks;
	b.tail = b.head + nranks;
	err = read_layout(facts, nranks, b.emulated);
	if (err)
		goto err_arrays;
	build_nodes(facts, &b, &t);
	free(scratch);
	*out = t;
	return 0;

err_arrays:
	free(scratch);
	free(t.node);
	return err;
}

void ori_topology_free(struct ori_topology *t)
{
	if (!t)
		return;
	free(t->node); /* node_rank and node_size are parts of the same block */
	memset(t, 0, sizeof(*t));
}

/* ---- reasons -------------------------------------------------------------------------------- */

/* Why two GPUs on different hosts have no fabric between them; a < b. */
static void fabric_obstacle(const struct ori_facts *facts, int a, int b, char *out, size_t size)
{
	const struct ori_facts *fa = &facts[a], *fb = &facts[b];
	const char *why = same_fabric(fa, fb) ? ", two cliques" : ", two fabrics";

	if (fa->device != ORI_DEVICE_CUDA)
		why = "";
	else if (fa->fabric_mode == ORI_MODE_OFF || fb->fabric_mode == ORI_MODE_OFF)
		why = ", ORIEL_FABRIC=off";
	else if (fa->fabric_refused || fb->fabric_refused)
		why = NULL;
	else if (!fa->fabric_available || !fb->fabric_available)
		why = ", no fabric";
	if (why)
		snprintf(out, size, "%s", why);
	else
		snprintf(out, size, ", the fabric takes no memory of rank %d (IMEX)",
			 fa->fabric_refused ? a : b);
}

/* Writes the reason for a verdict.  a < b, so both ranks of a pair give the same text. */
static void explain(const struct ori_facts *facts, enum verdict v, int a, int b, char *out)
{
	const struct ori_facts *fa = &facts[a], *fb = &facts[b];
	int na = emulated_node(facts, a), nb = emulated_node(facts, b);
	int low = na < nb ? na : nb, high = na < nb ? nb : na;
	size_t size = ORI_REASON_MAX;
	char why[48];

	switch (v) {
	case VIA_FABRIC:
		snprintf(out, size, "one NVLink fabric, clique %" PRIu32, fa->fabric_clique);
		break;
	case VIA_SAME_GPU:
		snprintf(out, size, "both on GPU %d of %.*s", fa->gpu, HOST_SHOWN, fa->host);
		break;
	case VIA_PEER_ACCESS:
		snprintf(out, size, "peer access between GPUs of %.*s%s", HOST_SHOWN, fa->host,
			 has_atomics(fa, fb) && has_atomics(fb, fa) ? "" : ", without atomics");
		break;
	case VIA_SHARED_MEMORY:
		snprintf(out, size, "shared memory on %.*s", HOST_SHOWN, fa->host);
		break;
	case CUT_LAYOUT:
		snprintf(out, size, "ORIEL_TOPOLOGY puts them on nodes %d and %d", low, high);
		break;
	case CUT_PARENT:
		snprintf(out, size, "the parent comm has them on nodes %d and %d", low, high);
		break;
	case CUT_MAPPED_OFF:
		snprintf(out, size, "ORIEL_MAPPED=0 on rank %d", fa->mapped_allowed ? b : a);
		break;
	case CUT_MIXED_DEVICES:
		snprintf(out, size, "one is a CPU rank, the other a CUDA rank");
		break;
	case CUT_NO_ACCESS:
		snprintf(out, size, "no peer access between GPU %d and GPU %d of %.*s", fa->gpu,
			 fb->gpu, HOST_SHOWN, fa->host);
		break;
	case CUT_HOSTS:
		fabric_obstacle(facts, a, b, why, sizeof(why));
		snprintf(out, size, "different hosts %.*s and %.*s%s", HOST_SHOWN, fa->host,
			 HOST_SHOWN, fb->host, why);
		break;
	}
}

/*
 * The two ranks alone would be mapped, but they are on two nodes: some member of the first node
 * is not mapped to the rank of the second.  Names the lowest such member.
 */
static void explain_split(const struct ori_facts *facts, const struct ori_topology *t, int a, int b,
			  char *out)
{
	int inside = t->node[a] < t->node[b] ? a : b, outside = inside == a ? b : a;
	int node_out = emulated_node(facts, outside), m;

	for (m = 0; m < t->nranks; m++)
		if (t->node[m] == t->node[inside] &&
		    !is_mapped(
			    decide(&facts[m], &facts[outside], emulated_node(facts, m), node_out)))
			break;
	snprintf(out, ORI_REASON_MAX, "mapped alone, but rank %d of its node cannot reach rank %d",
		 m, outside);
}

int ori_classify_pair(const struct ori_facts *facts, const struct ori_topology *topology, int a,
		      int b, struct ori_pair *pair)
{
	struct ori_pair p = { .kind = ORIEL_PEER_SELF, .reason = "the rank itself" };
	enum verdict v;
	int low = a < b ? a : b, high = a < b ? b : a;

	if (!facts || !topology || !pair)
		return ori_fail(ORIEL_EINVAL,
				"a pair needs facts, a topology and a place for the answer");
	if (low < 0 || high >= topology->nranks)
		return ori_fail(ORIEL_ERANGE, "no pair of ranks %d and %d among %d ranks", a, b,
				topology->nranks);
	if (a != b) {
		v = decide(&facts[low], &facts[high], emulated_node(facts, low),
			   emulated_node(facts, high));
		p.kind = topology->node[a] == topology->node[b] ? ORIEL_PEER_MAPPED :
								  ORIEL_PEER_QUEUED;
		/* NVLink fabrics have atomics, and so has a GPU on its own memory */
		if (v == VIA_PEER_ACCESS && !has_atomics(&facts[a], &facts[b]))
			p.flags = ORIEL_PEER_NO_ATOMICS;
		if (is_mapped(v) && p.kind == ORIEL_PEER_QUEUED)
			explain_split(facts, topology, low, high, p.reason);
		else
			explain(facts, v, low, high, p.reason);
	}
	*pair = p;
	return 0;
}
