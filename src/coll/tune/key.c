/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tune/key.c - what a tuning table is valid for: device, engine, shape of the topology,
 * version.
 *
 * The texts are readable; a table fits if they are equal.  They must not contain anything that
 * changes from run to run.
 *
 * Any thread.  Called by: agree.c, oriel-tune.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../comm/comm.h"
#include "tune.h"

/*
 * Cuts the text to the length of a line and replaces control characters, which would break the
 * line.
 */
static void set(char *out, const char *text)
{
	size_t n = 0;

	for (; text[n] && n + 1 < ORI_TUNE_KEY_BYTES; n++)
		out[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? ' ' : text[n];
	out[n] = '\0';
}

/* Finds the text after the colon in the first line that begins so; returns 0 if there is none. */
static int cpuinfo(const char *begins, char *out, size_t bytes)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256];
	int found = 0;

	while (f && !found && fgets(line, sizeof(line), f)) {
		const char *colon = strchr(line, ':');

		if (!colon || strncmp(line, begins, strlen(begins)))
			continue;
		colon += 1 + strspn(colon + 1, " \t");
		snprintf(out, bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
		found = 1;
	}
	if (f)
		fclose(f);
	return found;
}

static void cpu_text(char *out, size_t bytes)
{
	char model[96], part[24];

	/* Arm has numbers for maker and part instead of a name. */
	if (!cpuinfo("model name", model, sizeof(model))) {
		if (!cpuinfo("CPU implementer", model, sizeof(model)))
			snprintf(model, sizeof(model), "unknown");
		if (cpuinfo("CPU part", part, sizeof(part)))
			snprintf(model + strlen(model), sizeof(model) - strlen(model), " part %s",
				 part);
	}
	/* cores of the machine, not of the rank: pinned ranks must find the same table */
	snprintf(out, bytes, "cpu %s, %ld cores", model, sysconf(_SC_NPROCESSORS_ONLN));
}

/* Uses only name and SMs: the rest of the row is abilities and a driver version. */
static void gpu_text(char *out, size_t bytes)
{
	struct ori_device_row row;
	const char *end;

	snprintf(out, bytes, "cuda");
	for (int n = 0; ori_device_row(n, &row); n++) {
		if (strncmp(row.name, "cuda:", 5))
			continue;
		end = strstr(row.text, " SMs");
		snprintf(out, bytes, "cuda %.*s", (int)(end ? end - row.text + 4 : 96), row.text);
		return;
	}
}

/*
 * Nodes of equal size give "2x4".  Other nodes are listed by size, or by a checksum if the list is
 * long.
 */
static void shape_text(const struct oriel_comm *c, char *out, size_t bytes)
{
	const struct ori_topology *t = &c->topology;
	int hosts = 0, even = 1;
	size_t n = 0;

	for (int r = 0; r < c->nranks; r++) {
		int first = 1;

		even &= t->node_size[r] == t->node_size[0];
		for (int s = 0; s < r && first; s++)
			first = c->facts[s].host_id != c->facts[r].host_id;
		hosts += first;
	}
	if (even) {
		snprintf(out, bytes, "%dx%d on %d %s", t->nnodes, t->node_size[0], hosts,
			 hosts == 1 ? "host" : "hosts");
		return;
	}
	n = (size_t)snprintf(out, bytes, "%d ranks on %d %s, nodes of", c->nranks, hosts,
			     hosts == 1 ? "host" : "hosts");
	for (int r = 0; r < c->nranks && n + 24 < bytes; r++)
		if (!t->node_rank[r])
			n += (size_t)snprintf(out + n, bytes - n, " %d", t->node_size[r]);
}

/*
 * The speed of the software NIC depends on its settings, so they are included.  A long text is
 * replaced by its checksum.
 */
static void engine_text(const struct oriel_comm *c, char *out, size_t bytes)
{
	const char *faults = c->config.soft_faults;

	if (!c->engine_name || strcmp(c->engine_name, "soft"))
		snprintf(out, bytes, "%s", c->engine_name ? c->engine_name : "none");
	else if (strlen(faults) <= 80)
		snprintf(out, bytes, "soft %.32s%s%s", c->config.soft_nic, faults[0] ? " " : "",
			 faults);
	else
		snprintf(out, bytes, "soft %.32s %.60s... %016llx", c->config.soft_nic, faults,
			 (unsigned long long)ori_tune_checksum(faults, strlen(faults)));
}

void ori_tune_key(struct oriel_comm *c, struct ori_tune_key *key)
{
	char text[512];

	memset(key, 0, sizeof(*key));
	if (c->device->separate)
		gpu_text(text, sizeof(text));
	else
		cpu_text(text, sizeof(text));
	set(key->device, text);
	engine_text(c, text, sizeof(text));
	set(key->engine, text);
	shape_text(c, text, sizeof(text));
	set(key->shape, text);
	set(key->version, oriel_version());
}

uint64_t ori_tune_key_hash(const struct ori_tune_key *key)
{
	char all[4 * ORI_TUNE_KEY_BYTES + 8];

	snprintf(all, sizeof(all), "%s\n%s\n%s\n%s\n", key->device, key->engine, key->shape,
		 key->version);
	return ori_tune_checksum(all, strlen(all));
}

int ori_tune_path(const struct ori_tune_key *key, char *path, size_t bytes)
{
	const char *cache = ori_environment_get("XDG_CACHE_HOME"),
		   *home = ori_environment_get("HOME");
	unsigned long long hash = ori_tune_key_hash(key);
	int n;

	if (cache && cache[0] == '/')
		n = snprintf(path, bytes, "%s/oriel/tune-%016llx.txt", cache, hash);
	else if (home && home[0] == '/')
		n = snprintf(path, bytes, "%s/.cache/oriel/tune-%016llx.txt", home, hash);
	else
		return ORIEL_EUNSUPPORTED;
	return n < (int)bytes ? 0 : ORIEL_EUNSUPPORTED;
}
