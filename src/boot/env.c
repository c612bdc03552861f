/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/env.c - the boot that a launcher describes: by PMIx, or by RANK, WORLD_SIZE, MASTER_ADDR,
 * MASTER_PORT and the ORIEL_* variables of the rendezvous.
 *
 * Owns the choice between the two, the checks of those variables, and one rule: without a secret,
 * ranks meet on loopback only.  Rank 0 runs the hub.  Called by: boot.c, on the rank's thread.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

#define RUN_ID_SECRET_BYTES 32
#define TORCHRUN_PORTS 8

struct env_job {
	int rank, nranks, port;
	int ports; /* rank 0 takes the first free port from `port` on */
	const char *host;
};

/* Strict: digits only, and in the range. */
static int env_number(const char *name, long min, long max, int *out)
{
	const char *text = ori_environment_get(name), *at = text;
	long value = 0;

	if (!text)
		return ori_fail(ORIEL_ECONFIG,
				"%s is not set, but others of RANK, WORLD_SIZE, MASTER_ADDR, "
				"MASTER_PORT are: set all four or none",
				name);
	while (*at >= '0' && *at <= '9' && value <= max)
		value = value * 10 + (*at++ - '0');
	if (!*text || *at || value < min || value > max)
		return ori_fail(ORIEL_ECONFIG, "%s=%.40s: must be a number from %ld to %ld", name,
				text, min, max);
	*out = (int)value;
	return 0;
}

static int under_torchrun(void)
{
	return ori_environment_get("TORCHELASTIC_RUN_ID") != NULL;
}

static int env_port(const struct ori_config *config, struct env_job *job)
{
	int err;

	job->ports = 1;
	job->port = config->port;
	if (job->port)
		return 0;
	err = env_number("MASTER_PORT", 1, 65535, &job->port);
	if (err || !under_torchrun())
		return err;
	/* torchrun's own store uses MASTER_PORT, and its connections often use the next ports. */
	if (job->port > 65535 - TORCHRUN_PORTS)
		return ori_fail(ORIEL_ECONFIG,
				"MASTER_PORT=%d: torchrun uses this port, and too few ports "
				"follow it: set ORIEL_PORT",
				job->port);
	job->port++;
	job->ports = TORCHRUN_PORTS;
	return 0;
}

/* Returns 1 if a job is described, 0 if not, or a status. */
static int env_read(const struct ori_config *config, struct env_job *job)
{
	int err;

	if (!ori_environment_get("RANK") && !ori_environment_get("WORLD_SIZE") &&
	    !ori_environment_get("MASTER_ADDR") && !ori_environment_get("MASTER_PORT"))
		return 0;
	err = env_number("WORLD_SIZE", 1, ORI_BOOT_RANKS_MAX, &job->nranks);
	if (!err)
		err = env_number("RANK", 0, job->nranks - 1, &job->rank);
	if (!err)
		err = env_port(config, job);
	if (err)
		return err;
	job->host = ori_environment_get("MASTER_ADDR");
	if (!job->host || !*job->host)
		return ori_fail(ORIEL_ECONFIG,
				"MASTER_ADDR is not set, but others of RANK, WORLD_SIZE, "
				"MASTER_ADDR, MASTER_PORT are: set all four or none");
	return 1;
}

/*
 * torchrun's run id is as good as a secret if torchrun made it (36 characters, random).  An id that
 * a user wrote, such as a job number, can be guessed.
 */
static int has_secret(const struct ori_config *config)
{
	const char *run = ori_environment_get("TORCHELASTIC_RUN_ID");

	return config->secret[0] || (run && strlen(run) >= RUN_ID_SECRET_BYTES);
}

static int take_secret(const struct ori_config *config, const struct env_job *job,
		       struct tcp_place *place)
{
	const char *run = ori_environment_get("TORCHELASTIC_RUN_ID");
	size_t bytes = strlen(config->secret);
	char text[TCP_SECRET_BYTES + 1] = "";

	if (bytes > TCP_SECRET_BYTES)
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_SECRET has %zu bytes, but at most %d are allowed", bytes,
				TCP_SECRET_BYTES);
	/* Secret or not, it separates torchrun jobs with neighbouring ports. */
	if (!bytes && run)
		snprintf(text, sizeof(text), "%d %s", job->port, run);
	memcpy(place->secret, bytes ? config->secret : text, bytes ? bytes : strlen(text));
	if (!has_secret(config) && !ori_tcp_is_loopback(&place->addr))
		return ori_fail(ORIEL_EAUTH,
				"MASTER_ADDR leads to %s, not this host's loopback: set ORIEL_SECRET "
				"to the same text on all ranks",
				place->name);
	return 0;
}

/*
 * The socket that the launcher opened for rank 0.  It must be a socket, and not reachable from more
 * hosts than allowed.
 */
static int check_listen_fd(const struct ori_config *config)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr), int_bytes = sizeof(int);
	int listening = 0;

	if (getsockopt(config->listen_fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &int_bytes) ||
	    !listening || getsockname(config->listen_fd, (struct sockaddr *)&addr, &bytes))
		return ori_fail(ORIEL_ECONFIG, "ORIEL_LISTEN_FD=%d: not a listening socket",
				config->listen_fd);
	if (!has_secret(config) && !ori_tcp_is_loopback(&addr))
		return ori_fail(ORIEL_EAUTH,
				"ORIEL_LISTEN_FD=%d listens beyond loopback: set "
				"ORIEL_SECRET",
				config->listen_fd);
	return 0;
}

static void listen_anywhere(struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET6)
		((struct sockaddr_in6 *)addr)->sin6_addr = in6addr_any;
	else
		((struct sockaddr_in *)addr)->sin_addr.s_addr = htonl(INADDR_ANY);
}

static int is_free(const struct tcp_place *place)
{
	int fd = ori_tcp_socket(place->addr.ss_family), on = 1, bad;

	if (fd < 0)
		return 0;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	bad = bind(fd, (const struct sockaddr *)&place->addr, place->addr_bytes);
	ori_tcp_close(fd);
	return !bad;
}

static int start_hub(const struct ori_config *config, const struct env_job *job,
		     const struct tcp_place *place, struct tcp_hub **hub)
{
	/* ranks still connect to the address that the launcher gave */
	struct tcp_place at = *place;

	if (config->listen_fd) {
		int err = check_listen_fd(config);

		if (err)
			return err;
	} else if (has_secret(config)) {
		/*
		 * The host's own name often resolves to loopback, where other hosts cannot connect.
		 */
		listen_anywhere(&at.addr);
	}
	for (int i = 1; i < job->ports && !is_free(&at); i++)
		ori_tcp_port_set(&at, job->port + i);
	return ori_tcp_hub_start(&at, config->listen_fd, 0, ori_boot_seconds_ns(config->timeout),
				 hub);
}

static int create_by_variables(const struct ori_config *config, const struct env_job *job,
			       struct oriel_boot **boot)
{
	struct tcp_place place;
	struct tcp_join join = { .place = &place };
	int err;

	ori_log_rank_set(job->rank);
	if (job->nranks == 1)
		return ori_boot_single_create(boot);
	memset(&place, 0, sizeof(place));
	err = ori_tcp_resolve("MASTER_ADDR", job->host, job->port, &place);
	if (!err)
		err = take_secret(config, job, &place);
	if (!err && job->rank == 0)
		err = start_hub(config, job, &place, &join.hub);
	if (err)
		return err;
	join.rank = job->rank;
	join.nranks = job->nranks;
	join.ports = job->ports;
	join.of_rank_0 = 1;
	join.listening = config->listening;
	join.timeout_ns = ori_boot_seconds_ns(config->timeout);
	join.late_ns = ori_boot_seconds_ns(config->late);
	return ori_tcp_join_create(&join, boot);
}

/* ---- which launcher ------------------------------------------------------------------------- */

enum launcher { LAUNCHER_AUTO, LAUNCHER_PMIX, LAUNCHER_ENV, LAUNCHER_NONE };

static int read_launcher(const struct ori_config *config, enum launcher *out)
{
	static const char *const words[] = { "auto", "pmix", "env", "none" };

	for (size_t i = 0; i < ORI_COUNT(words); i++) {
		if (!strcmp(config->launcher, words[i])) {
			*out = (enum launcher)i;
			return 0;
		}
	}
	return ori_fail(ORIEL_ECONFIG, "ORIEL_LAUNCHER=%.40s: must be auto, pmix, env or none",
			config->launcher);
}

/*
 * PMIx has priority, with one exception.  If a PMIx launcher started torchrun once per host,
 * torchrun passes the launcher's variables to all its ranks.  There they are wrong.  For that case
 * oriel-run sets ORIEL_LAUNCHER=env.
 */
static int is_pmix(enum launcher launcher)
{
	if (launcher != LAUNCHER_AUTO)
		return launcher == LAUNCHER_PMIX;
	return ori_boot_pmix_present() &&
	       !(ori_environment_get("TORCHELASTIC_RUN_ID") && ori_environment_get("RANK"));
}

/*
 * Warns a rank that is alone although its launcher started several.  Nothing else would show this
 * mistake.
 */
static void warn_if_many(void)
{
	static const char *const sizes[] = { "SLURM_STEP_NUM_TASKS", "PMI_SIZE",
					     "OMPI_COMM_WORLD_SIZE" };

	for (size_t i = 0; i < ORI_COUNT(sizes); i++) {
		const char *text = ori_environment_get(sizes[i]);

		if (!text || atoi(text) < 2)
			continue;
		ori_log(ORI_LOG_WARN,
			"%s=%.20s, but this launcher neither speaks PMIx nor sets RANK and "
			"WORLD_SIZE: this process is a job of one rank (docs/launchers.md; with "
			"Slurm: srun --mpi=pmix)",
			sizes[i], text);
		return;
	}
}

int ori_boot_env_create(const struct ori_config *config, struct oriel_boot **boot)
{
	enum launcher launcher = LAUNCHER_AUTO;
	struct env_job job;
	int found = read_launcher(config, &launcher);

	if (found)
		return found;
	if (launcher == LAUNCHER_NONE)
		return ori_boot_single_create(boot);
	if (is_pmix(launcher))
		return ori_boot_pmix_create(config, boot);
	found = env_read(config, &job);
	if (found < 0)
		return found;
	if (found)
		return create_by_variables(config, &job, boot);
	if (launcher == LAUNCHER_ENV)
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_LAUNCHER=env, but RANK, WORLD_SIZE, MASTER_ADDR "
				"and MASTER_PORT are not set");
	warn_if_many();
	return ori_boot_single_create(boot);
}
