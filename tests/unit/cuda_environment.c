/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_environment.c - thread ranks that open CUDA add variables to the environment.
 * Adding may move the environment while another thread reads it, so the library does both under one
 * lock.
 *
 * This program defines the getenv() and setenv() that the library calls.  They check that the lock
 * is held, so a mistake shows without a real race.  A process looks for the driver only once, so
 * every case is its own process.
 */
#include <pthread.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "../check.h"
#include "coll/tune/tune.h"
#include "device/device.h"
#include "fake_cuda/apart.h"
#include "fake_cuda/fake_cuda.h"
#include "util/config.h"

#define RANKS 4
#define READS 50

/* Atomic counts: calls made while the lock was held, and while it was not. */
static int watching, reads, writes, reads_alone, writes_alone;
static char alone[64]; /* the first name of the latter */

/* With one thread only this thread can hold the lock.  Only then a mistake shows for certain. */
static void look(const char *name, int *held, int *without)
{
	if (!__atomic_load_n(&watching, __ATOMIC_RELAXED))
		return;
	if (pthread_mutex_trylock(&ori_environment_lock)) {
		__atomic_add_fetch(held, 1, __ATOMIC_RELAXED);
		return;
	}
	if (!__atomic_fetch_add(without, 1, __ATOMIC_RELAXED))
		snprintf(alone, sizeof(alone), "%s", name);
	pthread_mutex_unlock(&ori_environment_lock);
}

static char *find(const char *name)
{
	size_t n = strlen(name);

	for (char **entry = environ; entry && *entry; entry++)
		if (!strncmp(*entry, name, n) && (*entry)[n] == '=')
			return *entry + n + 1;
	return NULL;
}

/* In the place of libc's, for the library and this program. */
char *getenv(const char *name)
{
	look(name, &reads, &reads_alone);
	return find(name);
}

/* Moves the environment every time, and frees the old one: AddressSanitizer finds late readers. */
int setenv(const char *name, const char *value, int replace)
{
	static char **made;
	char **was = made, *text;
	size_t n = 0;

	look(name, &writes, &writes_alone);
	if (find(name) && !replace)
		return 0;
	while (environ && environ[n])
		n++;
	made = calloc(n + 2, sizeof(*made));
	text = malloc(strlen(name) + strlen(value) + 2);
	if (!made || !text)
		abort();
	sprintf(text, "%s=%s", name, value);
	made[0] = text; /* found first, where there is another */
	if (n)
		memcpy(made + 1, environ, n * sizeof(*made));
	environ = made;
	free(was);
	return 0;
}

static void begin(void)
{
	unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
	unsetenv("CUDA_MODULE_LOADING");
	setenv("ORIEL_DEVICE", "cuda", 1);
	__atomic_store_n(&watching, 1, __ATOMIC_RELAXED);
}

static void end(int least_reads)
{
	__atomic_store_n(&watching, 0, __ATOMIC_RELAXED);
	CHECK_EQ(writes, 2); /* both variables of CUDA, once in a process */
	CHECK(reads >= least_reads);
	if (reads_alone || writes_alone)
		check_fail(__FILE__, __LINE__, "%d reads, %d writes without the lock, first of %s",
			   reads_alone, writes_alone, alone);
	CHECK(!strcmp(getenv("CUDA_MODULE_LOADING"), "EAGER"));
	CHECK(getenv("CUDA_DEVICE_MAX_CONNECTIONS") != NULL);
}

/* ---- one thread: every call shows ------------------------------------------------------------ */

static void one_rank(void *arg)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window = NULL;
	struct oriel_boot *boot = NULL;
	struct oriel_comm *comm = NULL;

	(void)arg;
	begin();
	REQUIRE_OK(oriel_boot_env(&boot));
	REQUIRE_OK(oriel_comm_create(boot, NULL, &comm));
	options.bytes = 4096;
	REQUIRE_OK(oriel_window_create(comm, &options, &window));
	CHECK_EQ(oriel_window_destroy(window), 0);
	CHECK_EQ(oriel_comm_destroy(comm), 0);
	oriel_boot_destroy(boot);
	end(20);
}

TEST(a_rank_opens_cuda_under_the_lock)
{
	struct apart a;

	apart_run(&a, one_rank, NULL);
}

static void look_for_a_plan(void *arg)
{
	struct ori_tune_key key;
	char path[512];

	(void)arg;
	memset(&key, 0, sizeof(key));
	__atomic_store_n(&watching, 1, __ATOMIC_RELAXED);
	(void)ori_tune_path(&key, path, sizeof(path));
	__atomic_store_n(&watching, 0, __ATOMIC_RELAXED);
	CHECK(reads > 0);
	CHECK_EQ(reads_alone, 0);
}

TEST(the_tuner_finds_its_file_under_the_lock)
{
	struct apart a;

	apart_run(&a, look_for_a_plan, NULL);
}

/* ---- thread ranks: some read while one adds -------------------------------------------------- */

struct meeting {
	pthread_barrier_t all;
};

static void *open_device(void *arg)
{
	struct meeting *m = arg;
	struct ori_device *device = NULL;

	pthread_barrier_wait(&m->all);
	if (ori_device_open("cuda", 60 * ORI_NS_PER_S, &device))
		check_fail(__FILE__, __LINE__, "no device: %s", oriel_last_error());
	else
		device->ops->close(device);
	return NULL;
}

static void *read_all(void *arg)
{
	struct meeting *m = arg;
	struct ori_config config;

	pthread_barrier_wait(&m->all);
	for (int i = 0; i < READS; i++)
		CHECK_EQ(ori_config_read(&config), 0);
	CHECK(!strcmp(config.device, "cuda"));
	return NULL;
}

static void thread_ranks(void *arg)
{
	pthread_t threads[RANKS];
	struct meeting m;

	(void)arg;
	begin();
	pthread_barrier_init(&m.all, NULL, RANKS);
	for (int i = 0; i < RANKS; i++)
		if (pthread_create(&threads[i], NULL, i % 2 ? read_all : open_device, &m))
			abort();
	for (int i = 0; i < RANKS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&m.all);
	end(READS * RANKS / 2);
}

TEST(ranks_read_while_others_open_cuda)
{
	for (int i = 0; i < 10; i++) {
		struct apart a;

		apart_run(&a, thread_ranks, NULL);
	}
}
