/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tune/save.c - writes the file that cache.c reads.
 *
 * The file is replaced by a rename, so a reader finds either the old or the new file, always
 * complete.
 *
 * Any thread.  Called by: oriel-tune on rank 0, tests.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../util/util.h"
#include "tune.h"

struct writer {
	char text[ORI_TUNE_FILE_BYTES];
	size_t n;
};

static void put(struct writer *w, const char *fmt, ...) ORI_PRINTF(2, 3);
static void put(struct writer *w, const char *fmt, ...)
{
	size_t room = sizeof(w->text) - w->n;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(w->text + w->n, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		w->n += (size_t)n < room ? (size_t)n : room - 1;
}

/* Times in ns, rates in bytes per ms, shares in thousandths: no number depends on a locale. */
static unsigned long long whole(double x)
{
	return x > 0 ? (unsigned long long)(x + 0.5) : 0;
}

static void write_table(struct writer *w, const struct ori_tune_key *key,
			const struct ori_tune_table *t)
{
	w->n = 0;
	put(w, "oriel-tune %d\ndevice %s\nengine %s\nshape %s\nversion %s\n", ORI_TUNE_VERSION,
	    key->device, key->engine, key->shape, key->version);
	put(w, "overlap %llu\nsmall %u\n", whole(t->overlap * 1e3), t->small);
	put(w, "cells %u once %u host_once %u long_from %u\n", t->ways.cells, t->ways.once,
	    t->ways.host_once, t->ways.long_from);
	for (int k = 0; k < ORI_PLAN_KINDS; k++) {
		const struct ori_tune_model *m = &t->model[k];

		put(w, "%s %u\n", ori_plan_kinds[k], t->rows[k]);
		put(w, "latency %llu rate %llu block_rate %llu error %llu\n",
		    whole(m->latency_us * 1e3), whole(m->rate * 1e3), whole(m->block_rate * 1e3),
		    whole(m->error * 1e3));
		for (uint32_t i = 0; i < t->rows[k]; i++) {
			const struct ori_tune_row *r = &t->row[k][i];

			put(w, "bytes %llu blocks %u warps %u chunk %u ns %llu\n",
			    (unsigned long long)r->bytes, r->blocks, r->warps, r->chunk,
			    whole((double)r->us * 1e3));
		}
	}
	put(w, "check %016llx\n", (unsigned long long)ori_tune_checksum(w->text, w->n));
}

/* The folder that holds the file, and the one above it. */
static void make_folders(const char *path)
{
	char folder[512];
	char *last, *above;

	if (snprintf(folder, sizeof(folder), "%s", path) >= (int)sizeof(folder))
		return;
	last = strrchr(folder, '/');
	if (!last || last == folder)
		return;
	*last = '\0';
	above = strrchr(folder, '/');
	if (above && above != folder) {
		*above = '\0';
		(void)mkdir(folder, 0777); /* creating the file reports an error */
		*above = '/';
	}
	(void)mkdir(folder, 0777);
}

static int write_file(const char *path, const char *text, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666), err = 0;

	if (fd < 0)
		return ori_fail_errno(errno, "cannot make %s", path);
	while (bytes && !err) {
		ssize_t n = write(fd, text, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			err = ori_fail_errno(n < 0 ? errno : EIO, "cannot write %s", path);
			break;
		}
		text += n;
		bytes -= (size_t)n;
	}
	/* Before the rename: after a crash the name must not refer to a file without its bytes. */
	if (!err && fsync(fd))
		err = ori_fail_errno(errno, "cannot write %s", path);
	if (close(fd) && !err)
		err = ori_fail_errno(errno, "cannot write %s", path);
	return err;
}

int ori_tune_save(const char *path, const struct ori_tune_key *key, const struct ori_tune_table *t)
{
	struct writer *w = malloc(sizeof(*w));
	char temporary[512];
	int err;

	if (!w)
		return ori_fail(ORIEL_ENOMEM, "no memory for a tuning file");
	write_table(w, key, t);
	make_folders(path);
	if (snprintf(temporary, sizeof(temporary), "%s.%ld.tmp", path, (long)getpid()) >=
	    (int)sizeof(temporary)) {
		err = ori_fail(ORIEL_EINVAL, "the name of the tuning file is too long: %.80s...",
			       path);
		goto out;
	}
	(void)unlink(temporary); /* left by a dead process with the same number */
	err = write_file(temporary, w->text, w->n);
	if (!err && rename(temporary, path))
		err = ori_fail_errno(errno, "cannot rename %s to %s", temporary, path);
	if (err)
		(void)unlink(temporary);
out:
	free(w);
	return err;
}
