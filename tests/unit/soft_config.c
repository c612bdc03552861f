/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_config.c - the fault string and the personalities: every key, refused values, and
 * that the text which a run prints repeats the same run.
 */
#include "soft_world.h"

static struct soft_config of(const char *personality, const char *text)
{
	struct soft_config c;

	memset(&c, 0, sizeof(c));
	CHECK_EQ(soft_config_personality(&c, personality), 0);
	CHECK_EQ(soft_config_faults(&c, text), 0);
	return c;
}

TEST(personalities)
{
	struct soft_config c = of(NULL, NULL);

	CHECK(!c.ooo && !c.no_atomics && c.mtu == 65536);
	c = of("", "");
	CHECK_EQ(c.mtu, 65536);
	c = of("soft", NULL);
	CHECK_EQ(c.mtu, 65536);
	c = of("cx7", NULL);
	CHECK(!c.ooo && !c.no_atomics && c.mtu == 4096);
	CHECK(c.overtake && c.hca_atomics);
	c = of("efa", NULL);
	CHECK(c.ooo && c.no_atomics && c.mtu == 8192);
	c = of("thor2", NULL);
	CHECK(!c.ooo && c.no_atomics);
	c.mtu = 123;
	CHECK_EQ(soft_config_personality(&c, "cx6"), ORIEL_ECONFIG);
	CHECK_HAS(ori_last_error_text(), "cx6");
	CHECK_EQ(c.mtu, 123); /* written only on success */
}

TEST(every_key)
{
	struct soft_config c =
		of(NULL, "seed=42,drop=0.01,dup=0.02,reorder=0.1,delay=0.05,dbr_late=0.125,"
			 "torn_cqe=1,ooo=1,no_atomics=1,mtu=256,rate=2G,revoke_at=1,qp_error_at=2,"
			 "stall_at=3,kill_at=4,strict=0,dbr=random,retry=9,retry_ns=5000,"
			 "max_reads=4,first_psn=0xfffff0,qps=12,late_device=1");

	CHECK_EQ(c.seed, 42);
	CHECK(c.drop > 0.0099 && c.drop < 0.0101);
	CHECK(c.dup > 0.019 && c.reorder > 0.09 && c.delay > 0.049);
	CHECK(c.dbr_late > 0.1249 && c.torn_cqe > 0.99);
	CHECK(c.ooo && c.no_atomics && !c.strict);
	CHECK_EQ(c.mtu, 256);
	CHECK_EQ(c.rate, 2000000000ull);
	CHECK(c.revoke_at == 1 && c.qp_error_at == 2 && c.stall_at == 3 && c.kill_at == 4);
	CHECK_EQ(c.dbr_mode, SOFT_DBR_RANDOM);
	CHECK(c.retry_count == 9 && c.retry_timeout_ns == 5000 && c.max_reads == 4);
	CHECK_EQ(c.first_psn, 0xfffff0);
	CHECK(c.qps == 12 && c.late_device == 1);
}

/* Device memory is sent in one piece, unless a packet size is set. */
TEST(mtu_of_device_memory)
{
	struct soft_config c = of("cx7", NULL);

	CHECK(c.mtu == 4096 && c.device_mtu == 1u << 30);
	c = of("cx7", "mtu=512");
	CHECK(c.mtu == 512 && c.device_mtu == 512);
	c = of("cx7", "mtu=65536");
	CHECK(c.mtu == 65536 && c.device_mtu == 65536);
	c = of(NULL, "mtu=512,device_mtu=1048576");
	CHECK(c.mtu == 512 && c.device_mtu == 1048576);
	c = of(NULL, "device_mtu=64");
	CHECK(c.mtu == 65536 && c.device_mtu == 64);
}

TEST(refused)
{
	static const char *const bad[] = {
		"drop",
		"drop=",
		"drop=2",
		"drop=-0.1",
		"drop=nan",
		"drop=0.1x",
		"dorp=0.1",
		"mtu=63",
		"mtu=1048577",
		"device_mtu=63",
		"device_mtu=1073741825",
		"mtu=abc",
		"mtu=-64",
		"ooo=2",
		"seed=0x",
		"seed=1 ",
		" seed=1",
		"rate=2T",
		"rate=99999999999G",
		"dbr=sometimes",
		"max_reads=0",
		"max_reads=65",
		"first_psn=0x1000000",
		"=1",
		"seed==1",
		"seed=99999999999999999999",
		"drop=0.1;dup=0.1",
		"seed=1,mtu=0000000000000000000000000000000000000000000000000000000000000000000000256"
	};
	struct soft_config c = of(NULL, "seed=5");

	for (size_t i = 0; i < ORI_COUNT(bad); i++) {
		int err = soft_config_faults(&c, bad[i]);

		if (err != ORIEL_ECONFIG)
			check_fail(__FILE__, __LINE__, "\"%s\" gives %d", bad[i], err);
		CHECK_EQ(c.seed, 5);
	}
	CHECK_EQ(soft_config_faults(&c, "drop=0.1,mtu=7"), ORIEL_ECONFIG);
	CHECK_HAS(ori_last_error_text(), "mtu");
	CHECK_HAS(ori_last_error_text(), "7");
	CHECK(!(c.drop > 0));
}

TEST(text_reads_back)
{
	static const char *const texts[] = {
		"seed=0",
		"mtu=65536",
		"device_mtu=4096",
		"mtu=512,device_mtu=8192",
		"seed=18446744073709551615,drop=0.1,dup=0.30000000000000004,mtu=64",
		"seed=3,no_atomics=1,ooo=1,rate=1500,dbr=record,strict=0,first_psn=0xfffff0,kill_at=9"
	};
	static const char *const names[] = { "soft", "cx7", "efa", "thor2" };

	for (size_t n = 0; n < ORI_COUNT(names); n++)
		for (size_t i = 0; i < ORI_COUNT(texts); i++) {
			struct soft_config c = of(names[n], texts[i]), again;
			char out[512], out2[512];

			soft_config_text(&c, out, sizeof(out));
			again = of(NULL, out);
			CHECK(!memcmp(&c, &again, sizeof(c)));
			soft_config_text(&again, out2, sizeof(out2));
			CHECK(!strcmp(out, out2));
		}
}

/* However small the space is, the text ends in it. */
TEST(text_in_little_space)
{
	struct soft_config c = of("efa", "seed=7,drop=0.5,dup=0.5");
	char out[64];

	for (size_t n = 0; n < sizeof(out); n++) {
		memset(out, 'x', sizeof(out));
		soft_config_text(&c, out, n);
		CHECK(!n || memchr(out, 0, n));
		CHECK_EQ(out[n], 'x');
	}
}
