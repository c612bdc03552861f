/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/choice.c - chooses device, port and address: rules of ORIEL_IB_HCA, order of GIDs,
 * distance.  Pure functions; see choice.h.
 */
#include "choice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/status.h>

#include "../../util/util.h"

/* ---- ORIEL_IB_HCA ---------------------------------------------------------------------------- */

static int parse_port(const char *text, const char *colon, size_t bytes, int *port)
{
	char digits[8], *end;
	long value;

	if (bytes == 0 || bytes >= sizeof(digits))
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_IB_HCA=%s: a port after ':' is a number from 1 to 255",
				text);
	memcpy(digits, colon, bytes);
	digits[bytes] = '\0';
	value = strtol(digits, &end, 10);
	if (*end || digits[0] < '0' || digits[0] > '9' || value < 1 || value > 255)
		return ori_fail(ORIEL_ECONFIG, "ORIEL_IB_HCA=%s: '%s' is not a port, 1 to 255",
				text, digits);
	*port = (int)value;
	return 0;
}

static int parse_rule(const char *text, const char *item, size_t bytes, struct verbs_hca_rule *out)
{
	const char *colon = memchr(item, ':', bytes);
	size_t name = colon ? (size_t)(colon - item) : bytes;

	if (!name)
		return ori_fail(ORIEL_ECONFIG, "ORIEL_IB_HCA=%s: a device without a name", text);
	if (name >= sizeof(out->name))
		return ori_fail(ORIEL_ECONFIG, "ORIEL_IB_HCA=%s: a name has at most %d letters",
				text, VERBS_HCA_NAME - 1);
	memcpy(out->name, item, name);
	out->name[name] = '\0';
	out->port = -1;
	return colon ? parse_port(text, colon + 1, bytes - name - 1, &out->port) : 0;
}

int verbs_hca_parse(const char *text, struct verbs_hca *out)
{
	struct verbs_hca list = { 0 };
	const char *at = text;

	if (*at == '^') {
		list.excludes = 1;
		at++;
	}
	if (*at == '=') {
		list.exact = 1;
		at++;
	}
	if (!*at && at != text)
		return ori_fail(ORIEL_ECONFIG, "ORIEL_IB_HCA=%s: names no device", text);
	while (*at) {
		size_t bytes = strcspn(at, ",");
		int err;

		if (list.count == VERBS_HCA_RULES)
			return ori_fail(ORIEL_ECONFIG, "ORIEL_IB_HCA=%s: more than %d devices",
					text, VERBS_HCA_RULES);
		err = parse_rule(text, at, bytes, &list.rule[list.count]);
		if (err)
			return err;
		list.count++;
		at += bytes;
		if (*at == ',' && !*++at)
			return ori_fail(ORIEL_ECONFIG, "ORIEL_IB_HCA=%s: ends with a comma", text);
	}
	*out = list;
	return 0;
}

static int rule_names(const struct verbs_hca *list, const struct verbs_hca_rule *rule,
		      const char *device, int port)
{
	if (rule->port != -1 && rule->port != port)
		return 0;
	return list->exact ? !strcmp(rule->name, device) :
			     !strncmp(rule->name, device, strlen(rule->name));
}

int verbs_hca_place(const struct verbs_hca *list, const char *device, int port)
{
	for (int i = 0; i < list->count; i++)
		if (rule_names(list, &list->rule[i], device, port))
			return i;
	return list->count;
}

int verbs_hca_takes(const struct verbs_hca *list, const char *device, int port)
{
	int named = verbs_hca_place(list, device, port) < list->count;

	return !list->count || named != list->excludes;
}

/* ---- addresses of a port --------------------------------------------------------------------- */

int verbs_gid_is_ipv4(const struct verbs_gid *gid)
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

static int is_link_local(const struct verbs_gid *gid)
{
	if (verbs_gid_is_ipv4(gid))
		return gid->raw[12] == 169 && gid->raw[13] == 254;
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

static int is_zero(const struct verbs_gid *gid)
{
	static const uint8_t zero[16];

	return !memcmp(gid->raw, zero, sizeof(zero));
}

/* Higher is better.  An InfiniBand GID has no version; there index 0 is the port's own. */
static int worth(const struct verbs_gid *gid)
{
	if (gid->type == VERBS_GID_IB)
		return 0;
	return (gid->type == VERBS_GID_ROCE_V2) * 4 + !is_link_local(gid) * 2 +
	       verbs_gid_is_ipv4(gid);
}

int verbs_gid_choose(const struct verbs_gid *table, int n, int wanted)
{
	int best = -1;

	for (int i = 0; i < n; i++) {
		if (wanted >= 0 ? table[i].index != (uint32_t)wanted : is_zero(&table[i]))
			continue;
		if (best < 0 || worth(&table[i]) > worth(&table[best]) ||
		    (worth(&table[i]) == worth(&table[best]) && table[i].index < table[best].index))
			best = i;
	}
	return best;
}

/* ---- nearness -------------------------------------------------------------------------------- */

#define FAR_NODE 1000 /* another NUMA node */
#define FAR_ROOT 100  /* another root complex of the same node */

/* Where the PCI part of a sysfs path begins: "pci0000:00/...".  NULL: there is none. */
static const char *pci_part(const char *path)
{
	const char *at = strstr(path, "/pci");

	return at ? at + 1 : NULL;
}

/*
 * The number of leading parts that both paths share.  *rest: the remaining parts of the longer
 * path.
 */
static int common_parts(const char *a, const char *b, int *rest)
{
	int common = 0, left_a = 0, left_b = 0;

	while (*a && *b) {
		size_t na = strcspn(a, "/"), nb = strcspn(b, "/");

		if (na != nb || memcmp(a, b, na))
			break;
		common++;
		a += na + (a[na] == '/');
		b += nb + (b[nb] == '/');
	}
	for (; *a; left_a++)
		a += strcspn(a, "/") + (a[strcspn(a, "/")] == '/');
	for (; *b; left_b++)
		b += strcspn(b, "/") + (b[strcspn(b, "/")] == '/');
	*rest = left_a > left_b ? left_a : left_b;
	return common;
}

int verbs_distance(const char *path_a, int node_a, const char *path_b, int node_b)
{
	const char *a = pci_part(path_a), *b = pci_part(path_b);
	int rest = 0;

	if (node_a >= 0 && node_b >= 0 && node_a != node_b)
		return FAR_NODE;
	if (!a || !b || !common_parts(a, b, &rest))
		return FAR_ROOT;
	/* Even under one switch, two devices have different ports and functions. */
	return rest > 2 ? rest - 2 : 0;
}
