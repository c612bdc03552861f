/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/soft_place_copy.c - engine/soft/place_copy.c: every byte at every alignment, also if
 * source and target overlap, and the word that a thread waits for comes last.
 *
 * The last test is for ThreadSanitizer too (make test).
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <oriel/oriel.h>

#include "../check.h"
#include "engine/soft/state.h"
#include "util/util.h"

#define MOST 100u
#define ROUNDS 2000u
#define LOST_S 20 /* a message that has not come for so long is lost */

TEST(every_size_and_alignment)
{
	static uint8_t from[256], to[256], want[256];

	for (uint32_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 37 + 11);
	for (uint32_t bytes = 0; bytes <= MOST; bytes++)
		for (uint32_t at = 0; at < 64 && !check_failures; at++) {
			memset(to, 0xee, sizeof(to));
			memcpy(want, to, sizeof(to));
			memcpy(want + at % 8 + 16, from + at / 8, bytes);
			soft_place_copy(to + at % 8 + 16, from + at / 8, bytes);
			CHECK(!memcmp(to, want, sizeof(to)));
		}
}

TEST(source_and_target_overlap)
{
	static uint8_t memory[256], want[256];

	for (uint32_t bytes = 0; bytes <= MOST; bytes++)
		for (uint32_t away = 0; away <= 2 * 24 && !check_failures; away++) {
			uint8_t *to = memory + 40 + away;

			for (uint32_t i = 0; i < sizeof(memory); i++)
				want[i] = memory[i] = (uint8_t)(i * 101 + 7);
			memmove(want + 40 + away, want + 64, bytes);
			soft_place_copy(to, memory + 64, bytes);
			CHECK(!memcmp(memory, want, sizeof(memory)));
		}
}

/*
 * A message, and a thread that waits for its last word and resets it: 4, 2 or 1 bytes, aligned to
 * their size.
 */
struct message {
	uint8_t memory[256];
	uint32_t at, bytes, flag; /* in memory; flag: bytes of the last word */
	uint32_t acked, lost;
};

static uint32_t load_flag(const struct message *m)
{
	const uint8_t *flag = m->memory + m->at + m->bytes - m->flag;

	/* acquire: pairs with the release in soft_place_copy(), which this test is about */
	if (m->flag == 4)
		return __atomic_load_n((const uint32_t *)(const void *)flag, __ATOMIC_ACQUIRE);
	if (m->flag == 2) /* likewise */
		return __atomic_load_n((const uint16_t *)(const void *)flag, __ATOMIC_ACQUIRE);
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE); /* likewise */
}

/*
 * ThreadSanitizer pairs a load with a store only if both have the same address.  The store that
 * brings the flag may begin before it: here it is always one of the last 4 bytes.
 */
static void load_whole_word(const struct message *m)
{
	const uint8_t *word = m->memory + m->at + m->bytes - sizeof(uint32_t);

	/* acquire: as load_flag(), which has seen the store */
	(void)__atomic_load_n((const uint32_t *)(const void *)word, __ATOMIC_ACQUIRE);
}

/* As a receiver does that waits for the next message. */
static void reset_flag(struct message *m)
{
	uint8_t *flag = m->memory + m->at + m->bytes - m->flag;

	/* relaxed: the acknowledgement orders it */
	if (m->flag == 4)
		__atomic_store_n((uint32_t *)(void *)flag, 0, __ATOMIC_RELAXED);
	else if (m->flag == 2) /* likewise */
		__atomic_store_n((uint16_t *)(void *)flag, 0, __ATOMIC_RELAXED);
	else /* likewise */
		__atomic_store_n(flag, 0, __ATOMIC_RELAXED);
}

static uint8_t byte_of(uint32_t round, uint32_t i)
{
	return (uint8_t)(round * 31 + i);
}

/* Called now and then by who waits: is the round lost?  *since is 0 before the first call. */
static int is_lost(struct message *m, time_t *since, uint32_t round)
{
	struct timespec now;

	sched_yield();
	clock_gettime(CLOCK_MONOTONIC, &now);
	*since = *since ? *since : now.tv_sec + 1;
	/* relaxed: it only ends the other thread's wait */
	if (!__atomic_load_n(&m->lost, __ATOMIC_RELAXED) && now.tv_sec - *since > LOST_S) {
		check_fail(__FILE__, __LINE__, "round %u is lost: %u bytes, flag of %u", round,
			   m->bytes, m->flag);
		__atomic_store_n(&m->lost, 1, __ATOMIC_RELAXED); /* likewise */
	}
	return __atomic_load_n(&m->lost, __ATOMIC_RELAXED); /* likewise */
}

static void *reader(void *arg)
{
	struct message *m = arg;
	uint32_t round, polls, wrong = 0;

	for (round = 1; round <= ROUNDS; round++) {
		time_t since = 0;

		for (polls = 1; (load_flag(m) & 0xff) != round % 200 + 1; polls++)
			if (polls % 1000 == 0 && is_lost(m, &since, round))
				return NULL;
		load_whole_word(m);
		reset_flag(m); /* at once: a second store of the flag would bring it back */
		for (uint32_t i = 0; i + m->flag < m->bytes; i++)
			wrong += m->memory[m->at + i] != byte_of(round, i);
		/* release: the writer may write the bytes that were read */
		__atomic_store_n(&m->acked, round, __ATOMIC_RELEASE);
	}
	CHECK_EQ(wrong, 0);
	return NULL;
}

static void send_rounds(struct message *m)
{
	uint8_t source[256];
	uint32_t back = 0;

	for (uint32_t round = 1; round <= ROUNDS; round++) {
		time_t since = 0;

		for (uint32_t i = 0; i < m->bytes; i++)
			source[i] = byte_of(round, i);
		memset(source + m->bytes - m->flag, 0, m->flag);
		source[m->bytes - m->flag] = (uint8_t)(round % 200 + 1);
		soft_place_copy(m->memory + m->at, source, m->bytes);
		/* acquire: pairs with the reader's release */
		while (__atomic_load_n(&m->acked, __ATOMIC_ACQUIRE) != round)
			if (is_lost(m, &since, round))
				return;
		back += load_flag(m) != 0;
	}
	CHECK_EQ(back, 0);
}

/* The end of the message is aligned for the last word only: so its last 8 bytes are not aligned. */
TEST(the_last_word_comes_last_and_once)
{
	static const uint32_t sizes[] = { 6, 8, 12, 16, 60, 100 };

	for (uint32_t flag = 4; flag; flag /= 2)
		for (size_t k = 0; k < ORI_COUNT(sizes) && !check_failures; k++) {
			struct message *m = aligned_alloc(64, (sizeof(*m) + 63) / 64 * 64);
			pthread_t thread;

			REQUIRE(m);
			memset(m, 0, sizeof(*m));
			m->bytes = sizes[k];
			m->flag = flag;
			m->at = 8 * 4 + 8 - (m->bytes - flag) % 8;  /* flag at 0 mod 8 */
			m->at += flag == 1 ? 3 : flag == 2 ? 2 : 0; /* or where its size allows */
			REQUIRE_OK(pthread_create(&thread, NULL, reader, m));
			send_rounds(m);
			REQUIRE_OK(pthread_join(thread, NULL));
			free(m);
		}
}
