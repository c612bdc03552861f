/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/trace.c - comm/trace_file.c, trace_clock.c and trace_ticks.c: a disk that is full,
 * events that are lost or not complete, the bounds of a clock, and ticks.  tools/trace_test.sh
 * tests whole traces.
 */
#include <errno.h>

#include <oriel/device/trace.h>

#include "../ranks.h"
#include "comm/agree.h"
#include "comm/trace.h"

#define PLACES 4

struct bed {
	struct ori_trace trace;
	struct oriel_trace_event events[PLACES];
	char text[8192];
};

static void bed_open(struct bed *b, const char *path)
{
	memset(b, 0, sizeof(*b));
	b->trace.host.events = b->events;
	b->trace.host.count = &b->trace.host_count;
	b->trace.host.capacity = PLACES;
	b->trace.nranks = b->trace.nics = 1;
	snprintf(b->trace.hostname, sizeof(b->trace.hostname), "a \"host\"\n");
	b->trace.file = path ? fopen(path, "w") : tmpfile();
}

static void note(struct bed *b, uint64_t begin_ns, uint64_t bytes)
{
	struct ori_trace_note n = ori_trace_note_of(ORIEL_TRACE_PUT, begin_ns, 0, -1, 2);

	n.end = begin_ns + 1500;
	n.bytes = bytes;
	ori_trace_write(&b->trace.host, n);
}

/* The text of the file; NULL if it was not written. */
static const char *bed_text(struct bed *b)
{
	size_t n;

	if (ori_trace_file_write(&b->trace))
		return NULL;
	rewind(b->trace.file);
	n = fread(b->text, 1, sizeof(b->text) - 1, b->trace.file);
	b->text[n] = '\0';
	return b->text;
}

TEST(an_event_is_one_line)
{
	struct bed b;
	const char *text;

	bed_open(&b, NULL);
	REQUIRE(b.trace.file);
	note(&b, 2000001, 77);
	text = bed_text(&b);
	REQUIRE(text);
	CHECK(strstr(text,
		     "{\"name\":\"put\",\"cat\":\"put\",\"ph\":\"X\",\"ts\":2000.001,"
		     "\"dur\":1.500,\"pid\":0,\"tid\":0,\"args\":{\"status\":\"ok\",\"peer\":0,"
		     "\"window\":2,\"in\":\"window 2\",\"bytes\":77}}"));
	CHECK(strstr(text, "a \\\"host\\\"\\u000a"));
	CHECK(strstr(text, "\"events\":1,\"lost\":0}"));
	fclose(b.trace.file);
}

/* Half a nanosecond per tick.  Ticks before the first mark are on the line too. */
TEST(ticks_become_times)
{
	struct ori_trace_note n = ori_trace_note_of(ORIEL_TRACE_PUT, 3000, 0, -1, 2);
	struct bed b;
	const char *text;

	bed_open(&b, NULL);
	REQUIRE(b.trace.file);
	b.trace.host.ticks = 1;
	b.trace.first = (struct ori_tick_mark){ 1000, 50000, 40 };
	b.trace.last = (struct ori_tick_mark){ 5000, 52000, 60 };
	n.ticks = 1;
	n.end = 3400;
	ori_trace_write(&b.trace.host, n);
	n.begin = n.end = 0;
	ori_trace_write(&b.trace.host, n);
	note(&b, 7000, 1);
	text = bed_text(&b);
	REQUIRE(text);
	CHECK(strstr(text, "\"ts\":51.000,\"dur\":0.200,"));
	CHECK(strstr(text, "\"ts\":49.500,\"dur\":0.000,"));
	/* a note in nanoseconds stays as it is */
	CHECK(strstr(text, "\"ts\":7.000,\"dur\":1.500,"));
	CHECK(strstr(text, "\"clock_error_ns\":30,"));
	fclose(b.trace.file);
}

TEST(a_tick_has_the_time_of_the_clock)
{
	struct ori_trace t = { .nics = 1 };
	uint64_t before, ticks, after, error;

	ori_trace_ticks_begin(&t);
	if (!t.host.ticks) {
		check_skip("the system's clock is not the processor's counter");
		return;
	}
	ori_sleep_ns(2000000);
	before = ori_now_ns();
	ori_ticks_after_loads();
	ticks = ori_ticks();
	ori_ticks_after_loads();
	after = ori_now_ns();
	ori_sleep_ns(2000000);
	ori_trace_ticks_end(&t);
	error = ori_trace_ticks_error_ns(&t);
	CHECK(error > 0 && error < 1000000);
	CHECK(ori_trace_ticks_ns(&t, ticks) >= (int64_t)(before - error));
	CHECK(ori_trace_ticks_ns(&t, ticks) <= (int64_t)(after + error));
}

/* A kernel takes the place of an event when its call begins, and fills it when the call ends. */
TEST(calls_of_kernels_that_had_not_ended_are_not_lost)
{
	struct oriel_trace_event places[2] = { { { 0 } } };
	const char *text;
	struct bed b;

	bed_open(&b, NULL);
	REQUIRE(b.trace.file);
	note(&b, 1000, 1);
	places[0] = b.events[0];
	b.trace.fetched = (struct ori_trace_copy){ .events = places, .n = 2, .count = 5 };
	text = bed_text(&b);
	REQUIRE(text);
	CHECK(strstr(text, "\"unfinished\":1,\"events\":2,\"lost\":3}"));
	fclose(b.trace.file);
	bed_open(&b, NULL);
	b.trace.fetched.failed = 1;
	text = bed_text(&b);
	REQUIRE(text);
	CHECK(strstr(text, "\"kernels_lost\":true,\"events\":0,\"lost\":0}"));
	fclose(b.trace.file);
}

TEST(events_beyond_the_places_are_counted)
{
	struct bed b;
	const char *text;

	bed_open(&b, NULL);
	REQUIRE(b.trace.file);
	for (uint64_t i = 0; i < PLACES + 3; i++)
		note(&b, 1000 + i, 1);
	text = bed_text(&b);
	REQUIRE(text);
	CHECK(strstr(text, "\"events\":4,\"lost\":3}"));
	CHECK(!strstr(text, "\"ts\":1.004"));
	fclose(b.trace.file);
}

/* Every word of an event is covered by its checksum. */
TEST(an_event_that_is_not_complete_is_left_out)
{
	for (int word = 0; word < 8; word++) {
		struct bed b;
		const char *text;

		bed_open(&b, NULL);
		REQUIRE(b.trace.file);
		note(&b, 5000, 1);
		note(&b, 7000, 1);
		b.events[0].word[word] ^= 1;
		text = bed_text(&b);
		REQUIRE(text);
		CHECK(!strstr(text, "\"ts\":5.000"));
		CHECK(strstr(text, "\"ts\":7.000"));
		CHECK(strstr(text, "\"events\":1,\"lost\":1}"));
		fclose(b.trace.file);
	}
}

TEST(a_full_disk_is_told)
{
	struct bed b;

	bed_open(&b, "/dev/full");
	if (!b.trace.file) {
		check_skip("no /dev/full");
		return;
	}
	note(&b, 5000, 1);
	CHECK_EQ(ori_trace_file_write(&b.trace), ENOSPC);
	fclose(b.trace.file);
}

/* All ranks read one clock, so the true difference is 0 and must lie within the stated error. */
static void align(struct rank_env *env)
{
	struct ori_clock_offset clock = { 1, 1 };
	struct ori_clock_reading all[3];

	REQUIRE(env->nranks <= 3);
	ori_comm_call_begin(env->comm, ORI_CALL_BARRIER);
	REQUIRE_OK(ori_trace_clock_align(env->comm, all, &clock));
	CHECK_EQ(clock.ahead_ns, 0);
	CHECK_EQ(clock.error_ns, 0);
	/* as on hosts of their own */
	env->comm->facts[env->rank].host_id = 1000 + (uint64_t)env->rank;
	env->comm->facts[0].host_id = 1000;
	REQUIRE_OK(ori_trace_clock_align(env->comm, all, &clock));
	if (env->rank == 0)
		return;
	CHECK(clock.error_ns > 0 && clock.error_ns < 10000000000ull);
	CHECK(clock.ahead_ns <= (int64_t)clock.error_ns);
	CHECK(-clock.ahead_ns <= (int64_t)clock.error_ns);
}

TEST(clocks_are_within_the_stated_error)
{
	struct ranks_options o = { .nranks = 3 };

	ranks_run(&o, align, NULL);
}

static int has_none(struct ori_device *device, const struct oriel_kernel *kernel)
{
	(void)device;
	(void)kernel;
	return 0;
}

/* The device cannot launch: that would end the program. */
TEST(a_library_without_kernels_guesses_the_clock_of_a_device)
{
	const struct ori_device_ops ops = { .has_kernel = has_none };
	struct ori_device device = { .separate = 1, .ops = &ops };
	struct ori_trace trace = { .nics = 1 };
	struct oriel_comm comm = { .trace = &trace, .device = &device };
	const struct oriel_kernel nothing = { .name = "nothing" };

	ori_trace_clock_device(&comm, &nothing);
	CHECK(trace.device_known);
	CHECK_EQ(trace.device.error_ns, 1000000u);
	/* it counts from 1970, and the host's clock from a later moment */
	CHECK(trace.device.ahead_ns > 0);
}
