/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/trace.c - comm/trace_file.c and comm/trace_clock.c: a disk that is full, events that
 * are lost or not complete, and the bounds of a clock.  tools/trace_test.sh tests whole traces.
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

	n.end_ns = begin_ns + 1500;
	n.bytes = bytes;
	ori_trace_write(&b->trace.host, n);
}

/* The text of the file; NULL if it was not written. */
static const char *bed_text(struct bed *b)
{
	size_t n;

	if (ori_trace_file_write(&b->trace, 0))
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
	CHECK_EQ(ori_trace_file_write(&b.trace, 0), ENOSPC);
	fclose(b.trace.file);
}

/* All ranks read one clock, so the true difference is 0 and must lie within the stated error. */
static void align(struct rank_env *env)
{
	struct ori_clock_offset clock = { 1, 1 };

	ori_comm_call_begin(env->comm, ORI_CALL_BARRIER);
	REQUIRE_OK(ori_trace_clock_align(env->comm, &clock));
	CHECK_EQ(clock.ahead_ns, 0);
	CHECK_EQ(clock.error_ns, 0);
	/* as on hosts of their own */
	env->comm->facts[env->rank].host_id = 1000 + (uint64_t)env->rank;
	env->comm->facts[0].host_id = 1000;
	REQUIRE_OK(ori_trace_clock_align(env->comm, &clock));
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
