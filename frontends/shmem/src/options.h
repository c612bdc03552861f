/* SPDX-License-Identifier: BSD-3-Clause */
/* options.h - what the environment says. */
#ifndef OSH_OPTIONS_H
#define OSH_OPTIONS_H

#include <stdint.h>

struct osh_options {
	uint64_t heap_bytes; /* SHMEM_SYMMETRIC_SIZE */
	double timeout;      /* seconds of a wait; 0: Oriel reads ORIEL_TIMEOUT itself */
	int version;         /* SHMEM_VERSION: print the version */
	int info;            /* SHMEM_INFO: print the variables */
	int debug;           /* SHMEM_DEBUG */
};

/* Ends the job if a value is not right. */
void osh_options_read(struct osh_options *options);
/* PE 0 prints what SHMEM_VERSION and SHMEM_INFO ask for. */
void osh_options_print(const struct osh_options *options, int pe);
/* "512M" and the like; 1: *bytes was set, 0: the text is not a size. */
int osh_size_parse(const char *text, uint64_t *bytes);

#endif
