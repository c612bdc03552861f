/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.c - global and static variables are symmetric and keep their values.
 *
 * It is built several times, with the ways to link that a user may choose (CMakeLists.txt).
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../pe.h"
#include "library.h"

#define LARGE_BYTES (100l << 20)

static long data = 5;
static long zeros[5000];
static long *pointer = &data;
static const char *volatile text = "a pointer to constant memory";
static char large[LARGE_BYTES];

static int me, npes, next, before;

/* ---- a thread that writes during shmem_init() ------------------------------------------------ */

static volatile long counted[512]; /* a page and more */
static volatile int stop;

/* Counts in a variable that moves, and returns what it should be. */
static void *count(void *unused)
{
	long n = 0;

	(void)unused;
	while (!stop) {
		n++;
		counted[n % 512]++;
	}
	return (void *)n;
}

static void init_beside_a_thread(void)
{
	pthread_t thread;
	long sum = 0;
	void *n;
	int i;

	CHECK(!pthread_create(&thread, NULL, count, NULL));
	usleep(1000);
	shmem_init();
	stop = 1;
	pthread_join(thread, &n);
	for (i = 0; i < 512; i++)
		sum += counted[i];
	CHECK_EQ(sum, (long)n);
}

/* ---- values before and after ----------------------------------------------------------------- */

static void kept(void)
{
	CHECK_EQ(data, 5);
	CHECK_EQ(zeros[4999], 0);
	CHECK(pointer == &data);
	CHECK_EQ(strlen(text), 28);
	CHECK_EQ(library_value, 77);
	CHECK_EQ(library_zeros[99], 0);
	CHECK_EQ(*library_own(), 88);
	shmem_barrier_all();
}

static void put_and_get(long *word, long value)
{
	shmem_long_p(word, value + me, next);
	shmem_barrier_all();
	CHECK_EQ(*word, value + before);
	CHECK_EQ(shmem_long_g(word, next), value + me);
	shmem_barrier_all();
}

static void symmetric(void)
{
	static long inside = 9;

	CHECK_EQ(inside, 9);
	CHECK(shmem_addr_accessible(&data, next));
	CHECK(shmem_addr_accessible(library_own(), next));
	CHECK(!shmem_addr_accessible(&npes + 0 * next, npes));
	put_and_get(&data, 100);
	put_and_get(&zeros[0], 200);
	put_and_get(&zeros[4999], 300);
	put_and_get(&inside, 400);
	put_and_get(&library_value, 500);
	put_and_get(&library_zeros[99], 600);
	put_and_get(library_own(), 700);
	/* A global as the source of a put to another global. */
	shmem_long_put(zeros + 1, zeros, 1, next);
	shmem_barrier_all();
	CHECK_EQ(zeros[1], 200 + (before + npes - 1) % npes);
}

/* A pointer from shmem_ptr() leads to the variable of the other PE. */
static void pointers(void)
{
	long *theirs = shmem_ptr(&zeros[10], next);

	CHECK(shmem_ptr(&zeros[10], me) == &zeros[10]);
	if (theirs)
		*theirs = 1000 + me;
	else
		shmem_long_p(&zeros[10], 1000 + me, next);
	shmem_barrier_all();
	CHECK_EQ(zeros[10], 1000 + before);
}

/* A large .bss takes memory only where it is used. */
static void large_zeros(void)
{
	char *last = &large[LARGE_BYTES - 1];

	shmem_char_p(last, (char)(me + 1), next);
	shmem_barrier_all();
	CHECK_EQ(*last, before + 1);
	CHECK_EQ(large[LARGE_BYTES / 2], 0);
}

#ifndef STATIC_LIBRARIES
/* A child shares the variables, and its exit does not end the parent's PE. */
static void forked(void)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		zeros[20] = 4242;
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK_EQ(zeros[20], 4242);
	shmem_barrier_all();
	CHECK_EQ(shmem_long_g(&zeros[20], next), 4242);
}
#else
static void forked(void)
{
	/* Not allowed with static libraries: globals.c says why. */
}
#endif

int main(void)
{
	init_beside_a_thread();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	next = (me + 1) % npes;
	before = (me + npes - 1) % npes;
	kept();
	symmetric();
	pointers();
	large_zeros();
	forked();
	shmem_finalize();
	CHECK(text[0] == 'a'); /* variables outlive the library */
	return data != 100 + before;
}
