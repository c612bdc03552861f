/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/settings.c - the ORIEL_IB_* variables, checked.  Called when a NIC is opened.
 */
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "verbs.h"

static int in_range(const char *name, int value, int low, int high, uint8_t *out)
{
	if (value < low || value > high)
		return ori_fail(ORIEL_ECONFIG, "%s=%d: must be %d to %d", name, value, low, high);
	*out = (uint8_t)value;
	return 0;
}

static int read_gid_index(const char *text, int *out)
{
	char *end;
	long value;

	*out = -1;
	if (!strcmp(text, "auto"))
		return 0;
	value = strtol(text, &end, 10);
	if (end == text || *end || value < 0 || value > 255)
		return ori_fail(ORIEL_ECONFIG, "ORIEL_IB_GID_INDEX=%s: must be auto, or 0 to 255",
				text);
	*out = (int)value;
	return 0;
}

static int read_mtu(int bytes, uint32_t *out)
{
	*out = 0;
	if (!bytes)
		return 0;
	for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
		if (bytes == 128 << mtu)
			*out = (uint32_t)mtu;
	return *out ? 0 :
		      ori_fail(ORIEL_ECONFIG,
			       "ORIEL_IB_MTU=%d: must be 256, 512, 1024, 2048 or 4096", bytes);
}

int verbs_settings_read(const struct ori_config *c, struct verbs_settings *out)
{
	struct verbs_settings s = { 0 };
	int err = verbs_hca_parse(c->ib_hca, &s.hca);

	if (!err)
		err = read_gid_index(c->ib_gid_index, &s.gid_index);
	if (!err)
		err = read_mtu(c->ib_mtu, &s.mtu);
	if (!err)
		err = in_range("ORIEL_IB_TC", c->ib_tc, 0, 255, &s.traffic_class);
	if (!err)
		err = in_range("ORIEL_IB_SL", c->ib_sl, 0, 15, &s.service_level);
	if (!err)
		err = in_range("ORIEL_IB_HOP_LIMIT", c->ib_hop_limit, 0, 255, &s.hop_limit);
	if (!err)
		err = in_range("ORIEL_IB_TIMEOUT", c->ib_timeout, 1, 31, &s.timeout);
	if (!err)
		err = in_range("ORIEL_IB_RETRY_CNT", c->ib_retry_cnt, 0, 7, &s.retry_count);
	if (!err && c->ib_pkey > 65535)
		err = ori_fail(ORIEL_ECONFIG, "ORIEL_IB_PKEY=%d: must be 0 to 65535", c->ib_pkey);
	if (err)
		return err;
	s.pkey_index = (uint16_t)c->ib_pkey;
	*out = s;
	return 0;
}
