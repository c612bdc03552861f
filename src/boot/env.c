/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/env.c - the boot a launcher describes: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, beside
 * the ORIEL_* variables of the rendezvous.
 *
 * Owns the checks of those variables and the rule that without a secret ranks meet on loopback
 * only.  Rank 0 holds the hub.  Called by: boot.c, on the rank's thread.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "tcp.h"

struct env_job {
	int rank, nranks, port;
	const char *host;
};

/* Strict: digits only, within the range. */
static int env_number(const char *name, long min, long max, int *out)
{
	const char *text = getenv(name), *at = text;
	long value = 0;

	if (!text)
		return ori_fail(ORIEL_ECONFIG,
				"%s is not set, though others of RANK, WORLD_SIZE, "
				"MASTER_ADDR, MASTER_PORT are",
				name);
	while (*at >= '0' && *at <= '9' && value <= max)
		value = value * 10 + (*at++ - '0');
	if (!*text || *at || value < min || value > max)
		return ori_fail(ORIEL_ECONFIG, "%s=%.40s: must be a number from %ld to %ld", name,
				text, min, max);
	*out = (int)value;
	return 0;
}

static int env_port(const struct ori_config *config, int *port)
{
	int err;

	if (config->port) {
		*port = config->port;
		return 0;
	}
	err = env_number("MASTER_PORT", 1, 65535, port);
	if (err)
		return err;
	/* torchrun's own store has MASTER_PORT */
	if (!getenv("TORCHELASTIC_RUN_ID"))
		return 0;
	if (*port == 65535)
		return ori_fail(ORIEL_ECONFIG,
				"MASTER_PORT=65535: torchrun has that port and there is "
				"none after it; set ORIEL_PORT");
	(*port)++;
	return 0;
}

/* 1: a job is described, 0: none is, or a status. */
static int env_read(const struct ori_config *config, struct env_job *job)
{
	int err;

	if (!getenv("RANK") && !getenv("WORLD_SIZE") && !getenv("MASTER_ADDR") &&
	    !getenv("MASTER_PORT"))
		return 0;
	err = env_number("WORLD_SIZE", 1, ORI_BOOT_RANKS_MAX, &job->nranks);
	if (!err)
		err = env_number("RANK", 0, job->nranks - 1, &job->rank);
	if (!err)
		err = env_port(config, &job->port);
	if (err)
		return err;
	job->host = getenv("MASTER_ADDR");
	if (!job->host || !*job->host)
		return ori_fail(ORIEL_ECONFIG, "MASTER_ADDR is not set, though others of RANK, "
					       "WORLD_SIZE, MASTER_ADDR, MASTER_PORT are");
	return 1;
}

static int take_secret(const struct ori_config *config, struct tcp_place *place)
{
	size_t bytes = strlen(config->secret);

	if (bytes > TCP_SECRET_BYTES)
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_SECRET has %zu bytes, at most %d are possible", bytes,
				TCP_SECRET_BYTES);
	memcpy(place->secret, config->secret, bytes);
	if (!bytes && !ori_tcp_is_loopback(&place->addr))
		return ori_fail(ORIEL_EAUTH,
				"MASTER_ADDR leads to %s, not this host's loopback: set ORIEL_SECRET "
				"to the same text on all ranks",
				place->name);
	return 0;
}

/* The socket the launcher opened for rank 0; it must be one, and no wider open than allowed. */
static int check_listen_fd(const struct ori_config *config)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr), int_bytes = sizeof(int);
	int listening = 0;

	if (getsockopt(config->listen_fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &int_bytes) ||
	    !listening || getsockname(config->listen_fd, (struct sockaddr *)&addr, &bytes))
		return ori_fail(ORIEL_ECONFIG, "ORIEL_LISTEN_FD=%d: not a listening socket",
				config->listen_fd);
	if (!config->secret[0] && !ori_tcp_is_loopback(&addr))
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

static int start_hub(const struct ori_config *config, struct tcp_place *place, struct tcp_hub **hub)
{
	struct tcp_place at = *place; /* where ranks knock stays as the launcher said */

	if (config->listen_fd) {
		int err = check_listen_fd(config);

		if (err)
			return err;
	} else if (config->secret[0]) {
		/* this host's own name often leads to its loopback, where the others cannot knock */
		listen_anywhere(&at.addr);
	}
	return ori_tcp_hub_start(&at, config->listen_fd, 0, ori_boot_seconds_ns(config->timeout),
				 hub);
}

int ori_boot_env_create(const struct ori_config *config, struct oriel_boot **boot)
{
	struct tcp_place place;
	struct env_job job;
	struct tcp_join join = { .place = &place };
	int err = env_read(config, &job);

	if (err < 0)
		return err;
	if (!err)
		return ori_boot_single_create(boot);
	ori_log_rank_set(job.rank);
	if (job.nranks == 1)
		return ori_boot_single_create(boot);
	memset(&place, 0, sizeof(place));
	err = ori_tcp_resolve("MASTER_ADDR", job.host, job.port, &place);
	if (!err)
		err = take_secret(config, &place);
	if (!err && job.rank == 0)
		err = start_hub(config, &place, &join.hub);
	if (err)
		return err;
	join.rank = job.rank;
	join.nranks = job.nranks;
	join.timeout_ns = ori_boot_seconds_ns(config->timeout);
	join.late_ns = ori_boot_seconds_ns(config->late);
	return ori_tcp_join_create(&join, boot);
}
