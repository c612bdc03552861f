/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/ofi/bare_ofi.c - measures libfabric alone: two processes with one endpoint each, without
 * Oriel.
 *
 * The operations are those of oriel_put_signal (a write of 8 bytes, then a signal word), one way,
 * and puts of 1 MiB, 8 of them open at a time.  Both ends are pinned and poll without pause.  In
 * "delivered" rows a completion means that the data is placed at the peer, as with Oriel.  In the
 * other rows it means that the data has left.
 * Prints lines "name value unit" for bench/ofi/run.sh.  Usage: bare_ofi [provider [address]].
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "../bench.h"

#define DATA_BYTES (1u << 20)
#define ROUNDS 2000
#define PUTS 200
#define PUTS_OPEN 8
#define LIMIT_S 60

enum signal_by { BY_WRITE, BY_FETCH_ADD, BY_ADD };

struct memory {
	uint64_t signal; /* written by the peer */
	uint64_t pad[7];
	uint64_t operand[PUTS_OPEN];
	uint64_t result[PUTS_OPEN];
	uint8_t data[DATA_BYTES];
	uint8_t source[DATA_BYTES];
};

struct told {
	uint64_t address, key, name_bytes;
	uint8_t name[64];
};

struct end {
	int rank, fd; /* fd: to the other process, a socket */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	struct fid_mr *mr;
	void *desc;
	fi_addr_t peer;
	struct told theirs;
	struct memory *m;
	uint64_t posted, complete;
	struct fi_context2 contexts[64];
	uint64_t flags; /* of posts */
	uint64_t deadline_ns;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void die(const char *what, long err)
{
	fprintf(stderr, "bare_ofi: %s: %s\n", what, fi_strerror((int)-err));
	exit(1);
}

static void must(const char *what, long err)
{
	if (err)
		die(what, err);
}

static void progress(struct end *e)
{
	struct fi_cq_entry entries[16];
	struct fi_cq_err_entry error = { 0 };
	ssize_t n = fi_cq_read(e->cq, entries, 16);

	if (n > 0) {
		e->complete += (uint64_t)n;
	} else if (n == -FI_EAVAIL) {
		(void)fi_cq_readerr(e->cq, &error, 0);
		die("an operation failed", -error.err);
	} else if (n != -FI_EAGAIN) {
		die("fi_cq_read", n);
	}
	if (now_ns() > e->deadline_ns) {
		fprintf(stderr, "bare_ofi: took longer than %d s\n", LIMIT_S);
		exit(1);
	}
}

static void open_end(struct end *e, const char *provider, const char *address)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE };
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	if (!hints)
		die("fi_allocinfo", -FI_ENOMEM);
	hints->caps = FI_RMA | FI_ATOMIC;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
				      FI_MR_VIRT_ADDR;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup(provider);
	must("fi_getinfo",
	     fi_getinfo(FI_VERSION(1, 14), address, NULL, FI_SOURCE, hints, &e->info));
	fi_freeinfo(hints);
	must("fi_fabric", fi_fabric(e->info->fabric_attr, &e->fabric, NULL));
	must("fi_domain", fi_domain(e->fabric, e->info, &e->domain, NULL));
	cq.size = 1024;
	must("fi_cq_open", fi_cq_open(e->domain, &cq, &e->cq, NULL));
	must("fi_av_open", fi_av_open(e->domain, &av, &e->av, NULL));
	must("fi_endpoint", fi_endpoint(e->domain, e->info, &e->ep, NULL));
	must("fi_ep_bind", fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	must("fi_ep_bind", fi_ep_bind(e->ep, &e->av->fid, 0));
	must("fi_enable", fi_enable(e->ep));
	e->m = aligned_alloc(4096, (sizeof(*e->m) + 4095) & ~4095ull);
	if (!e->m)
		die("memory", -FI_ENOMEM);
	memset(e->m, 0, sizeof(*e->m));
	must("fi_mr_reg", fi_mr_reg(e->domain, e->m, sizeof(*e->m),
				    FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
				    0x1234u + (uint64_t)e->rank, 0, &e->mr, NULL));
	e->desc = fi_mr_desc(e->mr);
}

static void meet(struct end *e)
{
	struct told mine = { .key = fi_mr_key(e->mr) };
	size_t bytes = sizeof(mine.name);

	if (e->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
		mine.address = (uint64_t)(uintptr_t)e->m;
	must("fi_getname", fi_getname(&e->ep->fid, mine.name, &bytes));
	mine.name_bytes = bytes;
	if (write(e->fd, &mine, sizeof(mine)) != sizeof(mine) ||
	    read(e->fd, &e->theirs, sizeof(e->theirs)) != sizeof(e->theirs))
		die("meeting", -FI_EIO);
	if (fi_av_insert(e->av, e->theirs.name, 1, &e->peer, 0, NULL) != 1)
		die("fi_av_insert", -FI_EINVAL);
}

static uint64_t remote(const struct end *e, const void *local)
{
	return e->theirs.address + (uint64_t)((const uint8_t *)local - (const uint8_t *)e->m);
}

static void put(struct end *e, const void *from, void *to, size_t bytes)
{
	struct iovec iov = { (void *)(uintptr_t)from, bytes };
	struct fi_rma_iov rma = { remote(e, to), bytes, e->theirs.key };
	struct fi_msg_rma msg = { .msg_iov = &iov,
				  .desc = &e->desc,
				  .iov_count = 1,
				  .addr = e->peer,
				  .rma_iov = &rma,
				  .rma_iov_count = 1,
				  .context = &e->contexts[e->posted % 64] };
	ssize_t err;

	while ((err = fi_writemsg(e->ep, &msg, e->flags | FI_COMPLETION)) == -FI_EAGAIN)
		progress(e);
	must("fi_writemsg", err);
	e->posted++;
}

static void add(struct end *e, uint64_t value, int fetch)
{
	uint64_t *operand = &e->m->operand[e->posted % PUTS_OPEN];
	uint64_t *result = &e->m->result[e->posted % PUTS_OPEN];
	struct fi_ioc ioc = { operand, 1 }, old = { result, 1 };
	struct fi_rma_ioc rma = { remote(e, &e->m->signal), 1, e->theirs.key };
	struct fi_msg_atomic msg = { .msg_iov = &ioc,
				     .desc = &e->desc,
				     .iov_count = 1,
				     .addr = e->peer,
				     .rma_iov = &rma,
				     .rma_iov_count = 1,
				     .datatype = FI_UINT64,
				     .op = FI_SUM,
				     .context = &e->contexts[e->posted % 64] };
	ssize_t err;

	*operand = value;
	do {
		err = fetch ? fi_fetch_atomicmsg(e->ep, &msg, &old, &e->desc, 1, FI_COMPLETION) :
			      fi_atomicmsg(e->ep, &msg, FI_COMPLETION | e->flags);
		if (err == -FI_EAGAIN)
			progress(e);
	} while (err == -FI_EAGAIN);
	must("atomic", err);
	e->posted++;
}

static void signal_peer(struct end *e, enum signal_by by, uint64_t total)
{
	if (by == BY_WRITE) {
		uint64_t *operand = &e->m->operand[e->posted % PUTS_OPEN];

		*operand = total;
		put(e, operand, &e->m->signal, 8);
	} else {
		add(e, 1, by == BY_FETCH_ADD);
	}
}

static void wait_signal(struct end *e, uint64_t total)
{
	while (__atomic_load_n(&e->m->signal, __ATOMIC_ACQUIRE) < total)
		progress(e);
}

static void wait_complete(struct end *e, uint64_t open)
{
	while (e->posted - e->complete > open)
		progress(e);
}

/* A figure is the median of BENCH_BLOCKS timed loops, after one that warms up. */
static void ping_pong(struct end *e, enum signal_by by, const char *name)
{
	double us[BENCH_BLOCKS + 1];
	uint64_t total;

	wait_complete(e, 0);
	total = e->m->signal;
	for (int block = 0; block <= BENCH_BLOCKS; block++) {
		uint64_t start = now_ns();

		for (int i = 0; i < ROUNDS; i++) {
			total++;
			if (e->rank)
				wait_signal(e, total);
			wait_complete(e, PUTS_OPEN - 2);
			put(e, e->m->source, e->m->data, 8);
			signal_peer(e, by, total);
			if (!e->rank)
				wait_signal(e, total);
		}
		us[block] = (double)(now_ns() - start) / 2e3 / ROUNDS;
	}
	if (!e->rank)
		bench_print(name, bench_median(us + 1, BENCH_BLOCKS), "us");
	wait_complete(e, 0);
}

/* Rank 0 puts; then it adds 1 to rank 1's signal, so that both go on together. */
static void bandwidth(struct end *e, const char *name)
{
	double rate[BENCH_BLOCKS + 1];
	uint64_t base = e->m->signal;

	for (int block = 0; block <= BENCH_BLOCKS && !e->rank; block++) {
		uint64_t start = now_ns();

		for (int i = 0; i < PUTS; i++) {
			wait_complete(e, PUTS_OPEN - 1);
			put(e, e->m->source, e->m->data, DATA_BYTES);
		}
		wait_complete(e, 0);
		rate[block] = (double)PUTS * DATA_BYTES / (double)(now_ns() - start);
	}
	if (e->rank) {
		wait_signal(e, base + 1);
		e->m->signal = base; /* both sides count alike */
		return;
	}
	bench_print(name, bench_median(rate + 1, BENCH_BLOCKS), "GB/s");
	add(e, 1, 1);
	wait_complete(e, 0);
}

static void close_end(struct end *e)
{
	char byte = 0;
	uint64_t until = now_ns() + 200000000ull;

	/* the other side may still need this one's progress */
	if (write(e->fd, &byte, 1) != 1)
		exit(1);
	while (now_ns() < until && recv(e->fd, &byte, 1, MSG_DONTWAIT) != 1)
		progress(e);
	fi_close(&e->ep->fid);
	fi_close(&e->mr->fid);
	fi_close(&e->av->fid);
	fi_close(&e->cq->fid);
	fi_close(&e->domain->fid);
	fi_close(&e->fabric->fid);
	fi_freeinfo(e->info);
	free(e->m);
}

static int run(int rank, int fd, const char *provider, const char *address)
{
	struct end e = { .rank = rank, .fd = fd };

	(void)bench_pin(rank);
	e.deadline_ns = now_ns() + LIMIT_S * 1000000000ull;
	open_end(&e, provider, address);
	meet(&e);
	ping_pong(&e, BY_FETCH_ADD, "bare_put_fetch_add");
	ping_pong(&e, BY_ADD, "bare_put_add");
	ping_pong(&e, BY_WRITE, "bare_put_write");
	bandwidth(&e, "bare_put_1MiB");
	e.flags = FI_DELIVERY_COMPLETE;
	ping_pong(&e, BY_FETCH_ADD, "bare_put_fetch_add_delivered");
	ping_pong(&e, BY_ADD, "bare_put_add_delivered");
	ping_pong(&e, BY_WRITE, "bare_put_write_delivered");
	bandwidth(&e, "bare_put_1MiB_delivered");
	close_end(&e);
	return 0;
}

int main(int argc, char **argv)
{
	const char *provider = argc > 1 ? argv[1] : "tcp;ofi_rxm";
	const char *address = argc > 2 ? argv[2] : "127.0.0.1";
	int fds[2], status;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		return 1;
	child = fork();
	if (child < 0)
		return 1;
	if (!child)
		return run(1, fds[1], provider, address);
	if (run(0, fds[0], provider, address))
		return 1;
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return 1;
	return WEXITSTATUS(status);
}
