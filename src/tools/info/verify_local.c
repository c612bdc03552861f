/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/verify_local.c - checks what a rank needs on its machine, and says how to get it.
 *
 * Called by: verify.c, on the rank's thread, before the ranks meet.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "../../util/util.h"
#include "verify.h"

#define RANK_BYTES (32ull << 20) /* memory for a rank and its windows here */
#define LOCKED_BYTES (64ull << 20)

void verify_set(struct verify_check *c, enum verify_state state, const char *remedy,
		const char *cause, ...)
{
	va_list ap;

	c->state = state;
	va_start(ap, cause);
	vsnprintf(c->cause, sizeof(c->cause), cause, ap);
	va_end(ap);
	snprintf(c->remedy, sizeof(c->remedy), "%s", remedy);
}

const char *verify_remedy(int status)
{
	switch (status) {
	case ORIEL_ECONFIG:
		return "correct that variable; oriel-info lists all with their meaning";
	case ORIEL_EAUTH:
		return "set ORIEL_SECRET to the same text on all ranks";
	case ORIEL_ETIMEDOUT:
		return "check that the named rank runs and that its host can reach rank 0's host "
		       "(firewall, MASTER_ADDR, ORIEL_BOOT_ADDR)";
	case ORIEL_EPEER:
		return "read the output of the named rank: it ended first";
	case ORIEL_ENOMEM:
	case ORIEL_ESYSTEM:
		return "raise the limit that the message names (ulimit -a; container limits)";
	case ORIEL_EUNSUPPORTED:
		return "run oriel-info: it lists engines and devices, and what each of them lacks";
	case ORIEL_EMISMATCH:
		return "start all ranks with the same variables and the same Oriel";
	case ORIEL_EREMOTE:
		return "try ORIEL_ENGINE=soft: if it works, check the NIC's firmware, driver "
		       "and peer-memory support";
	default:
		return "run again with ORIEL_LOG=debug";
	}
}

static void check_variables(const struct info *info, struct verify_check *c)
{
	if (info->problems)
		verify_set(c, VERIFY_FAILED, verify_remedy(ORIEL_ECONFIG), "%s", info->problem[0]);
	else
		verify_set(c, VERIFY_OK, "", "no bad or unknown ORIEL_* variable");
}

/* Allocates shared memory in the same way as a comm. */
static void check_shared_memory(struct verify_check *c)
{
	size_t bytes = 1 << 20;
	int fd = memfd_create("oriel-verify", MFD_CLOEXEC);
	void *at = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, (off_t)bytes))
		at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		verify_set(c, VERIFY_FAILED,
			   "allow memfd_create and mmap (seccomp profile, memory limit)",
			   "shared memory (memfd) does not work: %m");
	} else {
		memset(at, 1, bytes);
		munmap(at, bytes);
		verify_set(c, VERIFY_OK, "", "memfd works");
	}
	if (fd >= 0)
		close(fd);
}

static uint64_t available_bytes(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	}
	if (f)
		fclose(f);
	return kib * 1024;
}

static void check_memory(int local_ranks, struct verify_check *c)
{
	uint64_t have = available_bytes(), want = RANK_BYTES * (uint64_t)local_ranks;

	if (!have)
		verify_set(c, VERIFY_SKIPPED, "",
			   "the system does not say how much memory is available");
	else if (have < want)
		verify_set(c, VERIFY_WARNING, "free memory, or start fewer ranks on this host",
			   "%.1f GiB available for %d ranks on this host", (double)have / (1 << 30),
			   local_ranks);
	else
		verify_set(c, VERIFY_OK, "", "%.1f GiB available for %d ranks on this host",
			   (double)have / (1 << 30), local_ranks);
}

static void check_descriptors(int nranks, struct verify_check *c)
{
	uint64_t want = 64 + 4 * (uint64_t)nranks;
	struct rlimit limit;
	char remedy[VERIFY_TEXT];

	if (getrlimit(RLIMIT_NOFILE, &limit)) {
		verify_set(c, VERIFY_SKIPPED, "", "the limit is not known");
		return;
	}
	snprintf(remedy, sizeof(remedy),
		 "set ulimit -n %llu, or LimitNOFILE of the service that starts the ranks",
		 (unsigned long long)want);
	if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < want)
		verify_set(c, VERIFY_FAILED, remedy, "%llu open files allowed, %llu may be needed",
			   (unsigned long long)limit.rlim_cur, (unsigned long long)want);
	else
		verify_set(c, VERIFY_OK, "", "%llu open files may be needed, more are allowed",
			   (unsigned long long)want);
}

/* NICs pin the memory that they access; the software NIC does not. */
static void check_locked(struct verify_check *c)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		verify_set(c, VERIFY_SKIPPED, "", "the limit is not known");
	else if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < LOCKED_BYTES)
		verify_set(c, VERIFY_WARNING,
			   "set ulimit -l unlimited before you use an RDMA device",
			   "only %llu KiB may be locked: too little for an RDMA device",
			   (unsigned long long)limit.rlim_cur / 1024);
	else
		verify_set(c, VERIFY_OK, "", "enough memory may be locked");
}

static void check_cores(const struct info *info, int local_ranks, struct verify_check *c)
{
	int cores = info->machine.cores_usable;

	if (cores < local_ranks)
		verify_set(c, VERIFY_WARNING,
			   "start fewer ranks on this host, or let them use more cores",
			   "%d ranks share %d cores: waits sleep, so latency is higher",
			   local_ranks, cores);
	else
		verify_set(c, VERIFY_OK, "", "%d cores for %d ranks on this host", cores,
			   local_ranks);
}

void verify_local(const struct info *info, int nranks, int local_ranks, struct verify_check *checks)
{
	check_variables(info, &checks[VERIFY_VARIABLES]);
	check_shared_memory(&checks[VERIFY_SHARED_MEMORY]);
	check_memory(local_ranks, &checks[VERIFY_MEMORY]);
	check_descriptors(nranks, &checks[VERIFY_DESCRIPTORS]);
	check_locked(&checks[VERIFY_LOCKED]);
	check_cores(info, local_ranks, &checks[VERIFY_CORES]);
}
