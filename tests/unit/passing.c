/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/passing.c - comm/passing.c and fetching.c: descriptors reach only processes that may
 * have them.
 */
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"
#include "comm/comm.h"
#include "comm/passing.h"

#define LONG 60000000000ull /* ns; what should work may stand still for seconds */

static struct ori_device *device;

static int make_memory(struct ori_allocation *a)
{
	int err = device ? 0 : ori_device_open("cpu", LONG, &device);

	return err ? err : device->ops->alloc(device, 8192, a);
}

TEST(another_process_gets_the_same_memory)
{
	struct ori_passing *p;
	struct ori_allocation a = { 0 };
	uint64_t id;
	int status;
	pid_t child;

	REQUIRE_OK(ori_passing_open(&p));
	REQUIRE_OK(make_memory(&a));
	REQUIRE_OK(ori_passing_offer(p, &a, &id));
	strcpy(a.base, "from the parent");
	child = fork();
	if (!child) {
		struct ori_allocation theirs = { 0 };
		void *map;

		if (ori_passing_fetch(ori_passing_socket(p), ori_passing_token(p), id, LONG, NULL,
				      NULL, &theirs) ||
		    theirs.bytes != a.bytes || theirs.kind != ORI_EXPORT_HOST_FD ||
		    device->ops->import(device, &theirs, &map))
			_exit(1);
		if (map == a.base || strcmp(map, "from the parent"))
			_exit(2);
		strcpy(map, "from the child");
		_exit(0);
	}
	REQUIRE(waitpid(child, &status, 0) == child);
	CHECK_EQ(status, 0);
	CHECK(!strcmp(a.base, "from the child"));
	device->ops->free(device, &a);
	ori_passing_close(p);
}

TEST(wrong_token_unknown_id_and_withdrawn_id_are_refused)
{
	struct ori_passing *p;
	struct ori_allocation a = { 0 };
	uint8_t wrong[16];
	uint64_t id;
	struct ori_allocation got = { .fd = -7 };

	REQUIRE_OK(ori_passing_open(&p));
	REQUIRE_OK(make_memory(&a));
	REQUIRE_OK(ori_passing_offer(p, &a, &id));
	memcpy(wrong, ori_passing_token(p), 16);
	wrong[15] ^= 1;
	CHECK(ori_passing_fetch(ori_passing_socket(p), wrong, id, LONG, NULL, NULL, &got) < 0);
	CHECK_EQ(ori_passing_fetch(ori_passing_socket(p), ori_passing_token(p), id + 99, LONG, NULL,
				   NULL, &got),
		 ORIEL_EPEER);
	ori_passing_withdraw(p, id);
	CHECK_EQ(ori_passing_fetch(ori_passing_socket(p), ori_passing_token(p), id, LONG, NULL,
				   NULL, &got),
		 ORIEL_EPEER);
	CHECK_EQ(got.fd, -7);
	CHECK_EQ(ori_passing_fetch("oriel-nobody", ori_passing_token(p), id, LONG, NULL, NULL,
				   &got),
		 ORIEL_EPEER);
	device->ops->free(device, &a);
	ori_passing_close(p);
}

/* Garbage, half a request and silence: the service answers the next honest one. */
TEST(garbage_does_not_stop_the_service)
{
	struct ori_passing *p;
	struct ori_allocation a = { 0 };
	struct sockaddr_un address;
	socklen_t length;
	uint64_t id;
	struct ori_allocation got = { 0 };
	int quiet = -1;

	REQUIRE_OK(ori_passing_open(&p));
	REQUIRE_OK(make_memory(&a));
	REQUIRE_OK(ori_passing_offer(p, &a, &id));
	length = ori_passing_address(ori_passing_socket(p), &address);
	for (int i = 0; i < 20; i++) {
		char junk[64];
		int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		REQUIRE(s >= 0 && !connect(s, (struct sockaddr *)&address, length));
		if (i == 10) {
			quiet = s; /* says nothing: dropped after a while */
			continue;
		}
		memset(junk, i, sizeof(junk));
		CHECK(send(s, junk, (size_t)(1 + 3 * i), MSG_NOSIGNAL) > 0);
		close(s);
	}
	CHECK_EQ(ori_passing_fetch(ori_passing_socket(p), ori_passing_token(p), id, LONG, NULL,
				   NULL, &got),
		 0);
	close(got.fd);
	close(quiet);
	device->ops->free(device, &a);
	ori_passing_close(p);
}

TEST(memory_that_can_shrink_or_is_too_small_is_not_mapped)
{
	struct ori_allocation a, loose, longer;
	void *map = NULL;
	int open_fd = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	REQUIRE_OK(make_memory(&a));
	REQUIRE(open_fd >= 0 && !ftruncate(open_fd, 8192));
	loose = longer = a;
	loose.fd = open_fd;
	longer.bytes += 4096;
	CHECK_EQ(device->ops->import(device, &loose, &map), ORIEL_EPROTO);
	CHECK_EQ(device->ops->import(device, &longer, &map), ORIEL_EPROTO);
	loose.kind = ORI_EXPORT_CUDA_FD;
	CHECK_EQ(device->ops->import(device, &loose, &map), ORIEL_EUNSUPPORTED);
	CHECK(!map);
	CHECK(ftruncate(a.fd, 4096) != 0);
	close(open_fd);
	device->ops->free(device, &a);
	device->ops->close(device);
	device = NULL;
}
