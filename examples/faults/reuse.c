/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This program has a fault on purpose: it writes a source again before the put is complete.
 *
 * Between mapped ranks a put is complete at once, and the result is right.  A NIC reads the source
 * later.  docs/debugging.md shows how a seed makes that happen.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define MESSAGES 50
#define WORDS 16
#define BYTES (WORDS * sizeof(uint32_t))

struct args {
	struct oriel_window_dev win;
	struct oriel_source src;
	uint32_t *words;
};

static void must(int status)
{
	if (status)
		exit(1);
}

/* Rank 0 sends messages to rank 1; all words of message i are i. */
ORIEL_KERNEL(send_all, struct args)
{
	struct oriel_group g = oriel_group_thread();
	int err = 0;

	if (oriel_rank(&a->win) != 0)
		return oriel_wait_signal_from(&a->win, g, 0, 0, ORIEL_GE, MESSAGES);
	for (uint32_t message = 0; message < MESSAGES && !err; message++) {
		/* the fault: nothing waits for the completion of the put before */
		for (uint32_t i = 0; i < WORDS; i++)
			a->words[i] = message;
		err = oriel_put_signal(&a->win, g, 1, message * BYTES, &a->src, 0, BYTES, 0,
				       ORIEL_ADD, 1);
	}
	return err ? err : oriel_flush(&a->win, g, 1);
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	static uint32_t words[WORDS];
	const uint32_t *received;
	struct oriel_window *window;
	struct oriel_comm *comm;
	struct args args;
	int wrong = 0;

	must(oriel_init(&comm));
	options.bytes = MESSAGES * BYTES;
	must(oriel_window_create(comm, &options, &window));
	args.words = words;
	must(oriel_window_device(window, &args.win));
	must(oriel_window_source(window, words, sizeof(words), &args.src));
	must(oriel_launch(comm, &send_all, 1, 1, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));

	received = oriel_window_buffer(window);
	if (oriel_comm_rank(comm) == 1) {
		for (uint32_t i = 0; i < MESSAGES * WORDS; i++)
			wrong += received[i] != i / WORDS;
		printf("%s\n", wrong ? "messages were overwritten on their way" : "all is right");
	}
	must(oriel_finalize(comm));
	return wrong != 0;
}
