/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/mlx5_probe.c - the messages of the mlx5 engine if something is missing: they name the
 * thing and the remedy.  The probe leaves nothing behind.
 */
#include <oriel/oriel.h>

#include "../check.h"

#if __has_include(<infiniband/mlx5dv.h>)
#include <stdbool.h>

#include "mlx5_stub.h"

static char text[256];

static int probe(void)
{
	struct ori_config config;
	int err;

	stub_config(&config, 0, "64");
	err = ori_mlx5_engine_probe(&config, NULL, text, sizeof(text));
	return err;
}

/* With one thing missing; `what` and `remedy` are in the line, and the line ends by itself. */
static void lacks(int *missing, const char *what, const char *remedy)
{
	*missing = 1;
	CHECK_EQ(probe(), missing == &stub.not_mlx5 ? ORIEL_EUNSUPPORTED : MLX5_LACKING);
	CHECK_HAS(text, what);
	CHECK_HAS(text, remedy);
	CHECK(strlen(text) < sizeof(text) - 1);
	CHECK_EQ(fake.live, 0);
	*missing = 0;
}

TEST(everything_is_there)
{
	stub_open_world();
	CHECK_EQ(probe(), 0);
	CHECK_HAS(text, "fake_0 port 1");
	for (stub.blocks = 1; stub.blocks <= 8; stub.blocks++)
		CHECK_EQ(probe(), 0);
	stub_close_world();
}

/* The format of timestamps is that of the device: the stub checks each queue pair. */
TEST(timestamps_by_capability)
{
	stub_open_world();
	for (stub.no_roce = 0; stub.no_roce < 2; stub.no_roce++)
		for (stub.ts_formats = 0; stub.ts_formats < 3; stub.ts_formats++)
			CHECK_EQ(probe(), 0);
	stub_close_world();
}

TEST(each_lack_is_named)
{
	stub_open_world();
	lacks(&stub.not_mlx5, "not an mlx5 device", "ORIEL_ENGINE=verbs");
	lacks(&stub.no_open, "DevX", "UCTX_EN=1");
	lacks(&stub.no_command, "capabilities", "UCTX_EN=1");
	lacks(&stub.no_core_direct, "core-direct", "firmware");
	lacks(&stub.no_cq, "ignores overruns", "kernel");
	lacks(&stub.big_cqe, "64 bytes", "MLX5_CQE_SIZE");
	lacks(&stub.no_qp, "queue pair", "kernel");
	lacks(&stub.no_show, "memory", "rdma-core");
	lacks(&stub.no_doorbell, "doorbell", "uverbs");
	lacks(&stub.no_umem, "queue memory", "ulimit -l");
	lacks(&stub.no_uar, "doorbell page", "ORIEL_LANES");
	lacks(&stub.no_object, "core-direct queue pair", "ORIEL_ENGINE=verbs");
	fake.atomic_cap = IBV_ATOMIC_NONE;
	CHECK_EQ(probe(), MLX5_LACKING);
	CHECK_HAS(text, "no atomics");
	fake.atomic_cap = IBV_ATOMIC_HCA;
	fake.devices = 0;
	CHECK_EQ(probe(), ORIEL_EUNSUPPORTED);
	CHECK_HAS(text, "no RDMA device");
	stub_close_world();
}

/* Where a GPU is to post. */
TEST(out_of_a_gpus_reach)
{
	struct ori_engine_world world = {
		.nranks = 2, .device_posts = 1, .reach = stub_reach, .unreach = stub_unreach
	};
	struct ori_config config;

	stub_open_world();
	stub_config(&config, 0, "16");
	stub.alone = 1;
	CHECK_EQ(ori_mlx5_engine_probe(&config, &world, text, sizeof(text)), 0);
	CHECK(stub.doorbells > 0);
	CHECK_EQ(stub.mapped, 0);
	stub.no_registers = 1;
	CHECK_EQ(ori_mlx5_engine_probe(&config, &world, text, sizeof(text)), MLX5_LACKING);
	CHECK_HAS(text, "doorbells of fake_0: out of the GPU's reach: registers");
	CHECK_HAS(text, "ORIEL_ENGINE=verbs");
	stub.no_registers = 0;
	stub.no_pages = 1;
	CHECK_EQ(ori_mlx5_engine_probe(&config, &world, text, sizeof(text)), MLX5_LACKING);
	CHECK_HAS(text, "out of the GPU's reach: pages");
	stub.no_pages = 0;
	stub.no_context = 1;
	CHECK_EQ(ori_mlx5_engine_probe(&config, &world, text, sizeof(text)), MLX5_LACKING);
	CHECK_HAS(text, "GPU reaches");
	stub_close_world();
}

/* Fields of commands, against bytes worked out by hand. */
TEST(fields)
{
	uint32_t words[MLX5_COMMAND_WORDS] = { 0 };
	const uint8_t *bytes = (const uint8_t *)words;

	mlx5_set(words, MLX5_OPCODE, 0x500);
	CHECK_EQ(bytes[0] << 8 | bytes[1], 0x500);
	mlx5_set(words, MLX5_QPC_PD, 0xabcdef);
	CHECK_EQ(bytes[0x18 + 5], 0xab);
	CHECK_EQ(bytes[0x18 + 7], 0xef);
	mlx5_set(words, MLX5_QPC_CD_MASTER, 1);
	CHECK_EQ(bytes[0x18 + 0x93], 1);
	mlx5_set(words, MLX5_QPC_LOG_SQ_SIZE, 15);
	CHECK_EQ(bytes[0x18 + 0xa], 0x78);
	mlx5_set(words, MLX5_QPC_LOG_SQ_SIZE, 1);
	CHECK_EQ(bytes[0x18 + 0xa], 0x08);
	mlx5_set64(words, MLX5_QPC_DBR_ADDR, 0x0102030405060708ull);
	CHECK_EQ(bytes[0x18 + 0xa0], 1);
	CHECK_EQ(bytes[0x18 + 0xa7], 8);
	CHECK_EQ(mlx5_get64(words, MLX5_QPC_DBR_ADDR), 0x0102030405060708ull);
	CHECK_EQ(mlx5_get(words, MLX5_QPC_PD), 0xabcdef);
}
#else
TEST(mlx5_probe)
{
	check_skip("infiniband/mlx5dv.h is not installed");
}
#endif
