/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/facts.c - what this rank tells the others about itself: its host, its device, its overrides.
 *
 * Overrides (ORIEL_FABRIC, ORIEL_MAPPED, ORIEL_TOPOLOGY) go into the facts before the exchange, so
 * that all ranks decide on the same data.  Does not decide anything itself: that is topology.c.
 * Called by comm creation and by oriel-info, on any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../util/util.h"
#include "topology.h"

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"
#define NETWORK_PATH "/proc/self/ns/net"

/* FNV-1a: short, and good enough to tell the hosts of one job apart. */
static uint64_t hash_more(uint64_t hash, const void *data, size_t bytes)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ p[i]) * 0x100000001b3ull;
	return hash;
}

static int read_boot_id(char *text, size_t size, size_t *length)
{
	int fd = open(BOOT_ID_PATH, O_RDONLY | O_CLOEXEC);
	ssize_t n;
	int error;

	if (fd < 0)
		return ori_fail_errno(errno, "cannot open %s, which tells hosts apart",
				      BOOT_ID_PATH);
	do {
		n = read(fd, text, size);
		error = errno;
	} while (n < 0 && error == EINTR);
	close(fd);
	if (n <= 0)
		return ori_fail_errno(n < 0 ? error : EIO, "cannot read %s", BOOT_ID_PATH);
	*length = (size_t)n;
	return 0;
}

/*
 * Several hosts may have the same name (containers, images), but not the same boot id.  The network
 * namespace is part of the id: ranks pass descriptors over its abstract sockets, so two namespaces
 * of one machine are two hosts.
 */
static int find_host_id(uint64_t *id)
{
	uint64_t hash = 0xcbf29ce484222325ull;
	char boot_id[64];
	size_t length = 0;
	struct stat net;
	int err;

	err = read_boot_id(boot_id, sizeof(boot_id), &length);
	if (err)
		return err;
	if (stat(NETWORK_PATH, &net))
		return ori_fail_errno(errno, "cannot look at %s, which tells hosts apart",
				      NETWORK_PATH);
	hash = hash_more(hash, boot_id, length);
	*id = hash_more(hash, &net.st_ino, sizeof(net.st_ino));
	return 0;
}

int ori_facts_gather(struct ori_facts *facts, const struct ori_config *config)
{
	struct ori_facts f = { .device = ORI_DEVICE_CPU, .gpu = -1, .forced_node = -1 };
	int err;

	if (!facts || !config)
		return ori_fail(ORIEL_EINVAL, "facts need a place and a configuration");
	if (gethostname(f.host, sizeof(f.host) - 1) && errno != ENAMETOOLONG)
		return ori_fail_errno(errno, "cannot read the name of this host");
	err = find_host_id(&f.host_id);
	if (!err)
		err = ori_facts_override(&f, config);
	if (!err)
		*facts = f;
	return err;
}

/* Decimal, or hexadecimal behind 0x; the whole text; at most `max`. */
static int read_integer(const char *name, const char *text, uint64_t max, uint64_t *value)
{
	int hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *digits = hex ? text + 2 : text;
	unsigned long long v;
	char *end;

	/* strtoull also accepts blanks, signs and a second 0x, which are errors here */
	if (digits[0] && !digits[strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789")]) {
		errno = 0;
		v = strtoull(digits, &end, hex ? 16 : 10);
		if (!errno && v <= max) {
			*value = v;
			return 0;
		}
	}
	return ori_fail(ORIEL_ECONFIG, "%s is \"%s\": want an integer from 0 to %llu", name, text,
			(unsigned long long)max);
}

int ori_facts_override(struct ori_facts *facts, const struct ori_config *config)
{
	uint64_t uuid = 0, clique = 0;
	size_t length;
	int err = 0, applies;

	if (!facts || !config)
		return ori_fail(ORIEL_EINVAL, "overrides need facts and a configuration");
	/* A bad value is an error even if it is not used. */
	if (config->fabric_uuid[0])
		err = read_integer("ORIEL_FABRIC_UUID", config->fabric_uuid, UINT64_MAX, &uuid);
	if (!err && config->fabric_clique[0])
		err = read_integer("ORIEL_FABRIC_CLIQUE", config->fabric_clique, UINT32_MAX,
				   &clique);
	if (err)
		return err;
	length = strnlen(config->topology, sizeof(config->topology));
	if (length >= sizeof(facts->layout))
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_TOPOLOGY is %zu characters long, at most %zu are possible; "
				"a layout of equal nodes is short as RxC",
				length, sizeof(facts->layout) - 1);
	memset(facts->layout, 0, sizeof(facts->layout));
	memcpy(facts->layout, config->topology, length);
	facts->fabric_mode = config->fabric;
	facts->mapped_allowed = config->mapped;
	applies = facts->fabric_available && config->fabric != ORI_MODE_OFF;
	if (applies && config->fabric_uuid[0]) {
		memcpy(facts->fabric_uuid, &uuid, sizeof(uuid));
		memcpy(facts->fabric_uuid + sizeof(uuid), &uuid, sizeof(uuid));
	}
	if (applies && config->fabric_clique[0])
		facts->fabric_clique = (uint32_t)clique;
	return 0;
}
