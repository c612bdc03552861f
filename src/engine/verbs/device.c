/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/device.c - finds the port to use and opens its device.  Looks at existing devices,
 * at the rules of ORIEL_IB_HCA, at the distance, and at the addresses.
 *
 * choice.c decides, from the data of libibverbs and sysfs.  Called when a NIC is opened or
 * searched.
 */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "verbs.h"

#define CANDIDATES 64
#define GIDS 256
#define HOP_LIMIT_UNKNOWN 64 /* default of systems that do not tell it */
#define HOP_LIMIT_IB 255     /* InfiniBand routers only decrement it: there is no value to read */

_Static_assert((int)VERBS_GID_ROCE_V2 == (int)IBV_GID_TYPE_ROCE_V2 &&
		       (int)VERBS_GID_ROCE_V1 == (int)IBV_GID_TYPE_ROCE_V1,
	       "choice.h numbers GID types as libibverbs does");

struct candidate {
	struct ibv_device *device;
	char name[VERBS_HCA_NAME];
	uint8_t port;
	int place;    /* index in ORIEL_IB_HCA */
	int distance; /* to the device or CPU that it should be near */
};

/* The result of a search.  `skipped` lists unusable ports with the reasons. */
struct search {
	const struct verbs_library *lib;
	const struct verbs_settings *settings;
	char near_path[PATH_MAX];
	int near_node;
	struct ibv_device **devices;
	struct candidate found[CANDIDATES];
	int count;
	char skipped[200];
};

/* ---- places in the machine ------------------------------------------------------------------- */

static int read_number(const char *path, int fallback)
{
	FILE *file = fopen(path, "re");
	int value;

	if (!file)
		return fallback;
	if (fscanf(file, "%d", &value) != 1)
		value = fallback;
	fclose(file);
	return value;
}

/* The real path and NUMA node of a sysfs folder; "" and -1 if it does not exist. */
static void locate(const char *folder, char path[PATH_MAX], int *node)
{
	char file[PATH_MAX + 16];

	*node = -1;
	if (!realpath(folder, path)) {
		path[0] = '\0';
		return;
	}
	snprintf(file, sizeof(file), "%s/numa_node", path);
	*node = read_number(file, -1);
}

/* Locates the given PCI device, or the CPU that runs this thread. */
static int locate_near(const char *pci, struct search *s)
{
	char folder[ORI_CONFIG_TEXT_MAX + 32];
	unsigned int cpu, node;

	s->near_path[0] = '\0';
	s->near_node = -1;
	if (!*pci) {
		if (!getcpu(&cpu, &node))
			s->near_node = (int)node;
		return 0;
	}
	snprintf(folder, sizeof(folder), "/sys/bus/pci/devices/%s", pci);
	locate(folder, s->near_path, &s->near_node);
	return s->near_path[0] ?
		       0 :
		       ori_fail(ORIEL_ECONFIG, "ORIEL_IB_NEAR=%s: no such PCI device", pci);
}

/* ---- candidates ------------------------------------------------------------------------------ */

static void skip(struct search *s, const char *name, int port, const char *why)
{
	size_t used = strlen(s->skipped);

	snprintf(s->skipped + used, sizeof(s->skipped) - used, "%s%s port %d: %s", used ? "; " : "",
		 name, port, why);
}

static void consider_port(struct search *s, struct ibv_context *context, struct ibv_device *device,
			  uint8_t port)
{
	const char *name = s->lib->device_name(device);
	struct candidate *c = &s->found[s->count];
	char folder[VERBS_HCA_NAME + 64], path[PATH_MAX];
	struct ibv_port_attr attr;
	int node;

	if (!verbs_hca_takes(&s->settings->hca, name, port)) {
		skip(s, name, port, "excluded by ORIEL_IB_HCA");
		return;
	}
	if (verbs_query_port(s->lib, context, port, &attr)) {
		skip(s, name, port, "cannot be queried");
		return;
	}
	if (attr.state != IBV_PORT_ACTIVE) {
		skip(s, name, port, "is not active");
		return;
	}
	if (s->count == CANDIDATES)
		return;
	snprintf(folder, sizeof(folder), "/sys/class/infiniband/%s/device", name);
	locate(folder, path, &node);
	c->device = device;
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->port = port;
	c->place = verbs_hca_place(&s->settings->hca, name, port);
	c->distance = verbs_distance(s->near_path, s->near_node, path, node);
	s->count++;
}

static void consider_device(struct search *s, struct ibv_device *device)
{
	const char *name = s->lib->device_name(device);
	struct ibv_device_attr attr;
	struct ibv_context *context;

	/* iWARP has no such queue pairs, and other transports are vendor-specific. */
	if (device->transport_type != IBV_TRANSPORT_IB) {
		skip(s, name, 1, "has no RC queue pairs");
		return;
	}
	context = s->lib->open(device);
	if (!context) {
		skip(s, name, 1,
		     "cannot be opened: check the access rights of /dev/infiniband/uverbs*");
		return;
	}
	if (s->lib->query_device(context, &attr))
		skip(s, name, 1, "cannot be queried");
	else
		for (int port = 1; port <= attr.phys_port_cnt; port++)
			consider_port(s, context, device, (uint8_t)port);
	s->lib->close(context);
}

/* In the order of ORIEL_IB_HCA, then nearest, then by name. */
static int compare(const void *x, const void *y)
{
	const struct candidate *a = x, *b = y;

	if (a->place != b->place)
		return a->place - b->place;
	if (a->distance != b->distance)
		return a->distance - b->distance;
	return strcmp(a->name, b->name) ? strcmp(a->name, b->name) : a->port - b->port;
}

static void search_end(struct search *s)
{
	if (s->devices)
		s->lib->device_list_free(s->devices);
	s->devices = NULL;
}

/* Returns 0 and at least one candidate, or a reason and no candidates. */
static int search_begin(struct search *s, const struct ori_config *config, char *why, size_t bytes)
{
	int n = 0;

	s->lib = verbs_library(config->ib_library, why, bytes);
	if (!s->lib)
		return ORIEL_EUNSUPPORTED;
	s->devices = s->lib->device_list(&n);
	for (int i = 0; i < n && s->devices; i++)
		consider_device(s, s->devices[i]);
	qsort(s->found, (size_t)s->count, sizeof(s->found[0]), compare);
	if (s->count)
		return 0;
	if (!n)
		snprintf(why, bytes, "no RDMA device");
	else
		snprintf(why, bytes, "no RDMA port to use: %s", s->skipped);
	search_end(s);
	return ORIEL_EUNSUPPORTED;
}

static struct search *search_create(const struct ori_config *config,
				    struct verbs_settings *settings)
{
	struct search *s = calloc(1, sizeof(*s));

	if (!s) {
		ori_fail(ORIEL_ENOMEM, "no memory to look for RDMA devices");
		return NULL;
	}
	if (verbs_settings_read(config, settings) || locate_near(config->ib_near, s)) {
		free(s);
		return NULL;
	}
	s->settings = settings;
	return s;
}

int verbs_device_probe(const struct ori_config *config, char *why, size_t bytes)
{
	struct verbs_settings settings;
	struct search *s = search_create(config, &settings);
	int err;

	if (!s) {
		snprintf(why, bytes, "%s", ori_last_error_text());
		return ORIEL_ECONFIG;
	}
	err = search_begin(s, config, why, bytes);
	if (!err)
		snprintf(why, bytes, "%s port %d", s->found[0].name, s->found[0].port);
	search_end(s);
	free(s);
	return err;
}

/* ---- the address to speak from --------------------------------------------------------------- */

static int sysfs_gid_type(const struct verbs_fabric *f, int index)
{
	char path[200], word[16] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d",
		 f->name, f->port, index);
	file = fopen(path, "re");
	if (file && fgets(word, sizeof(word), file))
		word[strcspn(word, "\n")] = '\0';
	if (file)
		fclose(file);
	return !strcmp(word, "RoCE v2") ? VERBS_GID_ROCE_V2 : VERBS_GID_ROCE_V1;
}

static int query_gid(const struct verbs_fabric *f, int index, struct verbs_gid *out)
{
	int ethernet = f->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	struct ibv_gid_entry entry;
	union ibv_gid gid;

	memset(out, 0, sizeof(*out));
	out->index = (uint32_t)index;
	if (f->lib->query_gid_ex) {
		if (f->lib->query_gid_ex(f->context, f->port, (uint32_t)index, &entry, 0,
					 sizeof(entry)))
			return -1;
		memcpy(out->raw, entry.gid.raw, sizeof(out->raw));
		out->type = entry.gid_type;
		return 0;
	}
	if (f->lib->query_gid(f->context, f->port, index, &gid))
		return -1;
	memcpy(out->raw, gid.raw, sizeof(out->raw));
	out->type = ethernet ? (uint32_t)sysfs_gid_type(f, index) : VERBS_GID_IB;
	return 0;
}

static int choose_gid(struct verbs_fabric *f)
{
	int room = f->port_attr.gid_tbl_len < GIDS ? f->port_attr.gid_tbl_len : GIDS;
	struct verbs_gid *table = calloc((size_t)room + 1, sizeof(*table));
	int n = 0, best;

	if (!table)
		return ori_fail(ORIEL_ENOMEM, "no memory for the GID table of %s", f->name);
	for (int i = 0; i < room; i++)
		n += !query_gid(f, i, &table[n]);
	best = verbs_gid_choose(table, n, f->settings.gid_index);
	if (best >= 0)
		f->gid = table[best];
	free(table);
	if (best >= 0)
		return 0;
	return f->settings.gid_index >= 0 ?
		       ori_fail(ORIEL_ECONFIG,
				"ORIEL_IB_GID_INDEX=%d: %s port %d has no such entry",
				f->settings.gid_index, f->name, f->port) :
		       ori_fail(ORIEL_EUNSUPPORTED,
				"%s port %d has no GID: give its network interface an address",
				f->name, f->port);
}

static void choose_hop_limit(struct verbs_fabric *f)
{
	int limit = f->settings.hop_limit;

	if (!limit && f->gid.type == VERBS_GID_IB)
		limit = HOP_LIMIT_IB;
	else if (!limit)
		limit = read_number(verbs_gid_is_ipv4(&f->gid) ?
					    "/proc/sys/net/ipv4/ip_default_ttl" :
					    "/proc/sys/net/ipv6/conf/all/hop_limit",
				    HOP_LIMIT_UNKNOWN);
	f->hop_limit = (uint8_t)(limit > 0 && limit < 256 ? limit : HOP_LIMIT_UNKNOWN);
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_port(struct verbs_fabric *f, const struct candidate *c)
{
	snprintf(f->name, sizeof(f->name), "%s", c->name);
	f->port = c->port;
	f->context = f->lib->open(c->device);
	if (!f->context)
		return ori_fail(ORIEL_ESYSTEM, "cannot open RDMA device %s", f->name);
	if (f->lib->query_device(f->context, &f->attr) ||
	    verbs_query_port(f->lib, f->context, f->port, &f->port_attr))
		return ori_fail(ORIEL_ESYSTEM, "cannot query RDMA device %s", f->name);
	if (f->settings.pkey_index >= f->attr.max_pkeys)
		return ori_fail(ORIEL_ECONFIG, "ORIEL_IB_PKEY=%d: %s has %d partition keys",
				f->settings.pkey_index, f->name, f->attr.max_pkeys);
	if (!f->settings.mtu)
		f->settings.mtu = f->port_attr.active_mtu;
	if (f->settings.mtu > f->port_attr.active_mtu)
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_IB_MTU=%d: %s port %d carries at most %d bytes",
				128 << f->settings.mtu, f->name, f->port,
				128 << f->port_attr.active_mtu);
	return 0;
}

int verbs_device_open(struct verbs_fabric *f, const struct ori_config *config, uint32_t nic)
{
	struct search *s = search_create(config, &f->settings);
	char why[256] = "";
	int err;

	if (!s)
		return ORIEL_ECONFIG;
	err = search_begin(s, config, why, sizeof(why));
	if (err) {
		ori_fail(err, "verbs: %s", why);
		goto out;
	}
	f->lib = s->lib;
	if (nic >= (uint32_t)s->count)
		err = ori_fail(ORIEL_ECONFIG,
			       "ORIEL_NICS=%d, but only %d RDMA ports are usable: lower "
			       "ORIEL_NICS",
			       config->nics, s->count);
	else
		err = open_port(f, &s->found[nic]);
	if (!err)
		err = choose_gid(f);
	if (!err)
		choose_hop_limit(f);
	search_end(s);
out:
	free(s);
	return err;
}
