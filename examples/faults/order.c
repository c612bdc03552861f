/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This program has a fault on purpose: between a put and the put of a word that announces it, there
 * is no fence.
 *
 * Most networks keep the order of two puts, so the program works there.  Some do not.
 * docs/debugging.md shows how a seed lets the software NIC behave like them.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define MESSAGES 1000
#define WORDS 64
#define BYTES (WORDS * sizeof(uint64_t))
#define READY (MESSAGES * BYTES) /* offset of the words that announce a message each */

struct args {
	struct oriel_window_dev win;
	struct oriel_source src;
	int *wrong;
};

static void must(int status)
{
	if (status)
		exit(1);
}

ORIEL_DEV int send_all(const struct args *a, struct oriel_group g)
{
	int err = 0;

	for (uint64_t i = 0; i < MESSAGES && !err; i++) {
		uint64_t ready = 1;

		err = oriel_put(&a->win, g, 1, i * BYTES, &a->src, i * BYTES, BYTES);
		/* the fault: oriel_fence(&a->win, g, 1) is missing here */
		if (!err)
			err = oriel_put_value(&a->win, g, 1, READY + i * sizeof(ready), &ready,
					      sizeof(ready));
	}
	return err ? err : oriel_flush(&a->win, g, 1);
}

ORIEL_DEV int receive_all(const struct args *a, struct oriel_group g)
{
	const uint64_t *words = (const uint64_t *)a->win.buffer;
	int err = 0;

	for (uint64_t i = 0; i < MESSAGES && !err; i++) {
		err = oriel_wait_word(&a->win, g, READY + i * sizeof(*words), ORIEL_TYPE_UINT64,
				      ORIEL_EQ, 1);
		for (uint64_t k = 0; k < WORDS && !err; k++)
			*a->wrong += words[i * WORDS + k] != i * WORDS + k + 1;
	}
	return err;
}

ORIEL_KERNEL(messages, struct args)
{
	struct oriel_group g = oriel_group_thread();

	return oriel_rank(&a->win) == 0 ? send_all(a, g) : receive_all(a, g);
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	static uint64_t words[MESSAGES * WORDS];
	struct oriel_window *window;
	struct oriel_comm *comm;
	struct args args;
	int wrong = 0;

	must(oriel_init(&comm));
	options.bytes = READY + MESSAGES * sizeof(uint64_t);
	must(oriel_window_create(comm, &options, &window));
	for (uint64_t i = 0; i < MESSAGES * WORDS; i++)
		words[i] = i + 1;
	args.wrong = &wrong;
	must(oriel_window_device(window, &args.win));
	must(oriel_window_source(window, words, sizeof(words), &args.src));
	must(oriel_launch(comm, &messages, 1, 1, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));

	if (oriel_comm_rank(comm) == 1)
		printf("%s\n", wrong ? "words were announced before they came" : "all is right");
	must(oriel_finalize(comm));
	return wrong != 0;
}
