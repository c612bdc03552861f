/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/service.c - answers oriel-doctor, and prints the graph after SIGUSR1.
 *
 * There is one service per process, as long as a comm of the process exists: a thread that sleeps
 * in ppoll(), a socket in the user's private directory, and a record beside it (record.h).  A
 * question is one line, and the answer is text until the end of the connection:
 *
 *	report		the reports of all ranks of this process, each after a line "member"
 *	ask JOB RANK	the report of any rank of the job, through the boot if need be
 *
 * The signal handler only raises a flag and passes the signal on to the service's thread, which
 * wakes from ppoll().  Both are safe in a handler.  If the program has its own handler for SIGUSR1
 * or ignores the signal, the service leaves it alone.
 *
 * Owns the thread, the socket, the record and the handler.  A process without a service runs on.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../util/util.h"
#include "diag.h"
#include "record.h"
#include "report.h"

#define CONNECTION_MS 2000
#define ASK_NS ORI_NS_PER_S
#define FULL_TABLE_PAUSE_MS 10

static struct service {
	pthread_mutex_t lock; /* for all but `stop` and `asked` */
	int refs;
	pid_t pid; /* whose service it is: a child of fork() starts its own */
	int running;
	int listener, stop_fd; /* stop_fd: an eventfd that wakes the thread */
	pthread_t thread;
	char folder[ORI_RECORD_PATH_BYTES];
	int stop;  /* atomic */
	int asked; /* atomic: SIGUSR1 has come */
	int tid;   /* atomic: the thread, for the handler; 0: none */
} service = { .lock = PTHREAD_MUTEX_INITIALIZER, .listener = -1, .stop_fd = -1 };

/* ---- SIGUSR1 --------------------------------------------------------------------------------- */

/* Async-signal-safe: atomics and system calls only. */
static void on_signal(int number)
{
	int saved = errno, tid = __atomic_load_n(&service.tid, __ATOMIC_RELAXED);

	__atomic_store_n(&service.asked, 1, __ATOMIC_RELAXED);
	if (tid && tid != (int)syscall(SYS_gettid))
		(void)syscall(SYS_tgkill, getpid(), tid, number);
	errno = saved;
}

static void take_signal(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART }, present;

	if (!sigaction(SIGUSR1, NULL, &present) && !(present.sa_flags & SA_SIGINFO) &&
	    present.sa_handler == SIG_DFL)
		sigaction(SIGUSR1, &action, NULL);
}

/* Only if the program has not set its own handler meanwhile. */
static void give_signal_back(void)
{
	struct sigaction present;

	if (!sigaction(SIGUSR1, NULL, &present) && present.sa_handler == on_signal)
		signal(SIGUSR1, SIG_DFL);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void send_text(int connection, const char *text)
{
	size_t bytes = strlen(text);

	while (bytes) {
		ssize_t n = send(connection, text, bytes, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* the other side is gone, or does not read in time */
		text += n;
		bytes -= (size_t)n;
	}
}

static void answer_report(int connection, char *text)
{
	int rank, nranks;
	uint64_t job;

	for (int n = 0; ori_diag_member(n, &job, &rank, &nranks); n++) {
		ori_diag_report(job, rank, 1, text, ORI_REPORT_BYTES);
		send_text(connection, "member\n");
		send_text(connection, text);
	}
}

static void answer_ask(int connection, const char *question, char *text)
{
	unsigned long long job;
	int rank;

	if (sscanf(question, "ask %llx %d", &job, &rank) != 2 || rank < 0)
		return;
	ori_diag_ask_report(job, rank, text, ORI_REPORT_BYTES, ASK_NS);
	send_text(connection, text);
}

static int is_same_user(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static void serve(int connection)
{
	struct timeval limit = { CONNECTION_MS / 1000, CONNECTION_MS % 1000 * 1000 };
	char question[80] = "", *text = malloc(ORI_REPORT_BYTES);
	ssize_t got;

	setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (text && is_same_user(connection)) {
		got = recv(connection, question, sizeof(question) - 1, 0);
		question[got > 0 ? got : 0] = '\0';
		if (!strncmp(question, "report", 6))
			answer_report(connection, text);
		else
			answer_ask(connection, question, text);
	}
	free(text);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void take_connection(int listener)
{
	int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (connection >= 0) {
		serve(connection);
		close(connection);
	} else if (errno == EMFILE || errno == ENFILE) {
		usleep(FULL_TABLE_PAUSE_MS * 1000); /* the connection stays pending */
	}
}

/* SIGUSR1 is blocked except during ppoll(): so none is missed between two of them. */
static void *service_main(void *arg)
{
	struct service *s = arg;
	struct pollfd p[2] = { { s->listener, POLLIN, 0 }, { s->stop_fd, POLLIN, 0 } };
	sigset_t during;

	sigfillset(&during);
	sigdelset(&during, SIGUSR1);
	/* relaxed, here and below: the flags order nothing; pthread_join() orders the end */
	__atomic_store_n(&service.tid, (int)syscall(SYS_gettid), __ATOMIC_RELAXED);
	while (!__atomic_load_n(&service.stop, __ATOMIC_RELAXED)) {
		if (__atomic_exchange_n(&service.asked, 0, __ATOMIC_RELAXED))
			ori_doctor_signal(&service.stop);
		else if (ppoll(p, 2, NULL, &during) > 0 && p[0].revents)
			take_connection(p[0].fd);
	}
	return NULL;
}

/* ---- begin and end --------------------------------------------------------------------------- */

/* Returns 0, or -1 with the reason. */
static int listen_here(struct service *s, char *why, size_t bytes)
{
	struct sockaddr_un address;

	ori_record_address(s->folder, s->pid, &address);
	unlink(address.sun_path); /* of an earlier process with this number */
	s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (s->listener < 0 || s->stop_fd < 0 ||
	    bind(s->listener, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(s->listener, 64)) {
		snprintf(why, bytes, "%s", strerror(errno));
		return -1;
	}
	return 0;
}

static void write_record(struct service *s)
{
	char text[4096];
	struct ori_lines lines;
	int rank, nranks;
	uint64_t job;

	ori_lines_begin(&lines, text, sizeof(text));
	for (int n = 0; ori_diag_member(n, &job, &rank, &nranks); n++)
		ori_lines_add(&lines, "rank %d of %d job %llx", rank, nranks,
			      (unsigned long long)job);
	if (ori_record_write(s->folder, s->pid, text))
		ori_log(ORI_LOG_INFO, "oriel-doctor will not find this process: %s",
			strerror(errno));
}

static void close_service(struct service *s)
{
	if (s->listener >= 0) {
		close(s->listener);
		ori_record_remove(s->folder, s->pid);
	}
	if (s->stop_fd >= 0)
		close(s->stop_fd);
	s->listener = s->stop_fd = -1;
}

static void start(struct service *s, const char *value)
{
	char why[160] = "no memory for a thread";
	int rank, nranks;
	uint64_t job;

	s->pid = getpid();
	s->listener = s->stop_fd = -1;
	s->stop = s->asked = 0;
	if (ori_record_folder(value, 1, s->folder, why, sizeof(why)) ||
	    listen_here(s, why, sizeof(why)) || ori_thread_start(&s->thread, service_main, s)) {
		ori_log(ORI_LOG_INFO, "oriel-doctor cannot ask this process: %s: %s", s->folder,
			why);
		close_service(s);
		return;
	}
	s->running = 1;
	take_signal();
	/* one rank is enough to clean up after jobs that were killed */
	if (ori_diag_member(0, &job, &rank, &nranks) && rank == 0)
		ori_record_each(s->folder, NULL, NULL);
}

/*
 * The handler stays until the thread has ended.  A signal that was passed on may still wait for
 * ppoll(), and without a handler it would end the process there.
 */
static void stop(struct service *s)
{
	uint64_t one = 1;

	__atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
	/* a write of 1 to a fresh eventfd cannot fail or block */
	if (write(s->stop_fd, &one, sizeof(one)) == (ssize_t)sizeof(one))
		pthread_join(s->thread, NULL);
	__atomic_store_n(&s->tid, 0, __ATOMIC_RELAXED);
	give_signal_back();
	close_service(s);
	s->running = 0;
}

void ori_service_open(const char *value)
{
	struct service *s = &service;

	if (value && !strcmp(value, "off"))
		return;
	pthread_mutex_lock(&s->lock);
	if (s->pid != getpid()) { /* the thread of a parent is not here */
		s->refs = 0;
		s->running = 0;
	}
	if (s->refs++ == 0)
		start(s, value);
	if (s->running)
		write_record(s);
	pthread_mutex_unlock(&s->lock);
}

void ori_service_close(void)
{
	struct service *s = &service;

	pthread_mutex_lock(&s->lock);
	if (s->pid == getpid() && s->refs > 0 && --s->refs == 0 && s->running)
		stop(s);
	else if (s->running && s->pid == getpid())
		write_record(s);
	pthread_mutex_unlock(&s->lock);
}

/* A program may end without destroying its comms. */
__attribute__((destructor)) static void remove_at_exit(void)
{
	if (service.running && service.pid == getpid())
		ori_record_remove(service.folder, service.pid);
}
