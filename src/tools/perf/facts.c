/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/facts.c - what a report says about the machine, the ranks and the kinds of peers.
 *
 * Gathered once, from all ranks, so that all ranks have the same facts and decide the same.
 * Called by: main.c, on the rank's host thread.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* With more ranks only the reasons of rank 0 are gathered: all of them grow with the square. */
#define ALL_REASONS_RANKS 64

/* The text after the colon of the first line that starts with `key`; 0 if there is none. */
static int proc_field(const char *path, const char *key, char *out, size_t out_bytes)
{
	FILE *f = fopen(path, "re");
	char line[512];
	int found = 0;

	if (!f)
		return 0;
	while (!found && fgets(line, sizeof(line), f)) {
		char *text = strchr(line, ':');

		if (!text || strncmp(line, key, strlen(key)))
			continue;
		text += 1 + strspn(text + 1, " \t");
		text[strcspn(text, "\n")] = '\0';
		snprintf(out, out_bytes, "%s", text);
		found = 1;
	}
	fclose(f);
	return found;
}

static void cpu_name(char *out, size_t out_bytes)
{
	char maker[16], part[16];

	if (proc_field("/proc/cpuinfo", "model name", out, out_bytes))
		return;
	/* On Arm there are only numbers of the maker and the part. */
	if (proc_field("/proc/cpuinfo", "CPU implementer", maker, sizeof(maker)) &&
	    proc_field("/proc/cpuinfo", "CPU part", part, sizeof(part)))
		snprintf(out, out_bytes, "implementer %s part %s", maker, part);
	else
		snprintf(out, out_bytes, "unknown");
}

static uint64_t available_bytes(void)
{
	char text[64];

	if (!proc_field("/proc/meminfo", "MemAvailable", text, sizeof(text)))
		return UINT64_MAX;
	return (uint64_t)strtoull(text, NULL, 10) * 1024;
}

/* How ranks share a GPU, according to this rank's environment. */
static void gpu_share(char *out, size_t out_bytes)
{
	const char *percent = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
	char control[256];
	int n = snprintf(control, sizeof(control), "%s/control",
			 folder && *folder ? folder : "/tmp/nvidia-mps");

	if (n < 0 || n >= (int)sizeof(control) || access(control, F_OK))
		snprintf(out, out_bytes, "no MPS daemon: processes on one GPU take turns");
	else if (percent && *percent)
		snprintf(out, out_bytes, "MPS, each rank %.16s%% of the SMs", percent);
	else
		snprintf(out, out_bytes, "MPS, each rank all SMs");
}

static void own_machine(struct perf_facts *f)
{
	struct utsname u;
	time_t now = time(NULL);
	struct tm tm;

	strftime(f->date, sizeof(f->date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	cpu_name(f->cpu, sizeof(f->cpu));
	f->cores = sysconf(_SC_NPROCESSORS_ONLN);
	if (uname(&u))
		snprintf(f->kernel, sizeof(f->kernel), "unknown");
	else
		snprintf(f->kernel, sizeof(f->kernel), "%.24s %.48s %.16s", u.sysname, u.release,
			 u.machine);
}

/* Does the NIC to a queued peer, or the GPU of a mapped peer, lack atomics? */
static int has_peer_without_atomics(const struct perf_job *job)
{
	struct oriel_comm_peer peer;
	struct oriel_comm_dev dev;
	struct oriel_link link;

	if (oriel_comm_device(job->comm, &dev))
		return 0;
	if (dev.flags & ORIEL_PEER_NO_ATOMICS)
		return 1;
	/* The handle is for the device: the host must not follow its pointers. */
	for (int r = 0; r < dev.nranks; r++) {
		if (oriel_copy(job->comm, &peer, &dev.peers[r], sizeof(peer)))
			return 0;
		if (peer.link && !oriel_copy(job->comm, &link, peer.link, sizeof(link)) &&
		    !(link.flags & ORIEL_LINK_ATOMICS))
			return 1;
	}
	return 0;
}

static void own_rank(const struct perf_job *job, struct perf_rank *me)
{
	const char *device = job->opt->device ? job->opt->device : getenv("ORIEL_DEVICE");

	memset(me, 0, sizeof(*me));
	if (gethostname(me->host, sizeof(me->host) - 1))
		snprintf(me->host, sizeof(me->host), "unknown");
	snprintf(me->device, sizeof(me->device), "%s", device && *device ? device : "cpu");
	me->pid = (int32_t)getpid();
	me->node = oriel_comm_node(job->comm, job->rank);
	me->node_rank = oriel_comm_node_rank(job->comm, job->rank);
	me->node_size = oriel_comm_node_size(job->comm, job->rank);
	me->available_bytes = available_bytes();
	me->no_atomics = has_peer_without_atomics(job);
}

/* Computes totals from the facts of all ranks; the same on all ranks. */
static void sum_up(struct perf_facts *f)
{
	size_t n = (size_t)f->nranks;

	for (size_t i = 0; i < n * n; i++)
		f->queued += f->kinds[i] == ORIEL_PEER_QUEUED;
	for (size_t i = 0; i < n; i++)
		f->no_atomics |= f->ranks[i].no_atomics;
}

static int facts_alloc(struct perf_job *job)
{
	struct perf_facts *f = &job->facts;
	size_t n = (size_t)job->nranks;

	f->ranks = calloc(n, sizeof(*f->ranks));
	f->kinds = calloc(n, n);
	f->reasons = calloc(f->has_all ? n * n : n, sizeof(*f->reasons));
	return f->ranks && f->kinds && f->reasons ? 0 : ORIEL_ENOMEM;
}

/* Fills this rank's rows of kinds and reasons, then gathers those of all ranks. */
static int gather_peers(struct perf_job *job)
{
	struct perf_facts *f = &job->facts;
	size_t n = (size_t)job->nranks;
	uint8_t *kinds = calloc(n, 1);
	char(*reasons)[PERF_TEXT] = calloc(n, sizeof(*reasons));
	int err = perf_agree(job, kinds && reasons ? 0 : ORIEL_ENOMEM, "allocating memory");

	for (int r = 0; !err && r < job->nranks; r++) {
		const char *why = oriel_comm_peer_reason(job->comm, r);

		kinds[r] = (uint8_t)oriel_comm_peer_kind(job->comm, r);
		snprintf(reasons[r], sizeof(reasons[r]), "%s", why ? why : "");
	}
	if (!err)
		err = oriel_comm_allgather(job->comm, ORIEL_WORLD, kinds, f->kinds, n);
	if (!err && f->has_all)
		err = oriel_comm_allgather(job->comm, ORIEL_WORLD, reasons, f->reasons,
					   n * sizeof(*reasons));
	else if (!err)
		memcpy(f->reasons, reasons, n * sizeof(*reasons));
	free(reasons);
	free(kinds);
	return err;
}

int perf_facts_gather(struct perf_job *job)
{
	struct perf_facts *f = &job->facts;
	struct perf_rank me;
	int err;

	f->nranks = job->nranks;
	f->nodes = oriel_comm_nodes(job->comm);
	f->has_all = job->nranks <= ALL_REASONS_RANKS;
	own_machine(f);
	if (job->opt->cuda)
		gpu_share(f->share, sizeof(f->share));
	own_rank(job, &me);
	err = perf_agree(job, facts_alloc(job), "allocating memory");
	if (!err)
		err = oriel_comm_allgather(job->comm, ORIEL_WORLD, &me, f->ranks, sizeof(me));
	if (!err)
		err = gather_peers(job);
	if (!err)
		sum_up(f);
	return err;
}

void perf_facts_free(struct perf_facts *f)
{
	free(f->ranks);
	free(f->kinds);
	free(f->reasons);
}

int perf_local_ranks(const struct perf_job *job, int rank)
{
	const struct perf_rank *all = job->facts.ranks;
	int n = 0;

	for (int r = 0; r < job->nranks; r++)
		n += !strcmp(all[r].host, all[rank].host);
	return n;
}
