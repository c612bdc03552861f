/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/status.c - names and texts of statuses, versions, the public last error.
 *
 * Owns nothing: the list is in oriel/status.h, and log.c keeps the text of the last error.  Called
 * by: users and tools, on any thread.
 */
#include <dlfcn.h>

#include <oriel/oriel.h>

#include "util.h"

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *oriel_version(void)
{
	return VERSION_TEXT(ORIEL_VERSION_MAJOR, ORIEL_VERSION_MINOR, ORIEL_VERSION_PATCH);
}

/* The file of this library, or of the program that contains it. */
static const char *library_file(void)
{
	Dl_info info;

	return dladdr((void *)(uintptr_t)oriel_version, &info) && info.dli_fname ? info.dli_fname :
										   "liboriel";
}

/*
 * Layouts that device code uses may change with every minor version, but not with a patch version.
 */
int oriel_header_check(int version)
{
	if (version / 100 == ORIEL_VERSION / 100)
		return 0;
	return ori_fail(ORIEL_EVERSION,
			"the program was compiled with headers of Oriel %d.%d.%d, but %s is Oriel %s: "
			"compile the program again with the headers of that library",
			version / 10000, version / 100 % 100, version % 100, library_file(),
			oriel_version());
}

const char *oriel_status_name(int status)
{
	switch (status) {
#define STATUS_NAME(name, value, text)                                                             \
	case (value):                                                                              \
		return "ORIEL_" #name;
		ORIEL_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
	default:
		return "ORIEL_E?";
	}
}

const char *oriel_status_text(int status)
{
	switch (status) {
#define STATUS_TEXT(name, value, text)                                                             \
	case (value):                                                                              \
		return text;
		ORIEL_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
	default:
		return "unknown status";
	}
}

int ori_status_received(int status, int otherwise)
{
	switch (status) {
#define STATUS_CASE(name, value, text) case (value):
		ORIEL_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
		return status ? status : otherwise;
	default:
		return otherwise;
	}
}

const char *oriel_last_error(void)
{
	return ori_last_error_text();
}
