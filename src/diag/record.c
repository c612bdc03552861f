/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/record.c - the private directory in which oriel-doctor finds processes.
 *
 * Owns names and permissions only.  In a directory that others can write, somebody could put a
 * socket of their own in place of ours, so such a directory is refused.
 *
 * Called by: service.c, and by oriel-doctor.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../util/config.h"
#include "record.h"

static void name_folder(const char *value, char *folder)
{
	const char *runtime = ori_environment_get("XDG_RUNTIME_DIR");

	if (value && value[0] && strcmp(value, "auto"))
		snprintf(folder, ORI_RECORD_PATH_BYTES, "%s", value);
	else if (runtime && runtime[0] == '/' && strlen(runtime) < 60 && !access(runtime, W_OK))
		snprintf(folder, ORI_RECORD_PATH_BYTES, "%s/oriel", runtime);
	else
		snprintf(folder, ORI_RECORD_PATH_BYTES, "/tmp/oriel-%u", (unsigned)geteuid());
}

int ori_record_folder(const char *value, int make, char *folder, char *why, size_t why_bytes)
{
	struct stat s;

	name_folder(value, folder);
	if (strlen(folder) > ORI_RECORD_PATH_BYTES - 20) {
		snprintf(why, why_bytes, "its name is too long for a socket");
		return -1;
	}
	if ((make && mkdir(folder, 0700) && errno != EEXIST) || lstat(folder, &s)) {
		snprintf(why, why_bytes, "%s", strerror(errno));
		return -1;
	}
	if (!S_ISDIR(s.st_mode) || s.st_uid != geteuid() || s.st_mode & 077) {
		snprintf(why, why_bytes,
			 "it is not a directory that belongs to this user alone (mode 0700)");
		return -1;
	}
	return 0;
}

void ori_record_path(const char *folder, pid_t pid, const char *kind, char *path)
{
	snprintf(path, ORI_RECORD_PATH_BYTES + 20, "%s/%d.%s", folder, (int)pid, kind);
}

void ori_record_address(const char *folder, pid_t pid, struct sockaddr_un *address)
{
	char path[ORI_RECORD_PATH_BYTES + 20];

	ori_record_path(folder, pid, "sock", path);
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	/* it fits: ori_record_folder() has refused a long folder */
	memcpy(address->sun_path, path, strnlen(path, sizeof(address->sun_path) - 1));
}

/* A reader finds the old text or the new one, never a part. */
int ori_record_write(const char *folder, pid_t pid, const char *text)
{
	char path[ORI_RECORD_PATH_BYTES + 20], draft[ORI_RECORD_PATH_BYTES + 20];
	size_t bytes = strlen(text);
	int fd, saved;

	ori_record_path(folder, pid, "job", path);
	ori_record_path(folder, pid, "new", draft);
	fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -1;
	if (write(fd, text, bytes) == (ssize_t)bytes && !rename(draft, path)) {
		close(fd);
		return 0;
	}
	saved = errno;
	close(fd);
	unlink(draft);
	errno = saved;
	return -1;
}

void ori_record_remove(const char *folder, pid_t pid)
{
	static const char *const kinds[] = { "sock", "job", "new" };
	char path[ORI_RECORD_PATH_BYTES + 20];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		ori_record_path(folder, pid, kinds[i], path);
		unlink(path);
	}
}

/* A process that was killed leaves its files behind. */
void ori_record_each(const char *folder, void (*found)(void *ctx, pid_t pid), void *ctx)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	int pid, used;

	while (dir && (entry = readdir(dir))) {
		used = 0;
		if (sscanf(entry->d_name, "%d.%*[a-z]%n", &pid, &used) != 1 || !used || pid <= 0)
			continue;
		if (kill(pid, 0) && errno == ESRCH)
			ori_record_remove(folder, pid);
		else if (found && strstr(entry->d_name, ".job"))
			found(ctx, pid);
	}
	if (dir)
		closedir(dir);
}
