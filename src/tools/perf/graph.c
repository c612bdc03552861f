/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/graph.c - captures what a function puts on a stream into a CUDA graph, and replays it.
 *
 * The program is not linked with CUDA: it finds the driver's functions at run time, in the library
 * that the comm has loaded.  The context is the primary context of the comm's device.  Not
 * collective.
 * Called by: allgather.c, on the rank's host thread.
 */
#include "perf.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define CAPTURE_THREAD_LOCAL 1
#define STREAM_NON_BLOCKING 1u

/* Functions of the CUDA driver; its manual has the types of their arguments. */
static const char *const symbols[] = {
	"cuDeviceGet",
	"cuDevicePrimaryCtxRetain",
	"cuCtxSetCurrent",
	"cuStreamCreate",
	"cuStreamBeginCapture_v2",
	"cuStreamEndCapture",
	"cuGraphInstantiateWithFlags",
	"cuGraphLaunch",
	"cuStreamSynchronize",
	"cuGraphExecDestroy",
	"cuGraphDestroy",
	"cuStreamDestroy_v2",
	"cuDevicePrimaryCtxRelease_v2",
};
#define SYMBOLS (sizeof(symbols) / sizeof(symbols[0]))

struct calls {
	int (*device_get)(int *, int);
	int (*context_retain)(void **, int);
	int (*context_set)(void *);
	int (*stream_create)(void **, unsigned int);
	int (*begin)(void *, int);
	int (*end)(void *, void **);
	int (*instantiate)(void **, void *, unsigned long long);
	int (*launch)(void *, void *);
	int (*sync)(void *);
	int (*exec_destroy)(void *);
	int (*graph_destroy)(void *);
	int (*stream_destroy)(void *);
	int (*context_release)(int);
};
_Static_assert(sizeof(struct calls) == SYMBOLS * sizeof(void *), "one for each symbol");

struct perf_graph {
	struct calls cu;
	int device;
	void *context, *stream, *graph, *exec;
};

static int failed(const char *what, int result)
{
	if (!result)
		return 0;
	fprintf(stderr, "oriel-perf: graph: %s: CUDA error %d\n", what, result);
	return ORIEL_ESYSTEM;
}

static int find_calls(struct perf_graph *g)
{
	const char *wanted = getenv("ORIEL_CUDA_LIBRARY");
	const char *name = wanted && *wanted ? wanted : "libcuda.so.1";
	void *library = dlopen(strcmp(name, "self") ? name : NULL, RTLD_NOW | RTLD_LOCAL);
	void *found[SYMBOLS];

	for (size_t i = 0; i < SYMBOLS; i++) {
		found[i] = library ? dlsym(library, symbols[i]) : NULL;
		if (!found[i]) {
			fprintf(stderr, "oriel-perf: graph: the CUDA driver has no %s\n",
				symbols[i]);
			return ORIEL_EUNSUPPORTED;
		}
	}
	memcpy(&g->cu, found, sizeof(found));
	return 0;
}

/* The N of cuda:N in --device or ORIEL_DEVICE; 0 without a number. */
static int device_number(void)
{
	const char *name = getenv("ORIEL_DEVICE");
	const char *colon = name ? strchr(name, ':') : NULL;

	return colon ? atoi(colon + 1) : 0;
}

int perf_graph_capture(int (*fn)(void *ctx, void *stream), void *ctx, struct perf_graph **out)
{
	struct perf_graph *g = calloc(1, sizeof(*g));
	int err = g ? find_calls(g) : ORIEL_ENOMEM, ended;

	if (!err)
		err = failed("cuDeviceGet", g->cu.device_get(&g->device, device_number()));
	if (!err)
		err = failed("cuDevicePrimaryCtxRetain",
			     g->cu.context_retain(&g->context, g->device));
	if (!err)
		err = failed("cuCtxSetCurrent", g->cu.context_set(g->context));
	if (!err)
		err = failed("cuStreamCreate",
			     g->cu.stream_create(&g->stream, STREAM_NON_BLOCKING));
	if (!err)
		err = failed("cuStreamBeginCapture", g->cu.begin(g->stream, CAPTURE_THREAD_LOCAL));
	if (!err) {
		err = fn(ctx, g->stream);
		ended = failed("cuStreamEndCapture", g->cu.end(g->stream, &g->graph));
		err = err ? err : ended;
	}
	if (!err)
		err = failed("cuGraphInstantiate", g->cu.instantiate(&g->exec, g->graph, 0));
	if (err) {
		perf_graph_free(g);
		return err;
	}
	*out = g;
	return 0;
}

int perf_graph_replay(struct perf_graph *g)
{
	return failed("cuGraphLaunch", g->cu.launch(g->exec, g->stream));
}

int perf_graph_sync(struct perf_graph *g)
{
	return failed("cuStreamSynchronize", g->cu.sync(g->stream));
}

void perf_graph_free(struct perf_graph *g)
{
	if (!g)
		return;
	if (g->exec)
		(void)g->cu.exec_destroy(g->exec);
	if (g->graph)
		(void)g->cu.graph_destroy(g->graph);
	if (g->stream)
		(void)g->cu.stream_destroy(g->stream);
	if (g->context)
		(void)g->cu.context_release(g->device);
	free(g);
}
