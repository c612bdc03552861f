/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/driver.c - finds the CUDA driver at run time, once per process.
 *
 * The answer is kept, good or bad: a missing driver does not appear later, and oriel-info asks
 * several times.  Does not know contexts or memory.
 */
#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <oriel/status.h>

#include "../../util/config.h"
#include "../../util/util.h"
#include "cuda_device.h"
#include "driver.h"

#define VERSION_MIN 12000

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct ori_cuda_driver the_driver;
static int the_status = ORIEL_EUNSUPPORTED;
static char why[512];

static const char *const names[] = {
#define CALL_NAME(field, symbol, args) #symbol,
	ORI_CU_CALLS(CALL_NAME)
#undef CALL_NAME
};

static const char *const stream_names[] = {
#define CALL_NAME(field, symbol, args) #symbol,
	ORI_CU_STREAM_CALLS(CALL_NAME)
#undef CALL_NAME
};

int ori_cuda_mps_pipe(void)
{
	const char *dir = ori_environment_get("CUDA_MPS_PIPE_DIRECTORY");
	char path[512];

	snprintf(path, sizeof(path), "%s/control", dir ? dir : "/tmp/nvidia-mps");
	return !access(path, F_OK);
}

/* Sets variables that the driver reads when it is initialised, unless the user has set them. */
static void prepare_environment(void)
{
	/*
	 * Streams share this many channels to the GPU, 8 by default.  Behind a kernel that waits,
	 * another rank's kernel in the same channel would never start.  Under MPS all processes
	 * share one pool of channels, so each takes 8.  With 32 each, an H200's pool was empty
	 * after three processes.
	 */
	const char *channels = ori_cuda_mps_pipe() ? "8" : "32";

	if (ori_environment_add("CUDA_DEVICE_MAX_CONNECTIONS", channels))
		ori_log(ORI_LOG_DEBUG, "CUDA_DEVICE_MAX_CONNECTIONS set to %s", channels);
	/*
	 * Without it, a kernel is loaded at its first launch, and loading may wait for running
	 * kernels.
	 */
	if (ori_environment_add("CUDA_MODULE_LOADING", "EAGER"))
		ori_log(ORI_LOG_DEBUG, "CUDA_MODULE_LOADING set to EAGER");
}

/* Finds the calls that may be missing. */
static void find_stream_calls(void *library)
{
	void *found[ORI_COUNT(stream_names)];

	for (size_t i = 0; i < ORI_COUNT(stream_names); i++)
		found[i] = dlsym(library, stream_names[i]);
	static_assert(sizeof(the_driver.streams) == sizeof(found), "layout");
	memcpy(&the_driver.streams, found, sizeof(found));
}

static int find_calls(void *library, const char *name)
{
	void *found[ORI_COUNT(names)];

	for (size_t i = 0; i < ORI_COUNT(names); i++) {
		found[i] = dlsym(library, names[i]);
		if (!found[i]) {
			snprintf(why, sizeof(why),
				 "%.200s has no %s: a driver of CUDA 12 or newer is needed", name,
				 names[i]);
			return ORIEL_EUNSUPPORTED;
		}
	}
	/*
	 * The table begins with the calls, in the order of the names.  ISO C has no cast for this.
	 */
	static_assert(offsetof(struct ori_cuda_driver, version) == sizeof(found), "layout");
	memcpy(&the_driver, found, sizeof(found));
	find_stream_calls(library);
	return 0;
}

static int start(const char *name)
{
	struct ori_cuda_driver *cu = &the_driver;
	const char *call = "cuDriverGetVersion";
	int err = cu->cuDriverGetVersion(&cu->version);

	if (!err && cu->version < VERSION_MIN) {
		snprintf(why, sizeof(why), "%.200s is of CUDA %d.%d; 12.0 or newer is needed", name,
			 cu->version / 1000, cu->version % 1000 / 10);
		return ORIEL_EUNSUPPORTED;
	}
	if (!err) {
		call = "cuInit";
		prepare_environment();
		err = cu->cuInit(0);
	}
	if (!err) {
		call = "cuDeviceGetCount";
		err = cu->cuDeviceGetCount(&cu->ndevices);
	}
	if (!err && cu->ndevices < 1)
		err = ORI_CU_NO_DEVICE;
	if (err) {
		const char *text = NULL;

		if (cu->cuGetErrorString(err, &text) || !text)
			text = "unknown error";
		snprintf(why, sizeof(why), "%.200s: %s: %.200s", name, call, text);
		return ORIEL_EUNSUPPORTED;
	}
	return 0;
}

const char *ori_cuda_variable(const char *name)
{
	struct ori_config_row row;

	for (int n = 0; ori_config_row(n, &row); n++)
		if (!strcmp(row.name, name))
			return row.value && row.value[0] ? row.value : row.def;
	return "";
}

static void look_once(void)
{
	const char *name = ori_cuda_variable("ORIEL_CUDA_LIBRARY");
	void *library = dlopen(strcmp(name, "self") ? name : NULL, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		snprintf(why, sizeof(why), "no CUDA driver: %.200s", dlerror());
		return;
	}
	the_status = find_calls(library, name);
	if (!the_status)
		the_status = start(name);
	/* never closed: the driver has threads and exit handlers of its own */
}

int ori_cuda_driver_find(const struct ori_cuda_driver **cu, char *text, size_t bytes)
{
	pthread_once(&once, look_once);
	if (the_status)
		snprintf(text, bytes, "%s", why);
	else
		*cu = &the_driver;
	return the_status;
}

int ori_cuda_driver_get(const struct ori_cuda_driver **cu)
{
	pthread_once(&once, look_once);
	if (the_status)
		return ori_fail(the_status, "device cuda: %s", why);
	*cu = &the_driver;
	return 0;
}

const char *ori_cuda_text(ori_cu_result result)
{
	const char *text = NULL;

	if (the_status || the_driver.cuGetErrorString(result, &text) || !text)
		return "unknown error";
	return text;
}

int ori_cuda_is_lost(ori_cu_result result)
{
	/* The results of crashed kernels are adjacent, from 714 to 719. */
	return (result >= ORI_CU_HARDWARE_STACK && result <= ORI_CU_LAUNCH_FAILED) ||
	       result == ORI_CU_ILLEGAL_ADDRESS || result == ORI_CU_LAUNCH_TIMEOUT ||
	       result == ORI_CU_CONTEXT_DESTROYED || result == ORI_CU_ASSERT ||
	       result == ORI_CU_DEINITIALIZED || result == ORI_CU_ECC || result == ORI_CU_NVLINK ||
	       result == ORI_CU_MPS_CONNECTION || result == ORI_CU_MPS_RPC;
}

static int status_of(ori_cu_result result)
{
	if (result == ORI_CU_OUT_OF_MEMORY)
		return ORIEL_ENOMEM;
	return ori_cuda_is_lost(result) ? ORIEL_EDEVICE : ORIEL_ESYSTEM;
}

int ori_cuda_fail(ori_cu_result result, const char *call, const char *fmt, ...)
{
	static int told; /* every call on a lost context fails: one log line is enough */
	char what[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (ori_cuda_is_lost(result) && __atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		return ori_fail_silent(ORIEL_EDEVICE, "%s: %s: %s (%d)", what, call,
				       ori_cuda_text(result), result);
	return ori_fail(status_of(result), "%s: %s: %s (%d)", what, call, ori_cuda_text(result),
			result);
}
