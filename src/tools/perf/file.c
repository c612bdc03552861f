/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/file.c - files that appear complete or not at all.
 *
 * A file is written under a temporary name and then renamed, so that a reader never sees half of
 * it, and a run that fails leaves the old file as it was.
 * Called by: json.c, plot.c and main.c, on rank 0.
 */
#include "perf.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int complain(const char *path)
{
	fprintf(stderr, "oriel-perf: cannot write %s: %s\n", path, strerror(errno));
	return ORIEL_ESYSTEM;
}

/*
 * The folder may be /tmp, where another user may have put a link under the temporary name: the link
 * is not followed.
 */
int perf_file_open(struct perf_file *file, const char *path)
{
	int n = snprintf(file->temporary, sizeof(file->temporary), "%s.%d.tmp", path,
			 (int)getpid());

	file->path = path;
	file->stream = NULL;
	errno = ENAMETOOLONG;
	if (n > 0 && n < (int)sizeof(file->temporary)) {
		(void)unlink(file->temporary); /* left by a dead process with the same number */
		file->stream = fopen(file->temporary, "wxe");
	}
	return file->stream ? 0 : complain(path);
}

int perf_file_close(struct perf_file *file, int failed)
{
	int bad = ferror(file->stream);

	if (fclose(file->stream) || bad || (!failed && rename(file->temporary, file->path))) {
		complain(file->path);
		failed = ORIEL_ESYSTEM;
	}
	if (failed)
		unlink(file->temporary);
	return failed;
}

int perf_file_probe(const char *path)
{
	struct perf_file file;
	int err = perf_file_open(&file, path);

	if (err)
		return err;
	fclose(file.stream);
	unlink(file.temporary);
	return 0;
}
