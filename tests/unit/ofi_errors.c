/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit/ofi_errors.c - the ofi engine when something is wrong: keys, ranges, a peer that is killed
 * or stands still, a provider that does not exist.  An operation that fails ends with a syndrome,
 * and the comm is told once.
 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/ofi/ofi.h"
#include "engine/proxied/proxied.h"
#include "ofi_world.h"

#include <rdma/fi_errno.h>

/*
 * ---- a peer that is gone ------------------------------------------------------------------------
 */

static int exchange(int fd, struct end *e)
{
	if (write(fd, &e->mine, sizeof(e->mine)) != (ssize_t)sizeof(e->mine))
		return -1;
	return recv(fd, &e->theirs, sizeof(e->theirs), MSG_WAITALL) == (ssize_t)sizeof(e->theirs) ?
		       0 :
		       -1;
}

/* Rank 1: serves until it is killed. */
static void child_main(int fd)
{
	struct ori_config config;
	struct end e;

	end_config(&config);
	if (end_open(&e, 1, &config) || exchange(fd, &e) || end_connect(&e))
		_exit(1);
	for (int i = 0; i < 150; i++)
		sleep(1);
	_exit(0);
}

/* Drives the engine until a ping to the peer is open, or not.  Returns 0 if that takes too long. */
static int await_pinged(struct end *e, int open)
{
	struct proxied_engine *engine = (struct proxied_engine *)e->engine;
	struct ofi_fabric *fabric = (struct ofi_fabric *)engine->nic[0].fabric;
	uint64_t deadline = ori_now_ns() + END_LIMIT_NS;
	int pinged = !open;

	while (pinged != open && ori_now_ns() < deadline) {
		e->engine->ops->drive(e->engine);
		ori_proxied_lock(engine);
		pinged = fabric->peers[1].pinged;
		ori_proxied_unlock(engine);
	}
	return pinged == open;
}

/* A peer that is silent for a while is asked, but it is not given up. */
static void stop_peer(struct end *e, pid_t child)
{
	int status;

	for (int round = 0; round < 2; round++) {
		CHECK_EQ(kill(child, SIGSTOP), 0);
		CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
		end_add(e, 0, 1);
		/* the second silence needs a ping of its own */
		CHECK(await_pinged(e, 1));
		CHECK_EQ(kill(child, SIGCONT), 0);
		CHECK_EQ(end_drain(e, &e->main), 0);
		CHECK(await_pinged(e, 0));
		CHECK_EQ(*e->sink, round); /* the old value of the word */
	}
	CHECK_EQ(e->doomed, 0);
	CHECK_EQ(__atomic_load_n(&e->failed, __ATOMIC_ACQUIRE), 0);
}

static void kill_peer(struct end *e, pid_t child)
{
	uint64_t start;
	int syndrome;

	/* some are on their way when the peer dies, some come after it */
	for (int i = 0; i < 8; i++)
		end_rdma(e, ORI_WQE_RDMA_WRITE, 4096, 4096, 1 << 20, e->theirs.key[0]);
	CHECK_EQ(kill(child, SIGKILL), 0);
	for (int i = 0; i < 8; i++)
		end_add(e, 0, 1);
	start = ori_now_ns();
	syndrome = end_drain(e, &e->main);
	CHECK_EQ(syndrome, ORI_SYNDROME_RETRY_EXCEEDED);
	CHECK(ori_now_ns() - start < END_LIMIT_NS);
	CHECK_EQ(end_failures(e), 1);
	CHECK_EQ(e->doomed, 1);
	CHECK_EQ(e->syndrome, ORI_SYNDROME_RETRY_EXCEEDED);
}

/* One child for both tests, and before all others: it must find a process without threads. */
static void peer_stopped_and_gone(void)
{
	struct ori_config config;
	struct end e;
	int fds[2], status;
	pid_t child;

	REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	child = fork();
	REQUIRE(child >= 0);
	if (!child) {
		close(fds[0]);
		child_main(fds[1]);
	}
	close(fds[1]);
	end_config(&config);
	config.timeout = 15; /* it may take so long to find that nothing is taken any more */
	if (no_ofi(&config))
		goto out;
	if (end_open(&e, 0, &config) || exchange(fds[0], &e) || end_connect(&e)) {
		check_fail(__FILE__, __LINE__, "cannot connect: %s", ori_last_error_text());
		goto out;
	}
	end_rdma(&e, ORI_WQE_RDMA_WRITE, 4096, 4096, 1000, e.theirs.key[0]);
	CHECK_EQ(end_drain(&e, &e.main), 0);
	stop_peer(&e, child);
	kill_peer(&e, child);
	end_close(&e);
out:
	(void)kill(child, SIGKILL);
	CHECK_EQ(waitpid(child, &status, 0), child);
	close(fds[0]);
}

static struct check_test reg_peer = { "peer_stopped_and_gone", peer_stopped_and_gone, NULL };
__attribute__((constructor)) static void add_peer(void)
{
	check_register_early(&reg_peer);
}

/*
 * ---- keys
 * ----------------------------------------------------------------------------------------
 */

/* Refused by the proxy, before the wire; what was posted before it still arrives. */
static void refused(uint64_t remote, uint32_t rkey_change, uint32_t lkey_change, uint32_t want)
{
	struct ori_config config;
	struct end p[2];
	struct end_queue *d = &p[0].main;

	end_config(&config);
	if (no_ofi(&config))
		return;
	REQUIRE_OK(pair_open(p));
	end_add(&p[0], 0, 5);
	memset(p[0].memory + 4096, 0x55, 64);
	end_rdma(&p[0], ORI_WQE_RDMA_WRITE, 4096, 4096, 64, p[0].theirs.key[0]);
	ori_wqe_rdma(end_slot(d), d->next, d->q.qpn, ORI_WQE_RDMA_WRITE, remote,
		     p[0].theirs.key[0] ^ rkey_change, 0, p[0].mine.key[0] ^ lkey_change, 64, 0);
	end_ring(&p[0], d);
	end_add(&p[0], 0, 7); /* flushed */
	CHECK_EQ(end_drain(&p[0], d), want);
	CHECK_EQ(*(uint64_t *)(void *)p[1].memory, 5);
	CHECK_EQ(p[1].memory[4096 + 63], 0x55);
	CHECK_EQ(end_failures(&p[0]), 1);
	CHECK_EQ(p[0].syndrome, want);
	CHECK_EQ(__atomic_load_n(&p[1].failed, __ATOMIC_ACQUIRE), 0);
	pair_close(p);
}

TEST(wrong_remote_key)
{
	refused(0, 1, 0, ORI_SYNDROME_REMOTE_ACCESS);
}

TEST(wrong_remote_range)
{
	refused(END_BYTES - 63, 0, 0, ORI_SYNDROME_REMOTE_ACCESS);
}

TEST(wrong_local_key)
{
	refused(0, 0, 1, ORI_SYNDROME_LOCAL_PROT);
}

/* The peer's memory is gone and this rank was not told: the wire finds it. */
TEST(revoked_memory)
{
	struct ori_config config;
	struct end p[2];
	int syndrome;

	end_config(&config);
	if (no_ofi(&config))
		return;
	REQUIRE_OK(pair_open(p));
	end_rdma(&p[0], ORI_WQE_RDMA_WRITE, 4096, 4096, 64, p[0].theirs.key[0]);
	CHECK_EQ(end_drain(&p[0], &p[0].main), 0);
	p[1].engine->ops->memory_remove(p[1].engine, p[1].mine.key);
	memset(p[0].memory + 4096, 0x77, 64);
	end_rdma(&p[0], ORI_WQE_RDMA_WRITE, 4096, 4096, 64, p[0].theirs.key[0]);
	syndrome = end_drain(&p[0], &p[0].main);
	CHECK(syndrome > 0);
	CHECK_EQ(p[1].memory[4096], 0);
	CHECK_EQ(end_failures(&p[0]), 1);
	pair_close(p);
}

TEST(forgotten_memory)
{
	struct ori_config config;
	struct end p[2];

	end_config(&config);
	if (no_ofi(&config))
		return;
	REQUIRE_OK(pair_open(p));
	(void)p[0].engine->ops->memory_told(p[0].engine, 1, p[0].theirs.key, NULL);
	end_rdma(&p[0], ORI_WQE_RDMA_WRITE, 4096, 4096, 64, p[0].theirs.key[0]);
	CHECK_EQ(end_drain(&p[0], &p[0].main), ORI_SYNDROME_REMOTE_ACCESS);
	pair_close(p);
}

/*
 * ---- what ranks tell each other is not believed
 * ---------------------------------------------------
 */

TEST(bad_descriptions)
{
	struct ori_config config;
	struct ori_engine_blob blob;
	struct ori_engine_address address;
	struct end p[2];
	const struct ori_engine_ops *ops;

	end_config(&config);
	if (no_ofi(&config))
		return;
	REQUIRE_OK(pair_open(p));
	ops = p[0].engine->ops;
	memset(&blob, 0, sizeof(blob));
	CHECK_EQ(ops->memory_told(p[0].engine, 1, p[1].mine.key, &blob), ORIEL_EPROTO);
	memset(&blob, 0xff, sizeof(blob));
	CHECK_EQ(ops->memory_told(p[0].engine, 1, p[1].mine.key, &blob), ORIEL_EPROTO);
	CHECK(ops->memory_told(p[0].engine, 2, p[1].mine.key, &p[1].mine.blob) != 0);
	memset(&address, 0, sizeof(address));
	CHECK_EQ(ops->peer(p[0].engine, 1, &address), ORIEL_EPROTO);
	address = p[1].mine.address;
	CHECK_EQ(ops->peer(p[0].engine, 5, &address), ORIEL_EPROTO);
	address.bytes[6] = 200; /* length of the first address */
	CHECK_EQ(ops->peer(p[0].engine, 1, &address), ORIEL_EPROTO);
	pair_close(p);
}

TEST(provider_that_is_not_there)
{
	struct ori_config config;
	struct ori_engine_world world = { .nranks = 1 };
	struct ori_engine *engine = NULL;
	char reason[256] = "";

	end_config(&config);
	if (no_ofi(&config))
		return;
	snprintf(config.ofi_provider, sizeof(config.ofi_provider), "nosuch");
	CHECK_EQ(ori_ofi_engine_probe(&config, reason, sizeof(reason)), ORIEL_EUNSUPPORTED);
	CHECK_HAS(reason, "nosuch");
	CHECK_EQ(ori_ofi_engine_open(&config, &world, &engine), ORIEL_EUNSUPPORTED);
	CHECK(!engine);
}

/*
 * ---- codes
 * ---------------------------------------------------------------------------------------
 */

TEST(syndromes)
{
	CHECK_EQ(ori_ofi_syndrome(FI_EACCES), ORI_SYNDROME_REMOTE_ACCESS);
	CHECK_EQ(ori_ofi_syndrome(FI_EKEYREJECTED), ORI_SYNDROME_REMOTE_ACCESS);
	CHECK_EQ(ori_ofi_syndrome(FI_ENOSYS), ORI_SYNDROME_REMOTE_INVALID);
	CHECK_EQ(ori_ofi_syndrome(FI_ETRUNC), ORI_SYNDROME_LOCAL_LENGTH);
	CHECK_EQ(ori_ofi_syndrome(FI_ECANCELED), ORI_SYNDROME_RETRY_EXCEEDED);
	CHECK_EQ(ori_ofi_syndrome(FI_ECONNRESET), ORI_SYNDROME_RETRY_EXCEEDED);
	CHECK_EQ(ori_ofi_syndrome(FI_ECONNREFUSED), ORI_SYNDROME_RETRY_EXCEEDED);
	CHECK_EQ(ori_ofi_syndrome(FI_ENOTCONN), ORI_SYNDROME_RETRY_EXCEEDED);
	CHECK_EQ(ori_ofi_syndrome(FI_EIO), ORI_SYNDROME_RETRY_EXCEEDED);
	CHECK_EQ(ori_ofi_syndrome(12345), ORI_SYNDROME_RETRY_EXCEEDED);
}
