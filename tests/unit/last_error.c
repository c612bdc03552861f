/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/last_error.c - window/ops.c: every host call that fails sets its own text, whatever
 * the last error of this thread was before.
 */
#include <unistd.h>

#include "../ranks.h"
#include "util/util.h"

#define OLD "a mistake of long ago"

static struct oriel_window *make_window(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window = NULL;

	o.bytes = 4096;
	if (oriel_window_create(env->comm, &o, &window))
		check_fail(__FILE__, __LINE__, "no window: %s", oriel_last_error());
	return window;
}

/* The call has failed with `want`, and its text has the word and is not the old one. */
static void check_text(const char *call, int got, int want, const char *word)
{
	if (got != want)
		check_fail(__FILE__, __LINE__, "%s returned %s: %s", call, oriel_status_name(got),
			   oriel_last_error());
	if (!strstr(oriel_last_error(), word) || strstr(oriel_last_error(), OLD))
		check_fail(__FILE__, __LINE__, "%s: \"%s\" does not contain \"%s\"", call,
			   oriel_last_error(), word);
	(void)ori_fail_silent(ORIEL_EINVAL, OLD);
}

/* Rank 0 meets nobody and gives up; later rank 1 finds the window failed. */
static void one_gives_up(struct rank_env *env)
{
	struct oriel_window *w = make_window(env);

	REQUIRE(w);
	(void)ori_fail_silent(ORIEL_EINVAL, OLD);
	if (env->rank == 0) {
		check_text("barrier", oriel_window_barrier(w, 0, NULL), ORIEL_ETIMEDOUT,
			   "gave up after");
	} else {
		while (!oriel_window_status(w))
			usleep(1000); /* ended by the deadline of the ranks */
		(void)ori_fail_silent(ORIEL_EINVAL, OLD);
	}
	check_text("barrier", oriel_window_barrier(w, 0, NULL), ORIEL_ETIMEDOUT,
		   "rank 0 gave up waiting for rank 1");
	check_text("window_status", oriel_window_status(w), ORIEL_ETIMEDOUT,
		   "rank 0 gave up waiting for rank 1");
	check_text("signal", oriel_window_signal(w, 0, 0, ORIEL_ADD, 1, NULL), ORIEL_ETIMEDOUT,
		   "window 0 has failed");
	check_text("reset_signals", oriel_window_reset_signals(w, NULL), ORIEL_ETIMEDOUT,
		   "window 0 has failed");
	REQUIRE_OK(oriel_window_destroy(w));
}

static void give_up(const char *topology, int processes)
{
	struct ranks_options o = {
		.nranks = 2, .processes = processes, .topology = topology, .timeout_s = 6
	};

	ranks_run(&o, one_gives_up, NULL);
}

TEST(a_failed_window_names_who_was_late_and_who_gave_up)
{
	give_up(NULL, 1);
	give_up(NULL, 0);
}

TEST(the_same_between_queued_peers)
{
	give_up("2x1", 1);
	give_up("2x1", 0);
}

/* Rank 1 signals nobody. */
static void nobody_signals(struct rank_env *env)
{
	struct oriel_window *w = make_window(env);
	int *gone = env->arg;

	REQUIRE(w);
	(void)ori_fail_silent(ORIEL_EINVAL, OLD);
	if (env->rank == 0) {
		check_text("wait_signal", oriel_window_wait_signal(w, 1, 3, ORIEL_GE, 1, NULL),
			   ORIEL_ETIMEDOUT, "signal 3 of window 0 from rank 1");
		__atomic_store_n(gone, 1, __ATOMIC_RELEASE);
	}
	while (!__atomic_load_n(gone, __ATOMIC_ACQUIRE))
		usleep(1000);
	REQUIRE_OK(oriel_window_destroy(w));
}

TEST(a_wait_that_timed_out_has_its_text)
{
	struct ranks_options o = { .nranks = 2, .timeout_s = 6 };
	int *gone = ranks_shared(sizeof(*gone));

	REQUIRE(gone);
	ranks_run(&o, nobody_signals, gone);
}

static void not_connected(struct rank_env *env)
{
	struct oriel_comm_options options = ORIEL_COMM_OPTIONS_INIT;
	int peer = 1 - env->rank, no = ORIEL_ENOTCONN;
	const char *word = env->rank ? "before rank 0 was connected" :
				       "before rank 1 was connected";
	struct oriel_source source;
	struct oriel_window *w;
	char mine[8];

	options.topology = "2x1";
	options.connect = ORIEL_CONNECT_NONE;
	REQUIRE_OK(oriel_comm_create(env->boot, &options, &env->comm));
	w = make_window(env);
	REQUIRE(w);
	REQUIRE_OK(oriel_window_source(w, mine, 8, &source));
	(void)ori_fail_silent(ORIEL_EINVAL, OLD);
	check_text("put", oriel_window_put(w, peer, 0, &source, 0, 8, NULL), no, word);
	check_text("get", oriel_window_get(w, peer, 0, &source, 0, 8, NULL), no, word);
	check_text("put_signal",
		   oriel_window_put_signal(w, peer, 0, &source, 0, 8, 0, ORIEL_ADD, 1, NULL), no,
		   word);
	check_text("signal", oriel_window_signal(w, peer, 0, ORIEL_ADD, 1, NULL), no, word);
	check_text("barrier", oriel_window_barrier(w, 0, NULL), no, word);
	REQUIRE_OK(oriel_window_destroy(w));
	REQUIRE_OK(oriel_comm_destroy(env->comm));
	env->comm = NULL;
}

TEST(a_peer_without_queues_is_named)
{
	struct ranks_options o = { .nranks = 2, .no_comm = 1 };

	ranks_run(&o, not_connected, NULL);
}
