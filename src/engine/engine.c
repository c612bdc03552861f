/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/engine.c - which engines are compiled in, and which one serves a comm.
 *
 * Called by comm creation and split, and by oriel-info (row), on any thread.
 */
#include "engine.h"

#include <stdio.h>
#include <string.h>

#include <oriel/device/wqe.h>

#include "../util/util.h"
#include "mlx5/mlx5_engine.h"
#include "ofi/ofi_engine.h"
#include "verbs/verbs_engine.h"

static int soft_probe(const struct ori_config *config, const struct ori_engine_world *world,
		      char *reason, size_t bytes)
{
	(void)config;
	(void)world;
	snprintf(reason, bytes,
		 "software NIC: executes mlx5 work queues between ranks of one machine");
	return 0;
}

/* The CPU posts for a proxy, so it does not matter what the device reaches. */
static int verbs_probe(const struct ori_config *config, const struct ori_engine_world *world,
		       char *reason, size_t bytes)
{
	(void)world;
	return ori_verbs_engine_probe(config, reason, bytes);
}

static int ofi_probe(const struct ori_config *config, const struct ori_engine_world *world,
		     char *reason, size_t bytes)
{
	(void)world;
	return ori_ofi_engine_probe(config, reason, bytes);
}

/*
 * Best first.  probe: is the engine usable on this machine?  It logs nothing.  ORIEL_EUNSUPPORTED
 * means that there is no such device.  Any other status means that a device exists, but something
 * else is missing.
 */
static const struct kind {
	const char *name;
	uint32_t bit;
	int (*probe)(const struct ori_config *, const struct ori_engine_world *, char *reason,
		     size_t bytes);
	int (*open)(const struct ori_config *, const struct ori_engine_world *,
		    struct ori_engine **);
} kinds[] = {
	{ "mlx5", ORI_ENGINE_MLX5, ori_mlx5_engine_probe, ori_mlx5_engine_open },
	{ "verbs", ORI_ENGINE_VERBS, verbs_probe, ori_verbs_engine_open },
	{ "ofi", ORI_ENGINE_OFI, ofi_probe, ori_ofi_engine_open },
	{ "soft", ORI_ENGINE_SOFT, soft_probe, ori_soft_engine_open },
};

static const struct kind *find_kind(const char *name)
{
	for (size_t i = 0; i < ORI_COUNT(kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}

/* The software NIC comes first: every machine has it. */
int ori_engine_row(int n, struct ori_engine_row *row)
{
	const struct kind *k;
	struct ori_config config;
	char reason[ORI_ENGINE_REASON];

	if (n < 0 || n >= (int)ORI_COUNT(kinds))
		return 0;
	k = &kinds[ORI_COUNT(kinds) - 1 - (size_t)n];
	row->name = k->name;
	if (ori_config_read(&config))
		snprintf(row->text, sizeof(row->text), "not probed: the configuration is bad");
	else if (k->probe(&config, NULL, reason, sizeof(reason)))
		snprintf(row->text, sizeof(row->text), "not usable: %s", reason);
	else
		snprintf(row->text, sizeof(row->text), "%s", reason);
	return 1;
}

/*
 * All engines but soft let hardware write to memory.  soft asks by itself when it imitates such a
 * NIC.
 */
static int probe(const struct kind *k, const struct ori_config *config,
		 const struct ori_engine_world *world, char *reason, size_t bytes)
{
	int err = k->probe(config, world, reason, bytes);

	if (err || k->bit == ORI_ENGINE_SOFT)
		return err;
	return ori_engine_ordered(config, world, reason, bytes);
}

static int offer_named(const struct ori_config *config, const struct ori_engine_world *world,
		       int one_machine, uint32_t *mask)
{
	const struct kind *k = find_kind(config->engine);
	char reason[ORI_ENGINE_REASON];

	if (!k)
		return ori_fail(ORIEL_ECONFIG,
				"ORIEL_ENGINE=%s is not one of auto, soft, verbs, ofi, mlx5",
				config->engine);
	if (k->bit == ORI_ENGINE_SOFT && !one_machine)
		return ori_fail(ORIEL_EUNSUPPORTED,
				"ORIEL_ENGINE=soft: the software NIC serves ranks of one machine only");
	if (probe(k, config, world, reason, sizeof(reason)))
		return ori_fail(ORIEL_EUNSUPPORTED, "ORIEL_ENGINE=%s: %s", k->name, reason);
	*mask = k->bit;
	return 0;
}

int ori_engine_offer(const struct ori_config *config, const struct ori_engine_world *world,
		     int one_machine, uint32_t *mask, char *why, size_t bytes)
{
	char reason[ORI_ENGINE_REASON], lacking[ORI_ENGINE_REASON] = "";
	size_t used = 0;
	int err;

	*mask = 0;
	why[0] = '\0';
	if (strcmp(config->engine, "auto"))
		return offer_named(config, world, one_machine, mask);
	if (one_machine) {
		*mask = ORI_ENGINE_SOFT;
		return 0;
	}
	for (size_t i = 0; i < ORI_COUNT(kinds); i++) {
		if (kinds[i].bit == ORI_ENGINE_SOFT)
			continue;
		err = probe(&kinds[i], config, world, reason, sizeof(reason));
		if (!err)
			*mask |= kinds[i].bit;
		else if (kinds[i].bit == ORI_ENGINE_MLX5 && err != ORIEL_EUNSUPPORTED)
			snprintf(lacking, sizeof(lacking), "%s", reason);
		if (err && used < bytes)
			used += (size_t)snprintf(why + used, bytes - used, "%s%s: %s",
						 used ? "; " : "", kinds[i].name, reason);
	}
	if (lacking[0] && *mask & ORI_ENGINE_VERBS)
		ori_log(ORI_LOG_WARN, "engine mlx5 falls back to verbs: %s", lacking);
	return 0;
}

const char *ori_engine_best(uint32_t mask)
{
	for (size_t i = 0; i < ORI_COUNT(kinds); i++)
		if (mask & kinds[i].bit)
			return kinds[i].name;
	return NULL;
}

int ori_engine_open(const char *name, const struct ori_config *config,
		    const struct ori_engine_world *world, struct ori_engine **engine)
{
	const struct kind *k = find_kind(name);

	if (!k)
		return ori_fail(ORIEL_EINVAL, "no engine is called %s", name);
	return k->open(config, world, engine);
}

const char *ori_syndrome_text(uint32_t syndrome)
{
	switch (syndrome) {
#define SYNDROME_TEXT(name, value, text)                                                           \
	case value:                                                                                \
		return text;
		ORI_SYNDROME_LIST(SYNDROME_TEXT)
#undef SYNDROME_TEXT
	default:
		return "unknown syndrome";
	}
}
