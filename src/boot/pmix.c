/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/pmix.c - the boot of ranks that a PMIx server started: mpirun of Open MPI, srun --mpi=pmix,
 * prun.
 *
 * PMIx gives this rank its number and carries one record: where rank 0's hub listens, and the
 * secret of the job.  The rest is the TCP boot, so a dead rank is detected and named as under any
 * other launcher (docs/decisions/0014).  libpmix is loaded when it is needed, and finalized before
 * this returns: none of its threads stays in the process.
 *
 * Called by: env.c, on the rank's thread, one call at a time per process.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"
#include "pmix_abi.h"

/*
 * The number of boots that this process has made.  Each has its own key, because PMIx never deletes
 * a value.
 */
static unsigned boots; /* atomic */
static void *lib;      /* never closed: libpmix leaves handlers behind that must stay mapped */

struct pmix_job {
	struct ori_pmix_api api;
	struct ori_pmix_proc self;
	int rank, nranks;
	int local; /* all ranks are on this host */
	char key[32];
};

/* ---- the library ---------------------------------------------------------------------------- */

int ori_boot_pmix_present(void)
{
	return ori_environment_get("PMIX_NAMESPACE") && ori_environment_get("PMIX_RANK");
}

static int load(const struct ori_config *config, struct ori_pmix_api *api)
{
	int self = !strcmp(config->pmix_library, "self");

	lib = dlopen(self ? NULL : config->pmix_library, RTLD_NOW | RTLD_GLOBAL);
	if (!lib)
		return ori_fail(ORIEL_ECONFIG,
				"this rank was started by PMIx, whose library cannot be loaded: "
				"%s; install it (Debian: libpmix2), or set ORIEL_LAUNCHER=env and "
				"RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT",
				dlerror());
	*(void **)&api->init = dlsym(lib, "PMIx_Init");
	*(void **)&api->finalize = dlsym(lib, "PMIx_Finalize");
	*(void **)&api->put = dlsym(lib, "PMIx_Put");
	*(void **)&api->commit = dlsym(lib, "PMIx_Commit");
	*(void **)&api->fence_nb = dlsym(lib, "PMIx_Fence_nb");
	*(void **)&api->get = dlsym(lib, "PMIx_Get");
	*(void **)&api->error_string = dlsym(lib, "PMIx_Error_string");
	if (!api->init || !api->finalize || !api->put || !api->commit || !api->fence_nb ||
	    !api->get || !api->error_string)
		return ori_fail(ORIEL_ECONFIG, "%s is not a PMIx library: functions are missing",
				config->pmix_library);
	return 0;
}

static int fail_pmix(const struct pmix_job *job, const char *call, int status)
{
	return ori_fail(ORIEL_EBOOT, "%s: %s (%d)", call, job->api.error_string(status), status);
}

/* ---- what the server knows ------------------------------------------------------------------ */

static void value_free(struct ori_pmix_value *v)
{
	if (v->type == ORI_PMIX_TYPE_BYTES)
		free(v->data.object.bytes);
	free(v);
}

/* A number that describes the whole job. */
static int get_number(struct pmix_job *job, const char *key, uint32_t *out)
{
	struct ori_pmix_proc all = job->self;
	struct ori_pmix_value *v = NULL;
	int status;

	all.rank = ORI_PMIX_RANK_WILDCARD;
	status = job->api.get(&all, key, NULL, 0, &v);
	if (status != ORI_PMIX_SUCCESS)
		return status;
	if (v->type != ORI_PMIX_TYPE_UINT32)
		status = -1;
	else
		*out = v->data.uint32;
	value_free(v);
	return status;
}

static int ask_who(struct pmix_job *job)
{
	uint32_t nranks = 0, here = 0;
	int status = get_number(job, ORI_PMIX_KEY_JOB_SIZE, &nranks);

	if (status != ORI_PMIX_SUCCESS)
		return fail_pmix(job, "the number of ranks, from PMIx", status);
	if (nranks < 1 || nranks > ORI_BOOT_RANKS_MAX || job->self.rank >= nranks)
		return ori_fail(ORIEL_ERANGE,
				"PMIx says that this is rank %u of %u, but a job has 1 to %d "
				"ranks",
				job->self.rank, nranks, ORI_BOOT_RANKS_MAX);
	job->rank = (int)job->self.rank;
	job->nranks = (int)nranks;
	/* Not every server provides it.  Then the addresses of rank 0's host decide. */
	job->local = get_number(job, ORI_PMIX_KEY_LOCAL_SIZE, &here) == ORI_PMIX_SUCCESS &&
		     here == nranks;
	return 0;
}

/* ---- the exchange --------------------------------------------------------------------------- */

/* Outlives its call if the answer comes after the deadline, so it has two owners. */
struct fence {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int ended, status, left; /* left: the other owner is gone, so the last one frees */
};

static void fence_free(struct fence *f)
{
	pthread_mutex_destroy(&f->lock);
	pthread_cond_destroy(&f->cond);
	free(f);
}

static void fence_leave(struct fence *f)
{
	int last = f->left++;

	pthread_mutex_unlock(&f->lock);
	if (last)
		fence_free(f);
}

/* Runs on libpmix's thread. */
static void fence_ended(int status, void *ctx)
{
	struct fence *f = ctx;

	pthread_mutex_lock(&f->lock);
	f->status = status;
	f->ended = 1;
	pthread_cond_broadcast(&f->cond);
	fence_leave(f);
}

static int fence_wait(struct pmix_job *job, struct fence *f, double seconds)
{
	uint64_t until = ori_deadline_ns(ori_boot_seconds_ns(seconds));
	struct timespec when;
	int err = 0;

	ori_boot_timespec(until, &when);
	pthread_mutex_lock(&f->lock);
	while (!f->ended && err != ETIMEDOUT)
		err = pthread_cond_timedwait(&f->cond, &f->lock, &when);
	if (!f->ended)
		err = ori_fail(ORIEL_ETIMEDOUT,
			       "rank %d of %d: some rank did not reach oriel_boot_env within %.1f s "
			       "(PMIx does not say which)",
			       job->rank, job->nranks, seconds);
	else
		err = f->status == ORI_PMIX_SUCCESS ? 0 : fail_pmix(job, "PMIx_Fence", f->status);
	fence_leave(f);
	return err;
}

/* Returns when all ranks are here, and rank 0's record is at every host. */
static int meet(struct pmix_job *job, const struct ori_config *config)
{
	struct ori_pmix_proc all = job->self;
	struct ori_pmix_info collect;
	struct fence *f = calloc(1, sizeof(*f));
	int status;

	if (!f || ori_boot_cond_init(&f->cond)) {
		free(f);
		return ori_fail(ORIEL_ENOMEM, "no memory to meet the other ranks");
	}
	pthread_mutex_init(&f->lock, NULL);
	all.rank = ORI_PMIX_RANK_WILDCARD;
	memset(&collect, 0, sizeof(collect));
	strcpy(collect.key, ORI_PMIX_KEY_COLLECT);
	collect.value.type = ORI_PMIX_TYPE_BOOL;
	collect.value.data.flag = 1;
	status = job->api.fence_nb(&all, 1, &collect, 1, fence_ended, f);
	if (status == ORI_PMIX_SUCCESS)
		return fence_wait(job, f, config->timeout);
	fence_free(f);
	return status == ORI_PMIX_OPERATION_SUCCEEDED ? 0 : fail_pmix(job, "PMIx_Fence", status);
}

static int put_offer(struct pmix_job *job, struct ori_offer *offer)
{
	struct ori_pmix_value v;
	int status;

	memset(&v, 0, sizeof(v));
	v.type = ORI_PMIX_TYPE_BYTES;
	v.data.object.bytes = (char *)offer;
	v.data.object.size = sizeof(*offer);
	status = job->api.put(ORI_PMIX_SCOPE_GLOBAL, job->key, &v);
	if (status == ORI_PMIX_SUCCESS)
		status = job->api.commit();
	return status == ORI_PMIX_SUCCESS ? 0 : fail_pmix(job, "PMIx_Put", status);
}

static int get_offer(struct pmix_job *job, struct ori_offer *offer)
{
	struct ori_pmix_proc first = job->self;
	struct ori_pmix_value *v = NULL;
	int status, err = 0;

	first.rank = 0;
	status = job->api.get(&first, job->key, NULL, 0, &v);
	if (status != ORI_PMIX_SUCCESS)
		return fail_pmix(job, "rank 0's address, from PMIx", status);
	if (v->type != ORI_PMIX_TYPE_BYTES || v->data.object.size != sizeof(*offer))
		err = ori_fail(ORIEL_EPROTO,
			       "the address record of rank 0 has another version: use the same "
			       "liboriel on all ranks");
	else
		memcpy(offer, v->data.object.bytes, sizeof(*offer));
	value_free(v);
	if (!err && offer->status)
		err = ori_fail(ori_status_received(offer->status, ORIEL_EPROTO),
			       "rank 0 could not open the rendezvous: %s",
			       oriel_status_text(offer->status));
	return err;
}

/* ---- rank 0's hub --------------------------------------------------------------------------- */

static int open_hub(struct pmix_job *job, const struct ori_config *config, struct ori_offer *offer,
		    struct tcp_hub **hub)
{
	size_t bytes = strlen(config->secret);
	struct tcp_place at;
	int err = ori_offer_addresses(config, job->local, offer);

	if (bytes > TCP_SECRET_BYTES)
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_SECRET has %zu bytes, but at most %d are allowed", bytes,
				TCP_SECRET_BYTES);
	if (bytes)
		memcpy(offer->secret, config->secret, bytes);
	else if (!err)
		err = ori_random_bytes(offer->secret, sizeof(offer->secret));
	memset(&at, 0, sizeof(at));
	if (!err)
		err = ori_tcp_resolve("ORIEL_PORT", job->local ? "127.0.0.1" : "0.0.0.0",
				      config->port, &at);
	if (!err && !job->local && offer->address[0].family == AF_INET6)
		err = ori_tcp_resolve("ORIEL_PORT", "::", config->port, &at);
	if (err)
		return err;
	memcpy(at.secret, offer->secret, sizeof(at.secret));
	err = ori_tcp_hub_start(&at, 0, 0, ori_boot_seconds_ns(config->timeout), hub);
	if (!err)
		offer->port = (uint32_t)ori_tcp_port(&at);
	return err;
}

/* A rank 0 without a hub must also come to the fence.  There the others learn what went wrong. */
static int exchange(struct pmix_job *job, const struct ori_config *config, struct ori_offer *offer,
		    struct tcp_hub **hub)
{
	int err = 0, met;

	memset(offer, 0, sizeof(*offer));
	snprintf(job->key, sizeof(job->key), "oriel.boot.%u",
		 __atomic_fetch_add(&boots, 1, __ATOMIC_RELAXED));
	if (job->rank == 0) {
		offer->status = err = open_hub(job, config, offer, hub);
		met = put_offer(job, offer);
		err = err ? err : met;
	}
	met = meet(job, config);
	err = err ? err : met;
	if (!err && job->rank)
		err = get_offer(job, offer);
	return err;
}

static int join(const struct pmix_job *job, const struct ori_config *config,
		const struct ori_offer *offer, struct tcp_hub *hub, struct oriel_boot **boot)
{
	struct tcp_place place;
	struct tcp_join join = { .place = &place, .hub = hub, .of_rank_0 = 1 };
	int err = ori_offer_take(offer, &place);

	if (err) {
		ori_tcp_hub_release(hub, 0);
		return err;
	}
	join.rank = job->rank;
	join.nranks = job->nranks;
	join.timeout_ns = ori_boot_seconds_ns(config->timeout);
	join.late_ns = ori_boot_seconds_ns(config->late);
	return ori_tcp_join_create(&join, boot);
}

int ori_boot_pmix_create(const struct ori_config *config, struct oriel_boot **boot)
{
	struct pmix_job job;
	struct ori_offer offer;
	struct tcp_hub *hub = NULL;
	int status, err;

	memset(&job, 0, sizeof(job));
	err = load(config, &job.api);
	if (err)
		return err;
	status = job.api.init(&job.self, NULL, 0);
	if (status != ORI_PMIX_SUCCESS)
		return fail_pmix(&job, "PMIx_Init", status);
	err = ask_who(&job);
	if (!err)
		ori_log_rank_set(job.rank);
	if (!err && job.nranks > 1)
		err = exchange(&job, config, &offer, &hub);
	/*
	 * From here on the launcher sees only this rank's exit status.  The other ranks detect its
	 * death by TCP.
	 */
	status = job.api.finalize(NULL, 0);
	if (!err && status != ORI_PMIX_SUCCESS)
		err = fail_pmix(&job, "PMIx_Finalize", status);
	if (!err && job.nranks == 1)
		return ori_boot_single_create(boot);
	if (!err)
		return join(&job, config, &offer, hub, boot);
	ori_tcp_hub_release(hub, 0);
	return err;
}
