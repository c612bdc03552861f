/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/uverbs/objects.c - open descriptors, and the table of handles that each one has.
 */
#include <stdlib.h>
#include <unistd.h>

#include "uverbs.h"

uint32_t uv_add(struct uv_file *file, enum uv_kind kind, struct uv_object *object)
{
	static uint32_t last;

	object->handle = ++last;
	object->next = file->objects[kind];
	file->objects[kind] = object;
	return object->handle;
}

void *uv_find(const struct uv_file *file, enum uv_kind kind, uint64_t handle)
{
	struct uv_object *object = file->objects[kind];

	while (object && object->handle != handle)
		object = object->next;
	return object;
}

void uv_forget(struct uv_file *file, enum uv_kind kind, struct uv_object *object)
{
	struct uv_object **at = &file->objects[kind];

	while (*at != object)
		at = &(*at)->next;
	*at = object->next;
}

struct uv_file *uv_open(int number)
{
	struct uv_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->process = getpid();
	file->number = number;
	file->device = &stub.devices[number];
	file->event_in = file->event_out = -1;
	return file;
}

static void drop(enum uv_kind kind, void *object)
{
	if (kind == UV_OBJECT)
		uv_devx_drop(object);
	else if (kind == UV_QP)
		uv_qp_drop(object);
	else if (kind == UV_CQ)
		uv_cq_drop(object);
	else if (kind == UV_CHANNEL)
		uv_channel_drop(object);
	else if (kind == UV_UAR)
		uv_uar_drop(object);
	else if (kind == UV_MR)
		uv_mr_drop(object);
	else if (kind == UV_AH)
		uv_ah_drop(object);
	else
		free(object);
}

/* Users of objects stand behind them in enum uv_kind. */
void uv_close(struct uv_file *file)
{
	stub_lock();
	for (int kind = UV_KINDS - 1; kind >= 0; kind--)
		while (file->objects[kind]) {
			struct uv_object *object = file->objects[kind];

			file->objects[kind] = object->next;
			drop((enum uv_kind)kind, object);
		}
	stub_unlock();
	if (file->event_in >= 0)
		close(file->event_in);
	if (file->event_out >= 0)
		close(file->event_out);
	if (file->up)
		stub_down();
	free(file);
}
