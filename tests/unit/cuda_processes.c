/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_processes.c - device/cuda between processes, on the fake driver.  One process
 * exports memory, the other maps it and uses it in a kernel.  Wrong data of a peer is refused.  The
 * test itself never opens a device.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <oriel/oriel.h>

#include "../check.h"
#include "device/device.h"
#include "fake_cuda/apart.h"
#include "fake_cuda/fake_cuda.h"

#define TIMEOUT_NS (60 * ORI_NS_PER_S)

struct talk {
	int fd; /* to the other process */
	int is_ipc;
	const char *knobs;
	const char *device;
	int refused; /* the import must fail */
};

static struct ori_device *open_device(const struct talk *t)
{
	struct ori_device *d = NULL;

	fake_cuda_knobs(t->knobs);
	if (ori_device_open(t->device, TIMEOUT_NS, &d))
		check_fail(__FILE__, __LINE__, "no device: %s", oriel_last_error());
	return d;
}

static void close_device(struct ori_device *d)
{
	char left[256];

	d->ops->close(d);
	if (fake_cuda_live(left, sizeof(left)))
		check_fail(__FILE__, __LINE__, "left over:%s", left);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void tell(int socket, const struct ori_allocation *a)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)a, .iov_len = sizeof(*a) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	memset(&control, 0, sizeof(control));
	if (a->fd >= 0) {
		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &a->fd, sizeof(int));
	}
	CHECK_EQ(sendmsg(socket, &m, 0), sizeof(*a));
}

static int hear(int socket, struct ori_allocation *a)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = a, .iov_len = sizeof(*a) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.bytes,
			    .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *c;

	if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC) != sizeof(*a))
		return 1;
	c = CMSG_FIRSTHDR(&m);
	a->fd = -1;
	if (c)
		memcpy(&a->fd, CMSG_DATA(c), sizeof(int));
	return 0;
}

static void meet(int socket)
{
	char byte = 1;

	CHECK_EQ(send(socket, &byte, 1, 0), 1);
	CHECK_EQ(recv(socket, &byte, 1, 0), 1);
}

/* ---- export and import ----------------------------------------------------------------------- */

struct put_args {
	uint64_t *words;
	uint64_t count, value;
};

ORIEL_KERNEL(put_kernel, struct put_args)
{
	struct oriel_group g = oriel_group_block();

	for (uint64_t i = g.thread; i < a->count; i += g.size)
		a->words[i] = a->value + i;
	return 0;
}

static int get_memory(struct ori_device *d, const struct talk *t, void **user,
		      struct ori_allocation *a)
{
	if (!t->is_ipc)
		return d->ops->alloc(d, 1 << 20, a);
	*user = fake_cuda_malloc(0, FAKE_CUDA_MALLOC, 1 << 20);
	return d->ops->describe(d, (char *)*user + 4096, 4096, a);
}

static void exporter(void *arg)
{
	const struct talk *t = arg;
	struct ori_device *d = open_device(t);
	uint64_t words[64] = { 0 };
	struct ori_allocation a;
	void *user = NULL;

	REQUIRE(d);
	REQUIRE_OK(get_memory(d, t, &user, &a));
	CHECK_EQ(a.fd >= 0, !t->is_ipc);
	tell(t->fd, &a);
	meet(t->fd);
	CHECK_EQ(d->ops->copy(d, words, a.base, sizeof(words)), 0);
	for (int i = 0; i < 64 && !t->refused; i++)
		CHECK_EQ(words[i], 1000 + i);
	meet(t->fd);
	if (user) {
		d->ops->forget(d, &a);
		fake_cuda_free(user);
	} else {
		d->ops->free(d, &a);
	}
	close_device(d);
}

static void use_import(struct ori_device *d, const struct ori_allocation *theirs)
{
	struct put_args args = { .count = 64, .value = 1000 };
	void *base = NULL, *again = NULL;

	REQUIRE_OK(d->ops->import(d, theirs, &base));
	REQUIRE_OK(d->ops->import(d, theirs, &again));
	CHECK(d->ops->holds(d, base));
	d->ops->unimport(d, theirs, base == again ? again : base);
	args.words = again;
	CHECK_EQ(d->ops->launch(d, fake_cuda_kernel(&put_kernel), 1, 8, &args, sizeof(args), NULL,
				NULL),
		 0);
	CHECK_EQ(d->ops->sync(d, NULL), 0);
	d->ops->unimport(d, theirs, again);
}

static void importer(void *arg)
{
	const struct talk *t = arg;
	struct ori_device *d = open_device(t);
	struct ori_allocation theirs;
	void *base = NULL;

	REQUIRE(d);
	REQUIRE(!hear(t->fd, &theirs));
	if (t->refused)
		CHECK(d->ops->import(d, &theirs, &base) != 0);
	else
		use_import(d, &theirs);
	meet(t->fd);
	meet(t->fd);
	if (theirs.fd >= 0)
		close(theirs.fd);
	close_device(d);
}

static void two_processes(int is_ipc, const char *knobs, const char *second, int refused)
{
	struct talk t[2];
	struct apart a[2];
	int fd[2];

	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd));
	for (int i = 0; i < 2; i++)
		t[i] = (struct talk){ fd[i], is_ipc, knobs, i ? second : "cuda:0", refused };
	apart_begin(&a[0], exporter, &t[0]);
	apart_begin(&a[1], importer, &t[1]);
	close(fd[0]);
	close(fd[1]);
	apart_end_well(&a[0]);
	apart_end_well(&a[1]);
	if (refused)
		CHECK_HAS(a[1].text, "peer access");
}

TEST(an_allocation_by_descriptor)
{
	two_processes(0, "gpus=1", "cuda:0", 0);
}

TEST(an_allocation_of_another_gpu)
{
	two_processes(0, "gpus=2", "cuda:1", 0);
}

TEST(the_users_memory_by_ipc)
{
	two_processes(1, "gpus=1", "cuda:0", 0);
}

TEST(the_users_memory_of_another_gpu)
{
	two_processes(1, "gpus=2", "cuda:1", 0);
}

TEST(no_peer_access_no_import)
{
	two_processes(0, "gpus=2,peer=0", "cuda:1", 1);
	two_processes(1, "gpus=2,peer=0", "cuda:1", 1);
}

/* ---- what a peer says wrongly ---------------------------------------------------------------- */

static void import_refused(struct ori_device *d, const struct ori_allocation *theirs,
			   const char *says)
{
	void *base = NULL;

	CHECK(d->ops->import(d, theirs, &base) != 0);
	CHECK(!base);
	CHECK_HAS(oriel_last_error(), says);
}

static void wrong_imports(void *arg)
{
	struct ori_device *d = open_device(arg);
	struct ori_allocation a, wrong;

	REQUIRE(d);
	REQUIRE_OK(d->ops->alloc(d, 4096, &a));
	wrong = a;
	wrong.bytes = 2 * a.bytes; /* more than there is */
	import_refused(d, &wrong, "cuMemMap");
	wrong.bytes = a.bytes - 1;
	import_refused(d, &wrong, "a peer says");
	wrong.bytes = 0;
	import_refused(d, &wrong, "a peer says");
	wrong = a;
	wrong.kind = 77;
	import_refused(d, &wrong, "unknown kind 77");
	wrong = a;
	wrong.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	import_refused(d, &wrong, "cuMemImportFromShareableHandle");
	close(wrong.fd);
	wrong.kind = ORI_EXPORT_CUDA_IPC;
	memset(wrong.handle, 0x5a, sizeof(wrong.handle));
	import_refused(d, &wrong, "cuIpcOpenMemHandle");
	wrong.kind = ORI_EXPORT_CUDA_FABRIC;
	import_refused(d, &wrong, "cuMemImportFromShareableHandle");
	d->ops->free(d, &a);
	close_device(d);
}

TEST(wrong_words_of_a_peer_are_refused)
{
	struct talk t = { -1, 0, "gpus=1", "cuda:0", 0 };
	struct apart a;

	apart_run(&a, wrong_imports, &t);
}
