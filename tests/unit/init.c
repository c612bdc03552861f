/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/init.c - window/init.c: oriel_init and oriel_finalize.  Also what else a program meets
 * at its start: the version of its headers, ORIEL_CHECKED.
 */
#include <stdlib.h>

#include <oriel/coll.h>
#include <oriel/device.h>

#include "../ranks.h"

#define RANKS 3
#define BYTES 4096

/* One rank, whatever started this program. */
static void be_alone(void)
{
	setenv("ORIEL_LAUNCHER", "none", 1);
}

static int make_window(struct oriel_comm *comm, struct oriel_window **window)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = BYTES;
	return oriel_window_create(comm, &o, window);
}

TEST(a_program_of_one_rank)
{
	struct oriel_comm *comm = NULL;
	struct oriel_window *window;

	be_alone();
	REQUIRE_OK(oriel_init(&comm));
	CHECK_EQ(oriel_comm_rank(comm), 0);
	CHECK_EQ(oriel_comm_size(comm), 1);
	REQUIRE_OK(make_window(comm, &window));
	CHECK_EQ(oriel_finalize(comm), 0);
	CHECK_EQ(oriel_window_status(window), ORIEL_ESTALE);
	CHECK_EQ(oriel_finalize(comm), ORIEL_ESTALE);
	CHECK_HAS(oriel_last_error(), "oriel_finalize");
}

TEST(as_often_as_wanted)
{
	struct oriel_comm *one, *two;

	be_alone();
	REQUIRE_OK(oriel_init(&one));
	REQUIRE_OK(oriel_init(&two));
	CHECK(one != two);
	CHECK_EQ(oriel_finalize(one), 0);
	CHECK_EQ(oriel_finalize(two), 0);
	REQUIRE_OK(oriel_init(&one));
	CHECK_EQ(oriel_finalize(one), 0);
}

TEST(bad_arguments)
{
	be_alone();
	CHECK_EQ(oriel_init(NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_finalize(NULL), 0);
	CHECK_EQ(oriel_finalize((struct oriel_comm *)(void *)"no comm"), ORIEL_ESTALE);
}

TEST(a_bad_environment_is_told)
{
	struct oriel_comm *comm = NULL;

	setenv("ORIEL_LAUNCHER", "nobody", 1);
	CHECK_EQ(oriel_init(&comm), ORIEL_ECONFIG);
	CHECK(!comm);
	be_alone();
}

/* ---- finalize among several ranks ------------------------------------------------------------ */

/* While the last rank has a buffer, no windows are freed.  Then it has none, and all are freed. */
static void finalize_rank(struct rank_env *env)
{
	struct oriel_window *windows[2];
	struct oriel_buffer *buffer = NULL;
	void *memory = NULL;

	REQUIRE_OK(make_window(env->comm, &windows[0]));
	REQUIRE_OK(make_window(env->comm, &windows[1]));
	if (env->rank == env->nranks - 1) {
		REQUIRE_OK(oriel_alloc(env->comm, BYTES, &memory));
		REQUIRE_OK(oriel_buffer_register(env->comm, memory, BYTES, &buffer));
	}
	CHECK_EQ(oriel_finalize(env->comm), ORIEL_EBUSY);
	CHECK_HAS(oriel_last_error(), "oriel_finalize: 1 registered buffers, requests");
	CHECK_EQ(oriel_window_status(windows[1]), 0);
	CHECK_EQ(oriel_window_barrier(windows[0], 0, NULL), 0);
	if (buffer)
		CHECK_EQ(oriel_buffer_release(buffer), 0);
	CHECK_EQ(oriel_finalize(env->comm), 0);
	CHECK_EQ(oriel_window_status(windows[0]), ORIEL_ESTALE);
	env->comm = NULL;
}

TEST(windows_go_with_their_comm_and_buffers_do_not)
{
	for (int processes = 0; processes < 2; processes++) {
		struct ranks_options o = { .nranks = RANKS, .processes = processes };

		ranks_run(&o, finalize_rank, NULL);
	}
}

/* A request keeps its window, and so all of them. */
static void request_rank(struct rank_env *env)
{
	struct oriel_allgather_request *request;
	struct oriel_window *windows[2];

	REQUIRE_OK(make_window(env->comm, &windows[0]));
	REQUIRE_OK(make_window(env->comm, &windows[1]));
	REQUIRE_OK(oriel_allgather_create(env->comm, windows[0], NULL, &request));
	CHECK_EQ(oriel_finalize(env->comm), ORIEL_EBUSY);
	CHECK_EQ(oriel_window_status(windows[1]), 0);
	CHECK_EQ(oriel_allgather_destroy(request), 0);
	CHECK_EQ(oriel_finalize(env->comm), 0);
	env->comm = NULL;
}

TEST(a_request_keeps_all_windows)
{
	struct ranks_options o = { .nranks = RANKS };

	ranks_run(&o, request_rank, NULL);
}

static void aborted_rank(struct rank_env *env)
{
	struct oriel_window *window;

	REQUIRE_OK(make_window(env->comm, &window));
	if (env->rank == 0)
		CHECK_EQ(oriel_comm_abort(env->comm, ORIEL_EINVAL), 0);
	CHECK(oriel_window_barrier(window, 0, NULL) != 0);
	CHECK_EQ(oriel_finalize(env->comm), 0);
	env->comm = NULL;
}

TEST(a_failed_comm_is_finalized_without_waiting)
{
	struct ranks_options o = { .nranks = RANKS };

	ranks_run(&o, aborted_rank, NULL);
}

/* ---- versions -------------------------------------------------------------------------------- */

TEST(headers_of_another_minor_version_do_not_fit)
{
	const int other[] = { ORIEL_VERSION + 100, ORIEL_VERSION - 100, ORIEL_VERSION + 10000 };

	CHECK_EQ(oriel_header_check(ORIEL_VERSION), 0);
	CHECK_EQ(oriel_header_check(ORIEL_VERSION + 1), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(oriel_header_check(other[i]), ORIEL_EVERSION);
	CHECK_EQ(oriel_header_check(1203), ORIEL_EVERSION);
	CHECK_HAS(oriel_last_error(), "headers of Oriel 0.12.3");
	CHECK_HAS(oriel_last_error(), "unit_init is Oriel ");
	CHECK_HAS(oriel_last_error(), oriel_version());
}

/* ---- ORIEL_CHECKED --------------------------------------------------------------------------- */

/* A put behind the end of the window, with a handle as kernels have it; the status. */
static int put_behind(const char *checked)
{
	struct oriel_window *window;
	struct oriel_window_dev dev;
	struct oriel_comm *comm;
	uint64_t word = 1;
	int err;

	setenv("ORIEL_CHECKED", checked, 1);
	err = oriel_init(&comm);
	if (err)
		return err;
	err = make_window(comm, &window);
	if (!err)
		err = oriel_window_device(window, &dev);
	if (!err && dev.checked)
		err = oriel_put_value(&dev, oriel_group_thread(), 0, BYTES, &word, sizeof(word));
	(void)oriel_finalize(comm);
	unsetenv("ORIEL_CHECKED");
	return err;
}

TEST(a_variable_makes_every_window_checked)
{
	be_alone();
	CHECK_EQ(put_behind("0"), 0); /* not checked, so not tried */
	CHECK_EQ(put_behind("1"), ORIEL_ERANGE);
	CHECK_EQ(put_behind("yes"), ORIEL_ECONFIG);
}
