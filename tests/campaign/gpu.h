/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/gpu.h - streams, graphs and memory of a rank's CUDA device, real or fake.
 */
#ifndef ORI_CAMPAIGN_GPU_H
#define ORI_CAMPAIGN_GPU_H

#include <stddef.h>

struct oriel_comm;
struct oriel_kernel;

/* All return 0 or a result of the driver. */
int camp_gpu_stream(struct oriel_comm *, void **stream);
int camp_gpu_stream_destroy(struct oriel_comm *, void *stream);
int camp_gpu_malloc(struct oriel_comm *, size_t bytes, void **ptr);
int camp_gpu_free(struct oriel_comm *, void *ptr);
int camp_gpu_capture(struct oriel_comm *, void *stream);
/* Ends the capture and makes the graph ready to be launched. */
int camp_gpu_captured(struct oriel_comm *, void *stream, void **graph, void **exec);
int camp_gpu_graph_launch(struct oriel_comm *, void *exec, void *stream);
int camp_gpu_graph_destroy(struct oriel_comm *, void *graph, void *exec);
/* The kernel as oriel_launch() takes it on this device. */
const struct oriel_kernel *camp_gpu_kernel(const struct oriel_kernel *);
/* Fails a check if the fake driver still has objects after all comms are destroyed. */
void camp_gpu_leftovers(void);
/* Is the driver tests/fake_cuda? */
int camp_gpu_is_fake(void);

#endif
