/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/tune.c - tuning files (coll/tune/cache.c), and the texts of ORIEL_A2A_PLAN and
 * ORIEL_SOFT_FAULTS.
 *
 * A table that is taken must pass the check for tables of other ranks, be the same after it was
 * saved, and have a row for each size.  The harness computes the checksum of a file, which a fuzzer
 * would hardly guess.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../check.h"
#include "coll/tune/tune.h"
#include "engine/soft/nic.h"
#include "fuzz.h"

enum { AS_FILE, AS_FILE_WITH_SUM, AS_PLAN, AS_FAULTS, KINDS };

static const struct ori_tune_key key = { "cpu of a test, 2 cores", "soft soft", "2x4 on 1 host",
					 "0.1.0" };

static void check_table(const struct ori_tune_table *t)
{
	CHECK_EQ(ori_tune_table_check(t), 0);
	for (int k = 0; k < ORI_PLAN_KINDS; k++)
		for (int shift = 0; shift < 64; shift++)
			CHECK(!ori_tune_row(t, k, 1ull << shift) == !t->rows[k]);
}

static void run_file(const char *text, size_t bytes, int sum)
{
	int fd = memfd_create("tune", MFD_CLOEXEC);
	struct ori_tune_table t;
	char path[64], why[256], tail[32];

	if (fd < 0)
		exit(1);
	CHECK_EQ(write(fd, text, bytes), (ssize_t)bytes);
	snprintf(tail, sizeof(tail), "check %016llx\n",
		 (unsigned long long)ori_tune_checksum(text, bytes));
	if (sum)
		CHECK_EQ(write(fd, tail, strlen(tail)), (ssize_t)strlen(tail));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!ori_tune_load(path, &key, &t, why, sizeof(why)))
		check_table(&t);
	close(fd);
}

static void run_plan(const char *text)
{
	struct ori_a2a_plan plan, again;
	char out[256];
	uint32_t named = 0;

	memset(&plan, 0, sizeof(plan));
	again = plan;
	if (ori_plan_parse(text, &plan, &named))
		return;
	ori_plan_text(&plan, out, sizeof(out));
	if (named != (1u << ORI_PLAN_MAPPED | 1u << ORI_PLAN_QUEUED | ORI_PLAN_HAS_SMALL))
		return;
	/* what is written is read again as the same */
	CHECK_EQ(ori_plan_parse(out, &again, &named), 0);
	CHECK(!memcmp(&plan, &again, sizeof(plan)));
}

static void run_faults(const char *text)
{
	struct soft_config config, again;
	char out[512];

	CHECK_EQ(soft_config_personality(&config, NULL), 0);
	again = config;
	if (soft_config_faults(&config, text))
		return;
	soft_config_text(&config, out, sizeof(out));
	CHECK_EQ(soft_config_faults(&again, out), 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	int kind = fuzz_byte(&in) % KINDS;
	char text[4096];
	size_t n;

	if (kind == AS_FILE || kind == AS_FILE_WITH_SUM) {
		run_file((const char *)in.at, in.left, kind == AS_FILE_WITH_SUM);
		return 0;
	}
	n = fuzz_take(&in, text, sizeof(text) - 1);
	text[n] = '\0';
	if (kind == AS_PLAN)
		run_plan(text);
	else
		run_faults(text);
	return 0;
}

/* ---- seeds ----------------------------------------------------------------------------------- */

static size_t seed_file(uint8_t *out, size_t room, int rows)
{
	static const struct ori_tune_row row = { 4096, 65536, 4, 8, 12.5f, 0 };
	struct ori_tune_table t;
	char path[64];
	size_t n = 0;
	FILE *f;

	memset(&t, 0, sizeof(t));
	t.overlap = 0.5;
	t.small = 1024;
	t.ways = (struct ori_tune_ways){ 4096, 21845, 9362, 131072 };
	for (int k = 0; k < ORI_PLAN_KINDS; k++) {
		t.model[k] = (struct ori_tune_model){ 2.5, 12000, 3000, 0.125 };
		t.rows[k] = (uint32_t)rows;
		for (int i = 0; i < rows; i++) {
			t.row[k][i] = row;
			t.row[k][i].bytes <<= i;
		}
	}
	snprintf(path, sizeof(path), "/tmp/oriel-fuzz-%d", (int)getpid());
	if (ori_tune_save(path, &key, &t))
		exit(1);
	f = fopen(path, "rbe");
	if (f) {
		n = fread(out, 1, room, f);
		fclose(f);
	}
	(void)unlink(path);
	return n;
}

size_t fuzz_seed(int n, uint8_t *out, size_t room)
{
	static const char plan[] = "mapped=8/16/64K,queued=1/4/256K,small=1K";
	static const char faults[] = "seed=5,drop=0.01,dup=0.01,reorder=0.05,mtu=512";
	struct fuzz_output o = { out, room, 0 };
	const size_t sum_line = 6 + 16 + 1;

	if (n > 3)
		return 0;
	fuzz_give_byte(&o, (uint8_t)n);
	if (n == AS_PLAN)
		fuzz_give(&o, plan, sizeof(plan) - 1);
	else if (n == AS_FAULTS)
		fuzz_give(&o, faults, sizeof(faults) - 1);
	else
		o.bytes += seed_file(out + 1, room - 1, n == AS_FILE ? 1 : 3);
	return n == AS_FILE_WITH_SUM ? o.bytes - sum_line : o.bytes;
}
