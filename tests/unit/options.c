/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/options.c - util/options.c: programs with older and newer structs of options.  The
 * struct of "this library" is struct now; struct before and struct later are those of other
 * versions of the header.
 */
#include <string.h>

#include <oriel/coll.h>

#include "../check.h"
#include "util/options.h"
#include "window/window.h"

struct before {
	size_t size;
	uint64_t bytes;
};

struct now {
	size_t size;
	uint64_t bytes;
	uint32_t depth, channels;
};

struct later {
	struct now now;
	uint64_t speed;
};

static const struct now init = { sizeof(struct now), 1, 4, 2 };

static int take(const void *given, struct now *own)
{
	*own = init;
	return ori_options_take("call", "NOW_INIT", given, own, sizeof(*own));
}

TEST(equal_sizes_are_a_copy)
{
	struct now given = { sizeof(given), 10, 20, 30 }, own;

	CHECK_EQ(take(&given, &own), 0);
	CHECK(!memcmp(&given, &own, sizeof(own)));
}

TEST(fields_that_an_older_program_lacks_are_default)
{
	struct before given = { sizeof(given), 10 };
	struct now own;

	CHECK_EQ(take(&given, &own), 0);
	CHECK_EQ(own.size, sizeof(own));
	CHECK_EQ(own.bytes, 10);
	CHECK_EQ(own.depth, 4);
	CHECK_EQ(own.channels, 2);
}

TEST(fields_that_a_newer_program_leaves_zero_do_not_matter)
{
	struct later given = { { sizeof(given), 10, 20, 30 }, 0 };
	struct now own;

	CHECK_EQ(take(&given, &own), 0);
	CHECK_EQ(own.size, sizeof(own));
	CHECK_EQ(own.channels, 30);
}

TEST(a_newer_field_that_is_set_is_refused_with_both_sizes)
{
	struct later given = { { sizeof(given), 10, 20, 30 }, 1ull << 56 };
	struct now own;

	CHECK_EQ(take(&given, &own), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "call: an option is set that this library does not know");
	CHECK_HAS(oriel_last_error(), "struct has 32 bytes, the library's 24");
	CHECK_EQ(own.bytes, init.bytes);
}

TEST(sizes_that_no_header_has_are_refused_with_both_sizes)
{
	const size_t sizes[] = { 0, 1, 8, 12, 23, 25, 4104, (size_t)-8 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct now given = init, own;
		char text[64];

		given.size = sizes[i];
		CHECK_EQ(take(&given, &own), ORIEL_EINVAL);
		snprintf(text, sizeof(text), "has size %zu, the library's has 24: use NOW_INIT",
			 sizes[i]);
		CHECK_HAS(oriel_last_error(), text);
	}
}

/* ---- the public structs -------------------------------------------------------------------- */

TEST(windows_of_other_headers)
{
	struct {
		struct oriel_window_options now;
		uint64_t later;
	} o = { ORIEL_WINDOW_OPTIONS_INIT, 0 };
	struct oriel_window_options own;

	o.now.bytes = 4096;
	o.now.staging_depth = 3; /* beyond the size, so not looked at */
	o.now.size = offsetof(struct oriel_window_options, staging_slot_bytes);
	CHECK_EQ(ori_window_options_take(&o.now, &own), 0);
	CHECK_EQ(own.bytes, 4096);
	CHECK_EQ(own.staging_depth, 4);
	o.now.staging_depth = 4;
	o.now.size = sizeof(o);
	CHECK_EQ(ori_window_options_take(&o.now, &own), 0);
	o.later = 1;
	CHECK_EQ(ori_window_options_take(&o.now, &own), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "oriel_window_create: an option is set");
}

static int comm_with(struct oriel_comm_options *o)
{
	struct oriel_boot *boots[1];
	struct oriel_comm *comm = NULL;
	int err = oriel_boot_threads(1, boots);

	if (err)
		return err;
	err = oriel_comm_create(boots[0], o, &comm);
	CHECK_EQ(oriel_comm_destroy(comm), 0);
	CHECK_EQ(oriel_boot_destroy(boots[0]), 0);
	return err;
}

TEST(comms_of_other_headers)
{
	struct {
		struct oriel_comm_options now;
		uint64_t later;
	} o = { ORIEL_COMM_OPTIONS_INIT, 0 };

	o.now.connect = 77; /* beyond the size, so not looked at */
	o.now.size = offsetof(struct oriel_comm_options, connect);
	CHECK_EQ(comm_with(&o.now), 0);
	o.now.connect = 0;
	o.now.size = sizeof(o);
	CHECK_EQ(comm_with(&o.now), 0);
	o.later = 1;
	CHECK_EQ(comm_with(&o.now), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "oriel_comm_create: an option is set");
	o.now.size = sizeof(o.now);
	o.now.reserved = 1;
	CHECK_EQ(comm_with(&o.now), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "reserved is 1, must be 0");
}

/* One rank: what it gives is what it gets. */
static int copy_mine(void *ctx, const void *mine, void *all, size_t bytes)
{
	(void)ctx;
	memcpy(all, mine, bytes);
	return 0;
}

TEST(boots_of_other_headers)
{
	struct {
		struct oriel_boot_ops now;
		void (*later)(void);
	} o = { { sizeof(o.now), copy_mine, NULL, NULL }, NULL };
	struct oriel_boot *boot;

	o.now.size = offsetof(struct oriel_boot_ops, abort);
	REQUIRE_OK(oriel_boot_user(&o.now, NULL, 0, 1, &boot));
	CHECK_EQ(oriel_boot_destroy(boot), 0);
	o.now.size = sizeof(o);
	REQUIRE_OK(oriel_boot_user(&o.now, NULL, 0, 1, &boot));
	CHECK_EQ(oriel_boot_destroy(boot), 0);
	o.later = (void (*)(void))copy_mine;
	CHECK_EQ(oriel_boot_user(&o.now, NULL, 0, 1, &boot), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "oriel_boot_user: an option is set");
}

/* ---- collectives, on a comm of one rank ------------------------------------------------------ */

struct bed {
	struct oriel_boot *boot;
	struct oriel_comm *comm;
	struct oriel_window *window;
};

static void bed_open(struct bed *b)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = 4096;
	REQUIRE_OK(oriel_boot_threads(1, &b->boot));
	REQUIRE_OK(oriel_comm_create(b->boot, NULL, &b->comm));
	REQUIRE_OK(oriel_window_create(b->comm, &o, &b->window));
}

static void bed_close(struct bed *b)
{
	CHECK_EQ(oriel_window_destroy(b->window), 0);
	CHECK_EQ(oriel_comm_destroy(b->comm), 0);
	CHECK_EQ(oriel_boot_destroy(b->boot), 0);
}

TEST(all_gathers_of_other_headers)
{
	struct {
		struct oriel_allgather_options now;
		uint64_t later;
	} o = { ORIEL_ALLGATHER_OPTIONS_INIT, 0 };
	struct oriel_allgather_request *request;
	struct bed b;

	bed_open(&b);
	o.now.offset = UINT64_MAX; /* beyond the size, so not looked at */
	o.now.size = offsetof(struct oriel_allgather_options, offset);
	REQUIRE_OK(oriel_allgather_create(b.comm, b.window, &o.now, &request));
	CHECK_EQ(oriel_allgather_destroy(request), 0);
	o.now.offset = 0;
	o.now.size = sizeof(o);
	REQUIRE_OK(oriel_allgather_create(b.comm, b.window, &o.now, &request));
	CHECK_EQ(oriel_allgather_destroy(request), 0);
	o.later = 1;
	CHECK_EQ(oriel_allgather_create(b.comm, b.window, &o.now, &request), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "oriel_allgather_create: an option is set");
	bed_close(&b);
}

/* A call of 8 bytes with arguments of `size` bytes. */
static int exec_with(struct oriel_alltoallv_request *request, size_t size, uint64_t later)
{
	struct {
		struct oriel_alltoallv_args now;
		uint64_t later;
	} in = { ORIEL_ALLTOALLV_ARGS_INIT, later };
	uint64_t sizes[1] = { 8 };

	in.now.send_sizes = sizes;
	in.now.recv_offsets = (uint64_t *)8; /* beyond the smallest size */
	if (size >= sizeof(in.now))
		in.now.recv_offsets = NULL;
	in.now.size = size;
	return oriel_alltoallv_exec(request, &in.now, NULL);
}

TEST(all_to_all_vs_of_other_headers)
{
	struct {
		struct oriel_alltoallv_options now;
		uint64_t later;
	} o = { ORIEL_ALLTOALLV_OPTIONS_INIT, 0 };
	struct oriel_alltoallv_request *request;
	struct bed b;

	bed_open(&b);
	o.now.slot_bytes = 64;
	o.now.reserved = 5; /* beyond the size, so not looked at */
	o.now.size = offsetof(struct oriel_alltoallv_options, synchronised);
	REQUIRE_OK(oriel_alltoallv_create(b.comm, &o.now, &request));
	CHECK_EQ(exec_with(request, offsetof(struct oriel_alltoallv_args, recv_sizes), 0), 0);
	CHECK_EQ(exec_with(request, sizeof(struct oriel_alltoallv_args) + 8, 0), 0);
	CHECK_EQ(exec_with(request, sizeof(struct oriel_alltoallv_args) + 8, 1), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "oriel_alltoallv_exec: an option is set");
	CHECK_EQ(oriel_alltoallv_destroy(request), 0);
	o.now.reserved = 0;
	o.now.size = sizeof(o);
	o.later = 1;
	CHECK_EQ(oriel_alltoallv_create(b.comm, &o.now, &request), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "oriel_alltoallv_create: an option is set");
	bed_close(&b);
}
