/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/images.c - compiled kernels: the library's own image and those that the program has
 * added.
 *
 * The list of images belongs to the process.  Each GPU loads all of them when it is opened, and
 * later ones when they are added, never at a launch.  Modules stay loaded until the GPU is closed.
 */
#include <string.h>

#include "../../kernels/image.h"
#include "../../util/util.h"
#include "cuda_device.h"

struct image {
	const void *data;
	size_t bytes;
};

static pthread_mutex_t images_lock = PTHREAD_MUTEX_INITIALIZER;
static struct image images[ORI_CUDA_IMAGES_MAX];
static int nimages;

/*
 * Loads one image.  The context is current, and the GPU is locked or not yet known to others.
 * ORIEL_EUNSUPPORTED without a log line: the image has no code for this GPU.
 */
static int load(struct ori_cuda_gpu *gpu, const void *data, const char *whose)
{
	void *module;
	int err;

	if (gpu->nmodules == ORI_CUDA_IMAGES_MAX)
		return ori_fail(ORIEL_ERANGE, "more than %d images of kernels",
				ORI_CUDA_IMAGES_MAX);
	err = gpu->cu->cuModuleLoadData(&module, data);
	if (err == ORI_CU_NO_BINARY)
		return ORIEL_EUNSUPPORTED;
	if (err)
		return ori_fail(ORIEL_ESYSTEM, "%s kernels on GPU %d: cuModuleLoadData: %s (%d)",
				whose, gpu->ordinal, ori_cuda_text(err), err);
	gpu->modules[gpu->nmodules++] = module;
	return 0;
}

/*
 * Skips an image that is not for this GPU.  A launch of one of its kernels then fails with a
 * message.
 */
static int load_or_skip(struct ori_cuda_gpu *gpu, const void *data, const char *whose)
{
	int err = load(gpu, data, whose);

	if (err != ORIEL_EUNSUPPORTED)
		return err;
	ori_log(ORI_LOG_WARN, "%s kernels have no code for GPU %d", whose, gpu->ordinal);
	return 0;
}

int ori_cuda_images_load(struct ori_cuda_gpu *gpu)
{
	size_t bytes;
	const void *own = ori_kernels_image(&bytes);
	int err = own ? load_or_skip(gpu, own, "the library's") : 0;

	pthread_mutex_lock(&images_lock);
	for (int i = 0; i < nimages && !err; i++)
		err = load_or_skip(gpu, images[i].data, "the program's");
	pthread_mutex_unlock(&images_lock);
	if (err)
		ori_cuda_images_unload(gpu);
	return err;
}

void ori_cuda_images_unload(struct ori_cuda_gpu *gpu)
{
	/*
	 * This waits for running kernels.  The comm has made sure that none of its own is running.
	 */
	while (gpu->nmodules)
		(void)gpu->cu->cuModuleUnload(gpu->modules[--gpu->nmodules]);
	gpu->nfunctions = 0;
}

void *ori_cuda_images_find(struct ori_cuda_gpu *gpu, const char *function)
{
	void *found = NULL;

	/* The newest first, because a program may bring its own version of a kernel. */
	for (int i = gpu->nmodules - 1; i >= 0; i--)
		if (!gpu->cu->cuModuleGetFunction(&found, gpu->modules[i], function))
			return found;
	return NULL;
}

/* ---- added by the program -------------------------------------------------------------------- */

static int load_added(struct ori_cuda_gpu *gpu, void *image)
{
	struct ori_cuda_scope scope;
	int err = ori_cuda_enter(gpu, &scope);

	if (err)
		return err;
	pthread_mutex_lock(&gpu->lock);
	err = load(gpu, image, "the program's");
	if (err == ORIEL_EUNSUPPORTED)
		err = ori_fail(err, "oriel_kernels_add: the image has no code for GPU %d",
			       gpu->ordinal);
	pthread_mutex_unlock(&gpu->lock);
	ori_cuda_leave(&scope);
	return err;
}

/* cubin and relocatable ELF, fatbin, or PTX, which is text with a final 0. */
static int looks_right(const unsigned char *image, size_t bytes)
{
	static const unsigned char fatbin[] = { 0x50, 0xed, 0x55, 0xba };

	if (bytes < 16)
		return 0;
	return !memcmp(image, "\177ELF", 4) || !memcmp(image, fatbin, sizeof(fatbin)) ||
	       !memchr(image, 0, bytes - 1);
}

static int remember(const void *data, size_t bytes, int *known)
{
	int err = 0;

	pthread_mutex_lock(&images_lock);
	for (int i = 0; i < nimages; i++)
		*known |= images[i].data == data;
	if (!*known && nimages == ORI_CUDA_IMAGES_MAX - 1)
		err = ori_fail(ORIEL_ERANGE, "oriel_kernels_add: more than %d images",
			       ORI_CUDA_IMAGES_MAX - 1);
	else if (!*known)
		images[nimages++] = (struct image){ .data = data, .bytes = bytes };
	pthread_mutex_unlock(&images_lock);
	return err;
}

static void forget(const void *data)
{
	pthread_mutex_lock(&images_lock);
	for (int i = 0; i < nimages; i++)
		if (images[i].data == data)
			images[i] = images[--nimages];
	pthread_mutex_unlock(&images_lock);
}

/*
 * A GPU opened between remember() and the loop loads the image twice.  This only costs memory,
 * because the newest module is found first.
 */
int ori_cuda_images_add(const void *image, size_t bytes)
{
	int known = 0, err;

	if (!image || !looks_right(image, bytes))
		return ori_fail(ORIEL_EINVAL,
				"oriel_kernels_add: %zu bytes at %p are no fatbin, cubin or PTX",
				bytes, image);
	err = remember(image, bytes, &known);
	if (err || known)
		return err;
	err = ori_cuda_gpus_each(load_added, (void *)(uintptr_t)image);
	if (err)
		forget(image);
	return err;
}
