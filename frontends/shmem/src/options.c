/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options.c - the variables SHMEM_*, and what of ORIEL_* concerns this front end.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "options.h"
#include "osh.h"

#define DEFAULT_HEAP "512M"
/* Programs compute for long between their calls.  Oriel's own default is for kernels. */
#define WAIT_SECONDS 3600.0

int osh_size_parse(const char *text, uint64_t *bytes)
{
	static const char suffixes[] = "kmgt";
	const char *suffix;
	double value;
	char *end;

	if (!isdigit((unsigned char)*text) && *text != '.')
		return 0;
	value = strtod(text, &end);
	if (end == text)
		return 0;
	if (*end) {
		suffix = strchr(suffixes, tolower((unsigned char)*end));
		if (!suffix)
			return 0;
		value = ldexp(value, 10 * (int)(suffix - suffixes + 1));
		end++;
		if (tolower((unsigned char)*end) == 'b')
			end++;
	}
	if (*end || !(value < ldexp(1.0, 62)))
		return 0;
	*bytes = (uint64_t)value;
	return 1;
}

/* The first of these variables that is set and not empty. */
static const char *first_set(const char *name, const char *old, const char **which)
{
	const char *value = getenv(name);

	*which = name;
	if ((!value || !*value) && old) {
		value = getenv(old);
		*which = old;
	}
	return value && *value ? value : NULL;
}

static int is_on(const char *name, const char *old)
{
	const char *which, *value = first_set(name, old, &which);

	return value && strcmp(value, "0") && strcasecmp(value, "no") && strcasecmp(value, "off");
}

static uint64_t heap_size(void)
{
	const char *name, *value = first_set("SHMEM_SYMMETRIC_SIZE", "SMA_SYMMETRIC_SIZE", &name);
	uint64_t bytes;

	if (!osh_size_parse(value ? value : DEFAULT_HEAP, &bytes))
		osh_fail("shmem_init",
			 "%s=%s is not a size: use a number with K, M, G or T, such as 512M", name,
			 value);
	return bytes;
}

void osh_options_read(struct osh_options *options)
{
	const char *timeout = getenv("ORIEL_TIMEOUT");

	options->heap_bytes = heap_size();
	options->timeout = timeout && *timeout ? 0 : WAIT_SECONDS;
	options->version = is_on("SHMEM_VERSION", "SMA_VERSION");
	options->info = is_on("SHMEM_INFO", "SMA_INFO");
	options->debug = is_on("SHMEM_DEBUG", "SMA_DEBUG");
}

void osh_options_print(const struct osh_options *options, int pe)
{
	const char *device = getenv("ORIEL_DEVICE");

	if (pe)
		return;
	if (device && *device && strcmp(device, "cpu"))
		fprintf(stderr, "shmem: ORIEL_DEVICE=%s is ignored: PEs run on the CPU\n", device);
	if (options->version || options->info)
		printf("OpenSHMEM %d.%d, Oriel %s\n", SHMEM_MAJOR_VERSION, SHMEM_MINOR_VERSION,
		       oriel_version());
	if (options->info) {
		printf("SHMEM_SYMMETRIC_SIZE  bytes of the symmetric heap per PE, with K, M, G or "
		       "T (now %llu)\n",
		       (unsigned long long)options->heap_bytes);
		printf("SHMEM_VERSION         print the version (now %d)\n", options->version);
		printf("SHMEM_INFO            print this list (now %d)\n", options->info);
		printf("SHMEM_DEBUG           print what the library does (now %d)\n",
		       options->debug);
	}
	fflush(stdout);
}
