/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/library.c - loads libfabric.so.1, if this machine has it.
 *
 * Never unloaded: its providers keep threads and hooks of their own.  Called on any thread.
 */
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static struct ofi_library library;
static char reason[160];
static int usable;

/*
 * Stays open for the life of the process: libfabric keeps state that does not survive a second
 * load.
 */
static void *handle;

static void load(void)
{
	handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		const char *text = dlerror();

		snprintf(reason, sizeof(reason), "%s", text ? text : "libfabric.so.1 is not there");
		return;
	}
	library.getinfo = (__typeof__(library.getinfo))dlsym(handle, "fi_getinfo");
	library.freeinfo = (__typeof__(library.freeinfo))dlsym(handle, "fi_freeinfo");
	library.dupinfo = (__typeof__(library.dupinfo))dlsym(handle, "fi_dupinfo");
	library.fabric = (__typeof__(library.fabric))dlsym(handle, "fi_fabric");
	library.strerror = (__typeof__(library.strerror))dlsym(handle, "fi_strerror");
	library.version = (__typeof__(library.version))dlsym(handle, "fi_version");
	if (!library.getinfo || !library.freeinfo || !library.dupinfo || !library.fabric ||
	    !library.strerror || !library.version) {
		snprintf(reason, sizeof(reason), "libfabric.so.1 lacks a function");
		return;
	}
	if (FI_VERSION_LT(library.version(), OFI_API_VERSION)) {
		uint32_t version = library.version();

		snprintf(reason, sizeof(reason), "libfabric %u.%u is older than %u.%u",
			 FI_MAJOR(version), FI_MINOR(version), FI_MAJOR(OFI_API_VERSION),
			 FI_MINOR(OFI_API_VERSION));
		return;
	}
	usable = 1;
}

const struct ofi_library *ori_ofi_library(const char **why)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	if (why)
		*why = reason;
	return usable ? &library : NULL;
}

const char *ori_ofi_error(const struct ofi_library *lib, long err)
{
	return lib->strerror((int)(err < 0 ? -err : err));
}
