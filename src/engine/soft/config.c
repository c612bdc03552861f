/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/config.c - which NIC to imitate, and with which faults: text to struct and back.
 *
 * One table has every key with its type, range and member.  Parser and printer both use it.  Called
 * when an engine is made, on any thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "nic.h"

enum key_type { KEY_U64, KEY_U32, KEY_FLAG, KEY_CHANCE, KEY_BYTES, KEY_DBR };

struct key {
	const char *name;
	enum key_type type;
	size_t offset;
	uint64_t min, max;
};

#define KEY(name, type, member, min, max)                                                          \
	{                                                                                          \
		name, type, offsetof(struct soft_config, member), min, max                         \
	}

static const struct key keys[] = {
	KEY("seed", KEY_U64, seed, 0, UINT64_MAX),
	KEY("drop", KEY_CHANCE, drop, 0, 1),
	KEY("dup", KEY_CHANCE, dup, 0, 1),
	KEY("reorder", KEY_CHANCE, reorder, 0, 1),
	KEY("delay", KEY_CHANCE, delay, 0, 1),
	KEY("dbr_late", KEY_CHANCE, dbr_late, 0, 1),
	KEY("torn_cqe", KEY_CHANCE, torn_cqe, 0, 1),
	KEY("ooo", KEY_FLAG, ooo, 0, 1),
	KEY("overtake", KEY_FLAG, overtake, 0, 1),
	KEY("no_atomics", KEY_FLAG, no_atomics, 0, 1),
	KEY("hca_atomics", KEY_FLAG, hca_atomics, 0, 1),
	KEY("mtu", KEY_U32, mtu, 64, 1u << 20),
	KEY("device_mtu", KEY_U32, device_mtu, 64, ORI_WQE_MESSAGE_BYTES),
	KEY("rate", KEY_BYTES, rate, 0, UINT64_MAX),
	KEY("revoke_at", KEY_U64, revoke_at, 0, UINT64_MAX),
	KEY("qp_error_at", KEY_U64, qp_error_at, 0, UINT64_MAX),
	KEY("stall_at", KEY_U64, stall_at, 0, UINT64_MAX),
	KEY("kill_at", KEY_U64, kill_at, 0, UINT64_MAX),
	KEY("strict", KEY_FLAG, strict, 0, 1),
	KEY("dbr", KEY_DBR, dbr_mode, 0, 0),
	KEY("retry", KEY_U32, retry_count, 1, 100),
	KEY("retry_ns", KEY_U64, retry_timeout_ns, 1000, 100 * ORI_NS_PER_S),
	KEY("max_reads", KEY_U32, max_reads, 1, 64),
	KEY("first_psn", KEY_U32, first_psn, 0, 0xffffff),
	KEY("qps", KEY_U32, qps, 0, UINT32_MAX),
	KEY("late_device", KEY_FLAG, late_device, 0, 1),
};

static const char *const dbr_names[] = { "doorbell", "record", "random" };

/*
 * Timeouts double up to 512 times the first, so 14 of them with 1 ms are 3 s.  This is short enough
 * after a lost packet.  It is long enough that a peer that only waits for a core does not seem
 * dead.
 */
static void defaults(struct soft_config *c)
{
	memset(c, 0, sizeof(*c));
	c->mtu = 65536;
	c->device_mtu = ORI_WQE_MESSAGE_BYTES;
	c->strict = 1;
	/*
	 * 17 s in all: enough for a process that was stopped and continues.  The boot detects one
	 * that died.
	 */
	c->retry_count = 40;
	c->retry_timeout_ns = 1000000;
	c->max_reads = 16;
}

int soft_config_personality(struct soft_config *c, const char *name)
{
	struct soft_config made;

	defaults(&made);
	if (!name || !name[0] || !strcmp(name, "soft")) {
		/* the defaults */
	} else if (!strcmp(name, "cx7")) {
		made.mtu = 4096;
		made.overtake = 1;
		made.hca_atomics = 1;
		made.qps = 131072;
	} else if (!strcmp(name, "efa")) {
		made.ooo = 1;
		made.no_atomics = 1;
		made.mtu = 8192;
	} else if (!strcmp(name, "thor2")) {
		made.no_atomics = 1;
		made.mtu = 4096;
	} else {
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_SOFT_NIC=%s: no such software NIC; there are soft, cx7, "
				"efa and thor2",
				name);
	}
	*c = made;
	return 0;
}

static int parse_number(const char *text, uint64_t *out, const char **rest)
{
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	*out = strtoull(text, &end, 0);
	*rest = end;
	return errno ? -1 : 0;
}

static int parse_bytes(const char *text, uint64_t *out, const char **rest)
{
	static const char suffixes[] = "KMG";
	const char *found;
	uint64_t scale = 1;

	if (parse_number(text, out, rest))
		return -1;
	found = **rest ? strchr(suffixes, **rest) : NULL;
	if (!found)
		return 0;
	for (const char *s = suffixes; s <= found; s++)
		scale *= 1000;
	if (*out > UINT64_MAX / scale)
		return -1;
	*out *= scale;
	(*rest)++;
	return 0;
}

static int parse_chance(const char *text, double *out)
{
	char *end;

	errno = 0;
	*out = strtod(text, &end);
	/* the comparison is false for NaN */
	return errno || end == text || *end || !(*out >= 0.0 && *out <= 1.0) ? -1 : 0;
}

static int parse_dbr(const char *text, enum soft_dbr_mode *out)
{
	for (size_t i = 0; i < ORI_COUNT(dbr_names); i++)
		if (!strcmp(text, dbr_names[i])) {
			*out = (enum soft_dbr_mode)i;
			return 0;
		}
	return -1;
}

static int parse_value(struct soft_config *c, const struct key *key, const char *text)
{
	char *at = (char *)c + key->offset;
	const char *rest = text;
	uint64_t n;

	if (key->type == KEY_CHANCE)
		return parse_chance(text, (double *)(void *)at);
	if (key->type == KEY_DBR)
		return parse_dbr(text, (enum soft_dbr_mode *)(void *)at);
	if (key->type == KEY_BYTES ? parse_bytes(text, &n, &rest) : parse_number(text, &n, &rest))
		return -1;
	if (*rest || n < key->min || n > key->max)
		return -1;
	if (key->type == KEY_FLAG)
		*(int *)(void *)at = (int)n;
	else if (key->type == KEY_U32)
		*(uint32_t *)(void *)at = (uint32_t)n;
	else
		*(uint64_t *)(void *)at = n;
	/* Whoever asks for small packets means all of them. */
	if (key->offset == offsetof(struct soft_config, mtu))
		c->device_mtu = c->mtu;
	return 0;
}

static const struct key *find_key(const char *name, size_t chars)
{
	for (size_t i = 0; i < ORI_COUNT(keys); i++)
		if (strlen(keys[i].name) == chars && !memcmp(keys[i].name, name, chars))
			return &keys[i];
	return NULL;
}

static int parse_pair(struct soft_config *c, const char *pair, size_t chars)
{
	const char *equals = memchr(pair, '=', chars);
	const struct key *key = equals ? find_key(pair, (size_t)(equals - pair)) : NULL;
	char value[64];
	size_t length;

	if (!key)
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_SOFT_FAULTS: \"%.*s\" is not key=value of a known key",
				(int)chars, pair);
	length = chars - (size_t)(equals + 1 - pair);
	if (length < sizeof(value)) {
		memcpy(value, equals + 1, length);
		value[length] = 0;
		if (!parse_value(c, key, value))
			return 0;
	}
	return ori_fail(ORIEL_ECONFIG, "ORIEL_SOFT_FAULTS: bad value of %s: \"%.*s\"", key->name,
			(int)length, equals + 1);
}

int soft_config_faults(struct soft_config *c, const char *text)
{
	struct soft_config made = *c;

	while (text && *text) {
		size_t chars = strcspn(text, ",");
		int err = chars ? parse_pair(&made, text, chars) : 0;

		if (err)
			return err;
		text += chars + (text[chars] == ',');
	}
	*c = made;
	return 0;
}

/* The shortest text that is parsed to the same number. */
static void print_chance(char *out, size_t bytes, double value)
{
	snprintf(out, bytes, "%g", value);
	if (strtod(out, NULL) < value || strtod(out, NULL) > value)
		snprintf(out, bytes, "%.17g", value);
}

static void print_value(const struct soft_config *c, const struct key *key, char *out, size_t bytes)
{
	const char *at = (const char *)c + key->offset;

	switch (key->type) {
	case KEY_CHANCE:
		print_chance(out, bytes, *(const double *)(const void *)at);
		break;
	case KEY_DBR:
		snprintf(out, bytes, "%s",
			 dbr_names[*(const enum soft_dbr_mode *)(const void *)at]);
		break;
	case KEY_FLAG:
		snprintf(out, bytes, "%d", *(const int *)(const void *)at);
		break;
	case KEY_U32:
		snprintf(out, bytes, "%" PRIu32, *(const uint32_t *)(const void *)at);
		break;
	default:
		snprintf(out, bytes, "%" PRIu64, *(const uint64_t *)(const void *)at);
		break;
	}
}

/* Writes the seed, and all that differs from the default personality. */
void soft_config_text(const struct soft_config *c, char *out, size_t bytes)
{
	struct soft_config plain;
	size_t used = 0;

	defaults(&plain);
	if (bytes)
		out[0] = 0;
	for (size_t i = 0; i < ORI_COUNT(keys) && used < bytes; i++) {
		char mine[40], usual[40];
		int n;

		print_value(c, &keys[i], mine, sizeof(mine));
		print_value(&plain, &keys[i], usual, sizeof(usual));
		if (i && !strcmp(mine, usual))
			continue;
		if (keys[i].offset == offsetof(struct soft_config, mtu))
			plain.device_mtu = c->mtu; /* parsing this key sets both */
		n = snprintf(out + used, bytes - used, "%s%s=%s", used ? "," : "", keys[i].name,
			     mine);
		if (n < 0)
			return;
		used += (size_t)n;
	}
}
