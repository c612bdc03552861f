/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/compile/every_call_main.c - runs the kernel of every_call.h, as C compiled it and as C++
 * did, on a comm of one rank with groups of 1 and 4 threads.
 */
#include <stdio.h>
#include <string.h>

#include <oriel/oriel.h>

#include "every_call.h"

const struct oriel_kernel *every_call_c(void);
const struct oriel_kernel *every_call_cpp(void);

static int failures;

static int failed(const char *what, int status)
{
	if (status) {
		fprintf(stderr, "%s: %s (%s)\n", what, oriel_status_name(status),
			oriel_last_error());
		failures++;
	}
	return status;
}

static void run(struct oriel_comm *comm, struct oriel_window *window,
		const struct oriel_kernel *kernel, const char *language, int nthreads)
{
	static uint8_t source[EVERY_CALL_BYTES], message[2 * EVERY_CALL_BYTES];
	static int32_t status[EVERY_CALL_MAX], calls;
	struct every_args args;

	memset(&args, 0, sizeof(args));
	memset(message, 0x5a, EVERY_CALL_BYTES);
	memset(message + EVERY_CALL_BYTES, 0, EVERY_CALL_BYTES);
	calls = 0;
	args.message = message;
	args.status = status;
	args.calls = &calls;
	if (failed("device handle", oriel_window_device(window, &args.win)) ||
	    failed("source", oriel_window_source(window, source, sizeof(source), &args.src)) ||
	    failed("launch", oriel_launch(comm, kernel, 1, nthreads, &args, sizeof(args), NULL)))
		return;
	for (int i = 0; i < calls; i++) {
		if (status[i]) {
			fprintf(stderr, "%s, %d threads: call %d returned %s\n", language, nthreads,
				i, oriel_status_name(status[i]));
			failures++;
		}
	}
	if (calls < 60 || message[2 * EVERY_CALL_BYTES - 1] != 0x5a) {
		fprintf(stderr, "%s, %d threads: %d calls, last byte received %#x\n", language,
			nthreads, calls, message[2 * EVERY_CALL_BYTES - 1]);
		failures++;
	}
	(void)failed("source release", oriel_window_source_release(window, &args.src));
	printf("%s, %d threads: %d calls\n", language, nthreads, calls);
}

int main(void)
{
	struct oriel_comm_options comm_options = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_boot *boot = NULL;
	struct oriel_comm *comm = NULL;

	comm_options.timeout = 20;
	options.bytes = 4096;
	options.checked = 1;
	options.staging_slot_bytes = 4096;
	options.boxes = 1;
	options.box_bytes = 64;
	if (failed("boot", oriel_boot_threads(1, &boot)) ||
	    failed("comm", oriel_comm_create(boot, &comm_options, &comm)))
		return 1;
	/* A fresh window each: the kernel expects its words to start at 0. */
	for (int i = 0; i < 4; i++) {
		struct oriel_window *window = NULL;

		if (failed("window", oriel_window_create(comm, &options, &window)))
			return 1;
		run(comm, window, i & 1 ? every_call_cpp() : every_call_c(), i & 1 ? "C++" : "C",
		    i & 2 ? 4 : 1);
		failed("window destroy", oriel_window_destroy(window));
	}
	failed("comm destroy", oriel_comm_destroy(comm));
	failed("boot destroy", oriel_boot_destroy(boot));
	return failures != 0;
}
