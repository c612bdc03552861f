/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/replay.c - main() of a fuzz program without libFuzzer.
 *
 *	fuzz_hub FOLDER|FILE...       runs each input once
 *	fuzz_hub --seeds FOLDER       writes the program's seeds there
 *
 * It also runs its own seeds.  Fails if a folder has no input: a wrong path must not pass as a
 * test.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fuzz.h"

#define INPUT_BYTES (1u << 20)

static uint8_t bytes[INPUT_BYTES];
static int ran;

static int run_file(const char *path)
{
	FILE *f = fopen(path, "rbe");
	size_t n = f ? fread(bytes, 1, sizeof(bytes), f) : 0;
	uint8_t *exact = malloc(n ? n : 1); /* AddressSanitizer guards the end of the input */

	if (!f || !exact) {
		fprintf(stderr, "cannot read %s\n", path);
		free(exact);
		return 1;
	}
	fclose(f);
	memcpy(exact, bytes, n);
	printf("%s\n", path);
	fflush(stdout); /* the last line names the input that failed */
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	ran++;
	return 0;
}

static int run_folder(const char *folder)
{
	struct dirent **names = NULL;
	int n = scandir(folder, &names, NULL, alphasort), before = ran, err = 0;
	char path[4096];

	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
		if (names[i]->d_name[0] != '.')
			err |= run_file(path);
		free(names[i]);
	}
	free(names);
	if (ran == before)
		fprintf(stderr, "%s has no inputs\n", folder);
	return err || ran == before;
}

static int run(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode) ? run_folder(path) : run_file(path);
}

static int write_seeds(const char *folder)
{
	char path[4096];
	size_t n;

	for (int i = 0; (n = fuzz_seed(i, bytes, sizeof(bytes))); i++) {
		FILE *f;
		int ok;

		snprintf(path, sizeof(path), "%s/seed-%02d", folder, i);
		f = fopen(path, "wbe");
		ok = f && fwrite(bytes, 1, n, f) == n;
		if (f)
			ok &= !fclose(f);
		if (!ok) {
			fprintf(stderr, "cannot write %s\n", path);
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	size_t n;
	int err = 0;

	if (argc == 3 && !strcmp(argv[1], "--seeds"))
		return write_seeds(argv[2]);
	for (int i = 0; (n = fuzz_seed(i, bytes, sizeof(bytes))); i++)
		LLVMFuzzerTestOneInput(bytes, n);
	for (int i = 1; i < argc; i++)
		err |= run(argv[i]);
	printf("%d inputs\n", ran);
	return err;
}
