/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxied/times.c - measures the time from doorbell to post.
 *
 * Stands between the proxy and the fabric's posts, and reads the clock at the first post of a step.
 * The time starts when the doorbell may have been rung at the earliest (drive.c).  Called within
 * ori_proxy_step().
 */
#include "../../util/util.h"
#include "proxied.h"

static struct ori_fabric *note(void *ctx)
{
	struct proxied_nic *n = ctx;
	struct proxied_engine *e = n->engine;
	struct proxied_times *t = &e->times;
	uint64_t ns;

	if (!e->began_ns)
		return n->fabric;
	ns = ori_now_ns() - e->began_ns;
	e->began_ns = 0;
	t->count++;
	t->sum_ns += ns;
	t->slow += ns >= PROXIED_SLOW_NS;
	return n->fabric;
}

static int post_write(void *ctx, const struct ori_proxy_op *op)
{
	struct ori_fabric *f = note(ctx);

	return f->ops->posts.post_write(f, op);
}

static int post_write_inline(void *ctx, const struct ori_proxy_op *op)
{
	struct ori_fabric *f = note(ctx);

	return f->ops->posts.post_write_inline(f, op);
}

static int post_read(void *ctx, const struct ori_proxy_op *op)
{
	struct ori_fabric *f = note(ctx);

	return f->ops->posts.post_read(f, op);
}

static int post_fetch_add(void *ctx, const struct ori_proxy_op *op)
{
	struct ori_fabric *f = note(ctx);

	return f->ops->posts.post_fetch_add(f, op);
}

static int post_compare_swap(void *ctx, const struct ori_proxy_op *op)
{
	struct ori_fabric *f = note(ctx);

	return f->ops->posts.post_compare_swap(f, op);
}

static void submit(void *ctx)
{
	struct ori_fabric *f = ((struct proxied_nic *)ctx)->fabric;

	f->ops->posts.submit(f);
}

static int progress(void *ctx, struct ori_proxy_completion *out, int room)
{
	struct ori_fabric *f = ((struct proxied_nic *)ctx)->fabric;

	return f->ops->posts.progress(f, out, room);
}

static void flush(void *ctx, void *link)
{
	struct ori_fabric *f = ((struct proxied_nic *)ctx)->fabric;

	f->ops->posts.flush(f, link);
}

/* The proxy has defaults for functions that the fabric does not have. */
struct ori_proxy_backend ori_proxied_backend(const struct ori_fabric *fabric)
{
	const struct ori_proxy_backend *p = &fabric->ops->posts;
	struct ori_proxy_backend b = {
		.post_write = p->post_write ? post_write : NULL,
		.post_write_inline = p->post_write_inline ? post_write_inline : NULL,
		.post_read = p->post_read ? post_read : NULL,
		.post_fetch_add = p->post_fetch_add ? post_fetch_add : NULL,
		.post_compare_swap = p->post_compare_swap ? post_compare_swap : NULL,
		.submit = p->submit ? submit : NULL,
		.progress = p->progress ? progress : NULL,
		.flush = p->flush ? flush : NULL,
	};

	return b;
}
