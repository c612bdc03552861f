/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/security/user.c - another user of the machine tries to reach a rank's memory: through the
 * socket that hands it out, through /proc, and by standing in for a rank's process.
 *
 * The test needs root, to become another user.  It gives the attacker more than he could know: the
 * name of the socket, the token and the id.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"
#include "comm/passing.h"
#include "device/cpu/cpu.h"
#include "util/util.h"

#define NOBODY 65534
#define SECOND_NS ORI_NS_PER_S

struct victim {
	struct ori_passing *passing;
	struct ori_allocation memory;
	uint64_t id;
	pid_t pid;
};

static void become_nobody(void)
{
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		_exit(98);
}

/* Not without root, nor in a container that has only one user. */
static int can_become_nobody(void)
{
	int status = 0;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		become_nobody();
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 1;
	check_skip("this process cannot become another user");
	return 0;
}

static int open_victim(struct victim *v)
{
	memset(v, 0, sizeof(*v));
	v->pid = getpid();
	if (!can_become_nobody())
		return -1;
	CHECK_EQ(ori_passing_open(&v->passing), 0);
	CHECK_EQ(ori_cpu_alloc(NULL, 4096, &v->memory), 0);
	CHECK_EQ(ori_passing_offer(v->passing, &v->memory, &v->id), 0);
	memset(v->memory.base, 0x5a, 4096);
	return 0;
}

static void close_victim(struct victim *v)
{
	ori_passing_withdraw(v->passing, v->id);
	ori_passing_close(v->passing);
	ori_cpu_free(NULL, &v->memory);
}

/* Runs the attack as another user.  Returns 0 if it failed as it should. */
static int attack(int (*fn)(const struct victim *), const struct victim *v)
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		alarm(20);
		become_nobody();
		_exit(fn(v));
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 97;
}

/* ---- attacks: 0 if nothing was gained -------------------------------------------------------- */

/* Asks with the right token, as a rank does, but without the check of whom it asks. */
static int ask_for_memory(const struct victim *v)
{
	struct ori_passing_request r = { .magic = ORI_PASSING_MAGIC, .id = v->id };
	struct ori_passing_answer answer = { .status = 0 };
	char control[256];
	struct iovec io = { &answer, sizeof(answer) };
	struct msghdr message = { .msg_iov = &io,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct sockaddr_un address;
	socklen_t length = ori_passing_address(ori_passing_socket(v->passing), &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	memcpy(r.token, ori_passing_token(v->passing), sizeof(r.token));
	if (connect(fd, (struct sockaddr *)&address, length))
		return 2; /* not what this test is about */
	(void)send(fd, &r, sizeof(r), MSG_NOSIGNAL);
	return recvmsg(fd, &message, 0) > 0; /* else it was closed without an answer */
}

static int open_by_proc(const struct victim *v)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)v->pid, v->memory.fd);
	if (open(path, O_RDWR) >= 0 || open(path, O_RDONLY) >= 0)
		return 1;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)v->pid);
	if (open(path, O_RDONLY) >= 0)
		return 1;
	/* the secret of the job is in the environment */
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)v->pid);
	return open(path, O_RDONLY) >= 0;
}

static int read_memory(const struct victim *v)
{
	char bytes[16];
	struct iovec to = { bytes, sizeof(bytes) }, from = { v->memory.base, sizeof(bytes) };

	return process_vm_readv(v->pid, &to, 1, &from, 1, 0) >= 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(another_user_gets_no_memory_from_the_service)
{
	struct victim v;
	struct ori_allocation theirs;

	if (open_victim(&v))
		return;
	CHECK_EQ(attack(ask_for_memory, &v), 0);
	/* the service still works for its own user */
	CHECK_EQ(ori_passing_fetch(ori_passing_socket(v.passing), ori_passing_token(v.passing),
				   v.id, 5 * SECOND_NS, NULL, NULL, &theirs),
		 0);
	close(theirs.fd);
	close_victim(&v);
}

TEST(another_user_cannot_open_memory_or_environment)
{
	struct victim v;

	if (open_victim(&v))
		return;
	CHECK_EQ(attack(open_by_proc, &v), 0);
	CHECK_EQ(attack(read_memory, &v), 0);
	close_victim(&v);
}

/* Listens as another user under a name that a rank believes to be its peer's. */
static int stand_in(const char *name, int ready)
{
	struct sockaddr_un address;
	socklen_t length = ori_passing_address(name, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), connection;
	struct ori_passing_request r;

	become_nobody();
	alarm(20);
	if (bind(fd, (struct sockaddr *)&address, length) || listen(fd, 8))
		return 2;
	if (write(ready, "x", 1) != 1)
		return 3;
	connection = accept(fd, NULL, NULL);
	/* the token must not come */
	return recv(connection, &r, sizeof(r), 0) > 0;
}

TEST(a_rank_tells_its_token_to_no_other_user)
{
	static const uint8_t token[16] = "fifteen letters";
	struct ori_allocation theirs;
	char name[32], byte;
	int ready[2], status;
	pid_t pid;

	if (!can_become_nobody())
		return;
	REQUIRE(!pipe(ready));
	snprintf(name, sizeof(name), "oriel-test-%d", (int)getpid());
	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(stand_in(name, ready[1]));
	close(ready[1]); /* so that its death ends the read */
	REQUIRE(read(ready[0], &byte, 1) == 1);
	CHECK_EQ(ori_passing_fetch(name, token, 1, 5 * SECOND_NS, NULL, NULL, &theirs),
		 ORIEL_EAUTH);
	CHECK_HAS(ori_last_error_text(), "belongs to another user");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(ready[0]);
}
