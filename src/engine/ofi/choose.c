/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/choose.c - chooses a provider of libfabric, and its address.
 *
 * Candidates come in libfabric's own order, hardware before sockets.  Each is tested (probe.c) with
 * atomics and then without.  Providers that serve one machine only, or wrap others, are used only
 * if the user names them.
 *
 * Owns the choice of this process: a provider that passed is kept and not tested again.  Called on
 * any thread.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <oriel/device/wqe.h>
#include <rdma/fi_errno.h>

#include "../../util/util.h"
#include "ofi.h"

/* ---- the address ----------------------------------------------------------------------------- */

/* The local address of the route to `host`.  Connecting a datagram socket sends nothing. */
static int local_towards(const char *host, char *out, size_t bytes)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM }, *found;
	struct sockaddr_storage own;
	socklen_t length = sizeof(own);
	int fd, bad;

	if (getaddrinfo(host, "9", &hints, &found))
		return -1;
	fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bad = fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) ||
	      getsockname(fd, (struct sockaddr *)&own, &length) ||
	      getnameinfo((struct sockaddr *)&own, length, out, (socklen_t)bytes, NULL, 0,
			  NI_NUMERICHOST);
	if (fd >= 0)
		close(fd);
	freeaddrinfo(found);
	return bad ? -1 : 0;
}

/*
 * Ranks can be reached where they meet, so this is the local address towards MASTER_ADDR.  If a
 * launcher gives none, the provider chooses.  A program started by hand stays on this machine.
 */
void ori_ofi_address(const struct ori_config *config, char *out, size_t bytes)
{
	const char *master = ori_environment_get("MASTER_ADDR");

	if (config->ofi_address[0])
		snprintf(out, bytes, "%s", config->ofi_address);
	else if (master && *master && !local_towards(master, out, bytes))
		return;
	else if (ori_environment_get("PMIX_RANK") || ori_environment_get("PMI_RANK"))
		out[0] = '\0';
	else
		snprintf(out, bytes, "%s", config->boot_addr);
}

/* ---- candidates ------------------------------------------------------------------------------ */

/* The properties that are asked for. */
struct question {
	char provider[ORI_CONFIG_TEXT_MAX], address[ORI_CONFIG_TEXT_MAX];
	int device_memory;
};

/* Uses IP: needs the address to bind, and comes after all hardware providers. */
static int by_sockets(const char *provider)
{
	return !strncmp(provider, "tcp", 3);
}

/*
 * Used only if named: one machine only, superseded, or a wrapper.  udp passes the probe, but 1.17
 * crashed on atomics between two endpoints.
 */
static int only_by_name(const char *provider)
{
	static const char *const names[] = { "shm", "sm2",  "sockets",  "net",      "udp",
					     "lnx", "coll", "ofi_hook", "ofi_mrail" };

	for (size_t i = 0; i < ORI_COUNT(names); i++)
		if (!strncmp(provider, names[i], strlen(names[i])))
			return 1;
	return 0;
}

static int set_hints(struct fi_info *hints, const struct question *q, int atomics)
{
	hints->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	if (atomics)
		hints->caps |= FI_ATOMIC;
	if (q->device_memory)
		hints->caps |= FI_HMEM;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_ENDPOINT | (q->device_memory ? FI_MR_HMEM : 0);
	if (!q->provider[0])
		return 0;
	hints->fabric_attr->prov_name = strdup(q->provider); /* freeinfo() frees it */
	return hints->fabric_attr->prov_name ? 0 : -FI_ENOMEM;
}

/* Uses random keys of our own if the provider allows it. */
static int get_infos(const struct ofi_library *lib, const struct question *q, const char *address,
		     int atomics, struct fi_info **out)
{
	struct fi_info *hints = lib->dupinfo(NULL);
	uint64_t flags = *address ? FI_SOURCE : 0;
	const char *node = *address ? address : NULL;
	int err = hints ? set_hints(hints, q, atomics) : -FI_ENOMEM;

	if (!err)
		err = lib->getinfo(OFI_API_VERSION, node, NULL, flags, hints, out);
	if (err == -FI_ENODATA) {
		hints->domain_attr->mr_mode |= FI_MR_PROV_KEY;
		err = lib->getinfo(OFI_API_VERSION, node, NULL, flags, hints, out);
	}
	if (hints)
		lib->freeinfo(hints);
	return err;
}

/*
 * One TCP stream per peer, read by one thread at a time: a later message finds the earlier ones
 * placed.
 */
static int is_one_stream(const struct fi_info *info)
{
	return !strcmp(info->fabric_attr->prov_name, "tcp;ofi_rxm");
}

/*
 * Do writes and atomics of an endpoint to a peer take effect in the order posted, for any length?
 * (A write may pass an earlier read or atomic: see docs/protocols/proxy.md.)
 *
 * tcp;ofi_rxm guarantees order among writes and among atomics, but not between the two.  It
 * executes an atomic some time after its message came, so a write behind it may be placed first.
 * That one case is allowed here.  An atomic behind a write finds the write placed.
 */
static int is_ordered(const struct fi_info *info)
{
	uint64_t want = FI_ORDER_WAW | FI_ORDER_RAW;
	uint64_t have = info->tx_attr->msg_order & info->rx_attr->msg_order;
	uint64_t bytes = ORI_WQE_MESSAGE_BYTES;

	if (is_one_stream(info))
		return 1;
	if (info->ep_attr->max_msg_size < bytes)
		bytes = info->ep_attr->max_msg_size;
	return (have & want) == want && info->ep_attr->max_order_waw_size >= bytes &&
	       info->ep_attr->max_order_raw_size >= bytes;
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* The provider that passed last in this process, and for which question; under `lock`. */
static struct {
	pthread_mutex_t lock;
	struct question question;
	struct fi_info *infos;        /* everything that libfabric offered then */
	const struct fi_info *passed; /* one of them; NULL: none has passed yet */
	int atomics;
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Appends "name: reason" to the earlier reasons. */
static void add_reason(char *why, size_t bytes, const char *name, const char *reason)
{
	size_t used = strlen(why);

	if (used < bytes)
		snprintf(why + used, bytes - used, "%s%s: %s", used ? "; " : "", name, reason);
}

/* Is it to be tried in this pass?  Pass 0: hardware, or the named provider.  Pass 1: sockets. */
static int wanted(const struct fi_info *info, const struct question *q, int pass)
{
	const char *name = info->fabric_attr->prov_name;

	if (q->provider[0])
		return pass == 0;
	return !only_by_name(name) && by_sockets(name) == pass;
}

/* Tries each provider of the list once.  Returns the first that passes, or NULL. */
static const struct fi_info *try_infos(const struct ofi_library *lib, const struct fi_info *infos,
				       const struct question *q, int pass, int atomics, char *why,
				       size_t bytes)
{
	const char *last = "";

	for (const struct fi_info *i = infos; i; i = i->next) {
		const char *name = i->fabric_attr->prov_name;
		char reason[128];

		if (!wanted(i, q, pass) || !strcmp(name, last))
			continue;
		last = name;
		if (!ori_ofi_probe(lib, i, atomics, reason, sizeof(reason)))
			return i;
		add_reason(why, bytes, name, reason);
	}
	return NULL;
}

/* One pass with one set of abilities.  Keeps the provider that passes. */
static int try_pass(const struct ofi_library *lib, const struct question *q, int pass, int atomics,
		    char *why, size_t bytes)
{
	/* hardware has its own addresses */
	const char *address = pass || q->provider[0] ? q->address : "";
	struct fi_info *infos = NULL;
	int err = get_infos(lib, q, address, atomics, &infos);

	if (err && q->provider[0] && *address)
		err = get_infos(lib, q, "", atomics, &infos);
	if (err) {
		if (q->provider[0])
			add_reason(why, bytes, q->provider, ori_ofi_error(lib, err));
		return 0;
	}
	kept.passed = try_infos(lib, infos, q, pass, atomics, why, bytes);
	if (!kept.passed) {
		lib->freeinfo(infos);
		return 0;
	}
	kept.infos = infos;
	kept.question = *q;
	kept.atomics = atomics;
	return 1;
}

static int try_all(const struct ofi_library *lib, const struct question *q, char *why, size_t bytes)
{
	if (kept.infos)
		lib->freeinfo(kept.infos);
	kept.infos = NULL;
	kept.passed = NULL;
	why[0] = '\0';
	for (int pass = 0; pass < (q->provider[0] ? 1 : 2); pass++)
		for (int atomics = 1; atomics >= 0; atomics--)
			if (try_pass(lib, q, pass, atomics, why, bytes))
				return 0;
	if (!why[0])
		snprintf(why, bytes, "libfabric offers no provider with one-sided operations here");
	return ORIEL_EUNSUPPORTED;
}

/*
 * NIC n is the n-th domain of the provider that passed.  If there are fewer, they are used in turn.
 */
static const struct fi_info *domain_of_nic(uint32_t nic)
{
	const char *provider = kept.passed->fabric_attr->prov_name, *last = "";
	uint32_t count = 0;

	for (int round = 0; round < 2; round++) {
		uint32_t n = 0;

		for (const struct fi_info *i = kept.passed; i; i = i->next) {
			if (strcmp(i->fabric_attr->prov_name, provider) ||
			    !strcmp(i->domain_attr->name, last))
				continue;
			last = i->domain_attr->name;
			if (round && count && n == nic % count)
				return i;
			n++;
		}
		count = n;
		last = "";
	}
	return kept.passed;
}

static void describe(struct ofi_choice *c, const struct ofi_library *lib)
{
	uint32_t version = lib->version();

	snprintf(c->text, sizeof(c->text), "libfabric %u.%u, provider %s on %s, %s atomics, %s%s",
		 FI_MAJOR(version), FI_MINOR(version), c->info->fabric_attr->prov_name,
		 c->info->domain_attr->name, c->atomics ? "with" : "without",
		 c->ordered ? "ordered" : "unordered",
		 c->info->domain_attr->mr_mode & FI_MR_PROV_KEY ? ", provider's keys" : "");
}

int ori_ofi_choose(const struct ori_config *config, uint32_t nic, int device_memory,
		   struct ofi_choice *out, char *why, size_t why_bytes)
{
	const char *reason;
	const struct ofi_library *lib = ori_ofi_library(&reason);
	struct question q = { .device_memory = device_memory };
	int err = 0;

	if (!lib) {
		snprintf(why, why_bytes, "%s", reason);
		return ORIEL_EUNSUPPORTED;
	}
	snprintf(q.provider, sizeof(q.provider), "%s", config->ofi_provider);
	ori_ofi_address(config, q.address, sizeof(q.address));
	pthread_mutex_lock(&kept.lock);
	if (!kept.passed || strcmp(q.provider, kept.question.provider) ||
	    strcmp(q.address, kept.question.address) ||
	    q.device_memory != kept.question.device_memory)
		err = try_all(lib, &q, why, why_bytes);
	memset(out, 0, sizeof(*out));
	if (!err) {
		out->info = lib->dupinfo(domain_of_nic(nic));
		out->atomics = kept.atomics;
	}
	pthread_mutex_unlock(&kept.lock);
	if (err)
		return err;
	if (!out->info) {
		snprintf(why, why_bytes, "no memory for a description");
		return ORIEL_ENOMEM;
	}
	out->ordered = is_ordered(out->info);
	out->lazy = out->atomics && is_one_stream(out->info);
	describe(out, lib);
	return 0;
}
