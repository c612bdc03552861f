/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/diag_service.c - src/diag/service.c: its record, its socket and SIGUSR1.
 *
 * No comm exists here, so reports are empty; tests/tools/doctor_test.sh has whole jobs.
 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"
#include "diag/diag.h"
#include "diag/record.h"

static char folder[64];

static void make_folder(void)
{
	snprintf(folder, sizeof(folder), "/tmp/diag_service-%d", (int)getpid());
	mkdir(folder, 0700);
}

static void remove_folder(void)
{
	ori_record_remove(folder, getpid());
	rmdir(folder);
}

static int has_file(const char *kind)
{
	char path[ORI_RECORD_PATH_BYTES + 20];

	ori_record_path(folder, getpid(), kind, path);
	return !access(path, F_OK);
}

static int handler_is_default(void)
{
	struct sigaction present;

	return !sigaction(SIGUSR1, NULL, &present) && present.sa_handler == SIG_DFL;
}

/* Returns the bytes of the answer, or -1 if the process cannot be asked. */
static ssize_t ask(const char *question, char *text, size_t bytes)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct timeval limit = { 10, 0 };
	struct sockaddr_un address;
	ssize_t n = -1;

	ori_record_address(folder, getpid(), &address);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)) &&
	    send(fd, question, strlen(question), MSG_NOSIGNAL) > 0)
		n = recv(fd, text, bytes, 0);
	close(fd);
	return n;
}

TEST(a_service_leaves_nothing_behind)
{
	char text[64];

	make_folder();
	ori_service_open(folder);
	CHECK(has_file("sock") && has_file("job"));
	CHECK(!handler_is_default());
	ori_service_open(folder);
	ori_service_close();
	CHECK(has_file("sock")); /* one user is left */
	CHECK_EQ(ask("report\n", text, sizeof(text)), 0);
	CHECK_EQ(ask("ask 1\n", text, sizeof(text)), 0);
	CHECK_EQ(ask("ask 7 0\n", text, sizeof(text)), 0);
	CHECK_EQ(ask("\001\377 nonsense", text, sizeof(text)), 0);
	ori_service_close();
	CHECK(!has_file("sock") && !has_file("job"));
	CHECK(handler_is_default());
	CHECK_EQ(rmdir(folder), 0);
}

/*
 * A signal to any thread wakes the service and disturbs nothing; without comms it says nothing.
 * Some of these signals wait for the service's thread while the service ends.
 */
TEST(the_signal_ends_nothing)
{
	make_folder();
	for (int service = 0; service < 100; service++) {
		ori_service_open(folder);
		for (int i = 0; i < 100; i++)
			raise(SIGUSR1);
		ori_service_close();
	}
	remove_folder();
}

static int calls;

static void own_handler(int number)
{
	(void)number;
	calls++;
}

TEST(a_handler_of_the_program_stays)
{
	struct sigaction present;

	make_folder();
	signal(SIGUSR1, own_handler);
	ori_service_open(folder);
	raise(SIGUSR1);
	CHECK_EQ(calls, 1);
	ori_service_close();
	CHECK(!sigaction(SIGUSR1, NULL, &present) && present.sa_handler == own_handler);
	signal(SIGUSR1, SIG_IGN);
	ori_service_open(folder);
	ori_service_close();
	CHECK(!sigaction(SIGUSR1, NULL, &present) && present.sa_handler == SIG_IGN);
	/* one that is set later stays too */
	signal(SIGUSR1, SIG_DFL);
	ori_service_open(folder);
	signal(SIGUSR1, own_handler);
	ori_service_close();
	CHECK(!sigaction(SIGUSR1, NULL, &present) && present.sa_handler == own_handler);
	signal(SIGUSR1, SIG_DFL);
	remove_folder();
}

/* The child of a fork has no thread; its exit must not remove the parent's files. */
TEST(a_child_has_its_own)
{
	int status = -1;
	pid_t child;

	make_folder();
	ori_service_open(folder);
	child = fork();
	if (!child)
		exit(0); /* runs the destructors */
	waitpid(child, &status, 0);
	CHECK_EQ(status, 0);
	CHECK(has_file("sock"));
	ori_service_close();
	remove_folder();
}

/* A process that was killed leaves its files, and they are recognised by its number. */
TEST(files_of_a_dead_process_go)
{
	pid_t child;

	make_folder();
	child = fork();
	if (!child) {
		ori_service_open(folder);
		kill(getpid(), SIGKILL);
	}
	waitpid(child, NULL, 0);
	CHECK(rmdir(folder)); /* it is not empty */
	ori_record_each(folder, NULL, NULL);
	CHECK_EQ(rmdir(folder), 0);
}

/* What others could write to is refused, and nothing is made there. */
TEST(a_folder_of_others_is_refused)
{
	char got[ORI_RECORD_PATH_BYTES], why[160], name[ORI_RECORD_PATH_BYTES + 40];

	make_folder();
	CHECK_EQ(ori_record_folder(folder, 0, got, why, sizeof(why)), 0);
	chmod(folder, 0770);
	CHECK_EQ(ori_record_folder(folder, 1, got, why, sizeof(why)), -1);
	CHECK_HAS(why, "belongs to this user alone");
	ori_service_open(folder);
	CHECK(!has_file("sock") && handler_is_default());
	ori_service_close();
	chmod(folder, 0700);
	snprintf(name, sizeof(name), "%s-link", folder);
	CHECK_EQ(symlink(folder, name), 0);
	CHECK_EQ(ori_record_folder(name, 1, got, why, sizeof(why)), -1);
	unlink(name);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	name[0] = '/';
	CHECK_EQ(ori_record_folder(name, 1, got, why, sizeof(why)), -1);
	CHECK_HAS(why, "too long");
	remove_folder();
}
