/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz.h - what the fuzz programs share: the input as a stream, and seeds.
 *
 * Each program of this folder feeds one parser with bytes that a stranger could send.  With the
 * preset fuzz, libFuzzer makes the bytes (tools/fuzz.sh).  In every other build the same program
 * replays files, so kept inputs run in every test run (replay.c).  A program stops by abort() when
 * a property does not hold: CHECK() of ../check.h does that here (frame.c).
 */
#ifndef ORI_TEST_FUZZ_H
#define ORI_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* One input.  libFuzzer's name; replay.c calls it too. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Seed number n from 0 on, made by the library's own code.  Returns its bytes; 0: past the end. */
size_t fuzz_seed(int n, uint8_t *out, size_t room);

struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

/* Reads as many bytes as there are; the rest is zeros.  Returns how many there were. */
static inline size_t fuzz_take(struct fuzz_input *in, void *to, size_t bytes)
{
	size_t n = bytes < in->left ? bytes : in->left;

	memset(to, 0, bytes);
	if (n)
		memcpy(to, in->at, n);
	in->at += n;
	in->left -= n;
	return n;
}

static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
	uint8_t value;

	fuzz_take(in, &value, 1);
	return value;
}

static inline uint32_t fuzz_word(struct fuzz_input *in)
{
	uint32_t value;

	fuzz_take(in, &value, sizeof(value));
	return value;
}

/* For seeds: appends bytes.  Seeds are far shorter than their room. */
struct fuzz_output {
	uint8_t *at;
	size_t room, bytes;
};

static inline void fuzz_give(struct fuzz_output *out, const void *from, size_t bytes)
{
	if (bytes > out->room - out->bytes)
		return;
	memcpy(out->at + out->bytes, from, bytes);
	out->bytes += bytes;
}

static inline void fuzz_give_byte(struct fuzz_output *out, uint8_t value)
{
	fuzz_give(out, &value, 1);
}

static inline void fuzz_give_word(struct fuzz_output *out, uint32_t value)
{
	fuzz_give(out, &value, sizeof(value));
}

#endif
