/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/syscall_faults.c - the nth call of a kind of system call fails.
 *
 * There must be no crash and no hang, every call of the library must return a status, and no
 * descriptor may stay open.  EINTR must have no effect at all.
 *
 * This program defines the calls in front of the C library's (or the sanitizer's).  They fail on
 * any thread of the process, also on the library's own threads.  Every case is its own process
 * (pool.h).
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/eventfd.h>

#include "../../src/boot/tcp.h"
#include "boot_job.h"
#include "pool.h"
#include "scenario.h"

#define TIMEOUT_S 4.0
#define TIMEOUT_TEXT "4"
#define SPARE_S 10.0 /* any process may stand still for some seconds */

/* ---- the calls in front ---------------------------------------------------------------------- */

enum call {
	MEMFD_CREATE = 1,
	FTRUNCATE,
	MMAP,
	SOCKET,
	BIND,
	LISTEN,
	ACCEPT4,
	CONNECT,
	SEND,
	SENDMSG,
	RECV,
	RECVMSG,
	EVENTFD,
	PTHREAD_CREATE,
	FCNTL,
	DUP,
	FALLOCATE,
	POLL,
};

static int faulty;    /* enum call that fails; 0: none.  Atomic, as all here */
static int countdown; /* which of them */
static int fault_errno;
static int fired;

/* Runs before the sanitizer is ready, and inside of it. */
#define BARE __attribute__((no_sanitize("address", "undefined", "thread")))

BARE static int fails(enum call call)
{
	if (__atomic_load_n(&faulty, __ATOMIC_ACQUIRE) != (int)call ||
	    __atomic_sub_fetch(&countdown, 1, __ATOMIC_ACQ_REL))
		return 0;
	__atomic_store_n(&fired, 1, __ATOMIC_RELEASE);
	errno = __atomic_load_n(&fault_errno, __ATOMIC_RELAXED);
	return 1;
}

static void arm(enum call call, int error, int n)
{
	__atomic_store_n(&fired, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&fault_errno, error, __ATOMIC_RELAXED);
	__atomic_store_n(&countdown, n, __ATOMIC_RELAXED);
	__atomic_store_n(&faulty, (int)call, __ATOMIC_RELEASE);
}

/* The function behind ours; looked up at each call, so that no start order matters. */
BARE static void *behind(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	if (!f)
		_exit(97);
	return f;
}

/* A union: ISO C has no cast from an object pointer to a function pointer. */
#define FORWARD(ret, name, types, args)                                                            \
	union {                                                                                    \
		void *found;                                                                       \
		ret(*f) types;                                                                     \
	} next = { .found = behind(name) };                                                        \
	return next.f args

BARE int memfd_create(const char *name, unsigned flags)
{
	if (fails(MEMFD_CREATE))
		return -1;
	FORWARD(int, "memfd_create", (const char *, unsigned), (name, flags));
}

BARE int ftruncate(int fd, off_t bytes)
{
	if (fails(FTRUNCATE))
		return -1;
	FORWARD(int, "ftruncate", (int, off_t), (fd, bytes));
}

BARE void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (fd >= 0 && flags & MAP_SHARED && fails(MMAP))
		return MAP_FAILED;
	FORWARD(void *, "mmap", (void *, size_t, int, int, int, off_t),
		(at, bytes, prot, flags, fd, offset));
}

BARE int socket(int domain, int type, int protocol)
{
	if (fails(SOCKET))
		return -1;
	FORWARD(int, "socket", (int, int, int), (domain, type, protocol));
}

BARE int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	if (fails(BIND))
		return -1;
	FORWARD(int, "bind", (int, const struct sockaddr *, socklen_t), (fd, address, bytes));
}

BARE int listen(int fd, int backlog)
{
	if (fails(LISTEN))
		return -1;
	FORWARD(int, "listen", (int, int), (fd, backlog));
}

BARE int accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
	if (fails(ACCEPT4))
		return -1;
	FORWARD(int, "accept4", (int, struct sockaddr *, socklen_t *, int),
		(fd, address, bytes, flags));
}

BARE int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	if (fails(CONNECT))
		return -1;
	FORWARD(int, "connect", (int, const struct sockaddr *, socklen_t), (fd, address, bytes));
}

BARE ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
	if (fails(SEND))
		return -1;
	FORWARD(ssize_t, "send", (int, const void *, size_t, int), (fd, data, bytes, flags));
}

BARE ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (fails(SENDMSG))
		return -1;
	FORWARD(ssize_t, "sendmsg", (int, const struct msghdr *, int), (fd, message, flags));
}

BARE ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
	if (fails(RECV))
		return -1;
	FORWARD(ssize_t, "recv", (int, void *, size_t, int), (fd, data, bytes, flags));
}

BARE ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	if (fails(RECVMSG))
		return -1;
	FORWARD(ssize_t, "recvmsg", (int, struct msghdr *, int), (fd, message, flags));
}

BARE int eventfd(unsigned count, int flags)
{
	if (fails(EVENTFD))
		return -1;
	FORWARD(int, "eventfd", (unsigned, int), (count, flags));
}

BARE int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main_fn)(void *),
			void *arg)
{
	if (fails(PTHREAD_CREATE))
		return errno;
	FORWARD(int, "pthread_create",
		(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *),
		(thread, attr, main_fn, arg));
}

BARE int fcntl(int fd, int command, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, command);
	arg = va_arg(ap, void *); /* an int or a pointer: both travel in one register */
	va_end(ap);
	if (fails(FCNTL))
		return -1;
	FORWARD(int, "fcntl", (int, int, ...), (fd, command, arg));
}

BARE int dup(int fd)
{
	if (fails(DUP))
		return -1;
	FORWARD(int, "dup", (int), (fd));
}

BARE int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	if (fails(FALLOCATE))
		return -1;
	FORWARD(int, "fallocate", (int, int, off_t, off_t), (fd, mode, offset, bytes));
}

BARE int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	if (fails(POLL))
		return -1;
	FORWARD(int, "poll", (struct pollfd *, nfds_t, int), (fds, n, timeout_ms));
}

/* The name that poll() has in a hardened library, where its array has a known size. */
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t bytes);

BARE int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t bytes)
{
	(void)bytes;
	return poll(fds, n, timeout_ms);
}

/* ---- what fails how -------------------------------------------------------------------------- */

static const struct fault {
	enum call call;
	int error;
	const char *name;
	int harmless; /* the library goes on as if nothing had been */
} faults[] = {
	{ MEMFD_CREATE, EMFILE, "memfd_create: EMFILE", 0 },
	{ FTRUNCATE, ENOSPC, "ftruncate: ENOSPC", 0 },
	{ MMAP, ENOMEM, "mmap: ENOMEM", 0 },
	{ SOCKET, EMFILE, "socket: EMFILE", 0 },
	{ BIND, EADDRINUSE, "bind: EADDRINUSE", 0 },
	{ LISTEN, EADDRINUSE, "listen: EADDRINUSE", 0 },
	{ ACCEPT4, EMFILE, "accept4: EMFILE", 1 }, /* it stays in the queue */
	{ ACCEPT4, EINTR, "accept4: EINTR", 1 },
	{ CONNECT, ECONNREFUSED, "connect: ECONNREFUSED", 0 },
	{ CONNECT, EINTR, "connect: EINTR", 1 },
	{ SEND, EPIPE, "send: EPIPE", 0 },
	{ SEND, EINTR, "send: EINTR", 1 },
	{ SENDMSG, EPIPE, "sendmsg: EPIPE", 0 },
	{ SENDMSG, EINTR, "sendmsg: EINTR", 1 },
	{ RECV, ECONNRESET, "recv: ECONNRESET", 0 },
	{ RECV, EINTR, "recv: EINTR", 1 },
	{ RECVMSG, ECONNRESET, "recvmsg: ECONNRESET", 0 },
	{ RECVMSG, EINTR, "recvmsg: EINTR", 1 },
	{ EVENTFD, EMFILE, "eventfd: EMFILE", 0 },
	{ PTHREAD_CREATE, EAGAIN, "pthread_create: EAGAIN", 0 },
	{ FCNTL, EMFILE, "fcntl: EMFILE", 0 },
	{ DUP, EMFILE, "dup: EMFILE", 0 },
	{ FALLOCATE, EOPNOTSUPP, "fallocate: EOPNOTSUPP", 1 },
	{ POLL, EINTR, "poll: EINTR", 1 },
};

#define FAULTS (sizeof(faults) / sizeof(faults[0]))

/* Nobody waits for the deadline if the fault is harmless, so a slow machine must not reach it. */
static const char *timeout_text(const struct fault *f)
{
	return f->harmless ? JOB_NEVER : TIMEOUT_TEXT;
}

static double timeout_s(const struct fault *f)
{
	return f->harmless ? JOB_NEVER_S : TIMEOUT_S;
}

/* A rendezvous that no rank joins closes by itself, after its timeout. */
static void check_fds(int before, const char *name, int n)
{
	double until = scenario_now() + TIMEOUT_S + SPARE_S;
	int now;

	while ((now = scenario_open_fds()) != before && scenario_now() < until) {
		usleep(2000);
		ori_tcp_hub_reap(); /* as the next one to start does */
	}
	if (now != before)
		check_fail(__FILE__, __LINE__, "%s, number %d: %d descriptors were open, now %d",
			   name, n, before, now);
}

static void judge(const struct fault *f, int n, int status, const char *call, const char *error)
{
	if (status && f->harmless)
		check_fail(__FILE__, __LINE__, "%s, number %d: %s gave %s: %s", f->name, n, call,
			   oriel_status_name(status), error);
	if (status > 0 || (status && !*error))
		check_fail(__FILE__, __LINE__, "%s, number %d: %s gave %d (\"%s\")", f->name, n,
			   call, status, error);
}

/* ---- one rank -------------------------------------------------------------------------------- */

static int boot_alone(struct oriel_boot **boot)
{
	return oriel_boot_env(boot);
}

/* Over TCP with itself: rendezvous and rank are threads of this process. */
static int boot_by_id(struct oriel_boot **boot)
{
	struct oriel_boot_id id;
	int err = oriel_boot_make_id(&id);

	return err ? err : oriel_boot_join(&id, 0, 1, boot);
}

static int run_once(const struct fault *f, int n, int (*boot)(struct oriel_boot **))
{
	struct scenario s = { .nranks = 1, .timeout_s = timeout_s(f) };
	double start = scenario_now();
	int did;

	arm(f->call, f->error, n);
	scenario_note(&s, "boot", boot(&s.boot));
	scenario_run(&s);
	/* the library's threads may be about to make one more call, of those that wait */
	did = __atomic_load_n(&fired, __ATOMIC_ACQUIRE);
	arm(0, 0, 0);
	judge(f, n, s.status, s.call, s.error);
	if (scenario_now() - start > 2 * TIMEOUT_S + SPARE_S)
		check_fail(__FILE__, __LINE__, "%s, number %d: took %.1f s", f->name, n,
			   scenario_now() - start);
	return did;
}

/* Present in programs built with AddressSanitizer. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

/* A leak check takes seconds: only of a process whose heap has grown. */
static void check_leaks(size_t before, const char *name, int n)
{
	if (__sanitizer_get_current_allocated_bytes && __lsan_do_recoverable_leak_check &&
	    __sanitizer_get_current_allocated_bytes() > before &&
	    __lsan_do_recoverable_leak_check())
		check_fail(__FILE__, __LINE__, "%s, number %d: leaked memory", name, n);
}

static int run_one_rank(const struct fault *f, int n, int (*boot)(struct oriel_boot **))
{
	size_t heap = __sanitizer_get_current_allocated_bytes ?
			      __sanitizer_get_current_allocated_bytes() :
			      0;
	int before = scenario_open_fds(), did = run_once(f, n, boot);

	check_fds(before, f->name, n);
	check_leaks(heap, f->name, n);
	return did;
}

/* ---- the environment ------------------------------------------------------------------------- */

static void *create_comm(void *boot)
{
	struct oriel_comm *comm = NULL;
	char stack[8192];

	memset(stack, 0, sizeof(stack)); /* what was never set is 0: a deadline that has passed */
	__asm__ volatile("" : : "r"(stack) : "memory");
	return (void *)(intptr_t)oriel_comm_create(boot, NULL, &comm);
}

/* The other rank comes late, and both are told the cause. */
TEST(environment_goes_bad)
{
	struct oriel_boot *boots[2];
	pthread_t thread;
	void *status;

	REQUIRE_OK(oriel_boot_threads(2, boots));
	setenv("ORIEL_LATE", "soon", 1);
	REQUIRE(!pthread_create(&thread, NULL, create_comm, boots[1]));
	usleep(20000); /* mostly the other one waits by then; it is all the same if not */
	CHECK_EQ((intptr_t)create_comm(boots[0]), ORIEL_ECONFIG);
	pthread_join(thread, &status);
	CHECK_EQ((intptr_t)status, ORIEL_ECONFIG);
	unsetenv("ORIEL_LATE");
	CHECK_EQ(oriel_boot_destroy(boots[0]), 0);
	CHECK_EQ(oriel_boot_destroy(boots[1]), 0);
}

/* ---- two processes --------------------------------------------------------------------------- */

/* Set before the fork, for the ranks of the job. */
static const struct fault *job_fault;
static int job_n;

static void job_rank(struct job *job, int rank)
{
	struct scenario s = { .rank = rank, .nranks = 2, .timeout_s = timeout_s(job_fault) };
	struct job_rank *r = &job->ranks[rank];
	int before = scenario_open_fds();
	double start = scenario_now();

	if (rank == 0)
		arm(job_fault->call, job_fault->error, job_n);
	scenario_note(&s, "boot", oriel_boot_env(&s.boot));
	scenario_run(&s);
	r->told = __atomic_load_n(&fired, __ATOMIC_ACQUIRE);
	arm(0, 0, 0);
	r->seconds = scenario_now() - start;
	r->status = s.status;
	snprintf(r->error, sizeof(r->error), "%s", s.error);
	snprintf(r->why, sizeof(r->why), "%s", s.call ? s.call : "");
	check_fds(before, job_fault->name, job_n);
	r->ran = 1;
}

/* A job in which rank 0's nth call fails; returns whether there was one. */
static int run_two(const struct fault *f, int n)
{
	struct job job;

	job_fault = f;
	job_n = n;
	if (job_open(&job, 2, timeout_text(f)))
		return 0;
	job_start(&job, 0, NULL, job_rank);
	job_start(&job, 1, NULL, job_rank);
	close(job.listen_fd);
	job.listen_fd = -1;
	for (int r = 0; r < 2; r++) {
		const struct job_rank *one = &job.ranks[r];

		job_wait(&job, r);
		if (job.codes[r] || !one->ran)
			check_fail(__FILE__, __LINE__, "%s, number %d: rank %d ended with %d",
				   f->name, n, r, job.codes[r]);
		judge(f, n, one->status, one->why, one->error[0] ? one->error : "-");
		if (one->seconds > 2 * TIMEOUT_S + SPARE_S)
			check_fail(__FILE__, __LINE__, "%s, number %d: rank %d took %.1f s",
				   f->name, n, r, one->seconds);
	}
	n = job.ranks[0].told;
	job_close(&job);
	return n;
}

/* ---- all of them ----------------------------------------------------------------------------- */

enum kind { ONE_ALONE, ONE_OVER_TCP, TWO, KINDS };

/* Of two processes: all of the first, then a sample of the many. */
static const int numbers[] = { 1, 2, 3, 4, 5, 6, 7, 8, 11, 15, 20, 26, 33, 41 };

#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))
#define NUMBERS_MAX 300 /* of one process */

/* Shared with the processes of the cases: 1: there are not so many; 2: it failed. */
static int (*verdicts)[KINDS][FAULTS];

struct fault_case {
	size_t at; /* the number's place, from 0 */
	enum kind kind;
	size_t fault;
};

/* All first calls, then all second ones, and so on. */
static struct fault_case case_of(int i)
{
	struct fault_case c = { .at = (size_t)i / (KINDS * FAULTS),
				.kind = (enum kind)((size_t)i / FAULTS % KINDS),
				.fault = (size_t)i % FAULTS };

	return c;
}

static void run_case(int i)
{
	struct fault_case c = case_of(i);
	const struct fault *f = &faults[c.fault];
	int did;

	setenv("ORIEL_TIMEOUT", timeout_text(f), 1);
	if (c.kind == TWO)
		did = run_two(f, numbers[c.at]);
	else
		did = run_one_rank(f, (int)c.at + 1, c.kind == ONE_ALONE ? boot_alone : boot_by_id);
	__atomic_store_n(&verdicts[c.at][c.kind][c.fault], did ? 2 : 1, __ATOMIC_RELEASE);
}

static int is_wanted(int i)
{
	struct fault_case c = case_of(i);

	if (check_failures || (c.kind == TWO && c.at >= NUMBERS))
		return 0;
	for (size_t at = 0; at < c.at; at++)
		if (__atomic_load_n(&verdicts[at][c.kind][c.fault], __ATOMIC_ACQUIRE) == 1)
			return 0;
	return 1;
}

static int sum_up(enum kind kind, const char *name)
{
	int total = 0;

	for (size_t f = 0; f < FAULTS; f++) {
		int n = 0;

		for (size_t at = 0; at < NUMBERS_MAX; at++)
			n += verdicts[at][kind][f] == 2;
		CHECK(n < NUMBERS_MAX);
		if (n)
			printf("%s, %s: %d times\n", name, faults[f].name, n);
		total += n;
	}
	return total;
}

TEST(every_call)
{
	static const struct fault none = { 0, 0, "nothing", 1 };
	const struct pool pool = { .count = NUMBERS_MAX * KINDS * (int)FAULTS,
				   .wanted = is_wanted,
				   .run = run_case,
				   .what = "case" };

	verdicts = pool_shared(NUMBERS_MAX * sizeof(*verdicts));
	setenv("ORIEL_TIMEOUT", timeout_text(&none), 1);
	run_one_rank(&none, 0, boot_alone);
	run_one_rank(&none, 0, boot_by_id);
	pool_run(&pool);
	CHECK(sum_up(ONE_ALONE, "one rank") > 10);
	CHECK(sum_up(ONE_OVER_TCP, "one rank over TCP") > 10);
	CHECK(sum_up(TWO, "two processes") > 80);
	unsetenv("ORIEL_TIMEOUT");
}
