/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mlx5_stub/wires.c - a file in which the NICs of several processes meet; all processes map
 * it.
 *
 * The file has a table of places with their owners, and one ring for each direction between two
 * places.  A lock on the first byte of the file guards the table.  A lock on byte 1 + place says
 * that the place is taken; the kernel releases it when the process ends.  The first of two NICs
 * that needs the rings of the pair empties them.  The last process removes the file.
 *
 * Called by nic.c under stub.lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nics.h"

struct wires_pair {
	uint64_t low, high; /* starts of the two for whom the rings were emptied */
};

struct wires {
	uint64_t starts; /* counts whoever takes a place */
	uint64_t last;   /* place taken last: the next is looked for behind it */
	uint64_t start[STUB_PLACES];
	struct wires_pair pair[STUB_DEVICES][STUB_PLACES][STUB_PLACES]; /* [lower][higher] */
};

#define HEAD_BYTES 32768u
#define RING_BYTES ((sizeof(struct soft_ring) + 4095) & ~(size_t)4095)
#define FILE_BYTES (HEAD_BYTES + STUB_DEVICES * STUB_PLACES * STUB_PLACES * RING_BYTES)

_Static_assert(sizeof(struct wires) <= HEAD_BYTES, "the table fits");

static struct wires *wires;
static int fd = -1;    /* -1: alone */
static int place = -1; /* -1: none */

static int lock_byte(int kind, int at, int wait)
{
	struct flock f = { .l_type = (short)kind, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };
	int err;

	do
		err = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &f);
	while (err && errno == EINTR);
	return err ? errno : 0;
}

static void table_lock(void)
{
	if (fd >= 0 && lock_byte(F_WRLCK, 0, 1))
		abort();
}

static void table_unlock(void)
{
	if (fd >= 0)
		(void)lock_byte(F_UNLCK, 0, 0);
}

/* Opened and its table locked; again if the last of the others has just removed it. */
static int open_file(const char *path)
{
	struct stat st;

	for (;;) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			return errno;
		table_lock();
		if (!fstat(fd, &st) && st.st_nlink && !ftruncate(fd, (off_t)FILE_BYTES))
			return 0;
		close(fd);
		fd = -1;
	}
}

static int claim(void)
{
	for (int i = 1; i <= STUB_PLACES; i++) {
		int at = (int)((wires->last + (uint64_t)i) % STUB_PLACES);

		if (fd >= 0 && lock_byte(F_WRLCK, 1 + at, 0))
			continue;
		place = at;
		wires->last = (uint64_t)at;
		wires->start[at] = ++wires->starts;
		return 0;
	}
	return EUSERS;
}

int stub_place_take(void)
{
	const char *path = getenv("MLX5_STUB_WIRE");
	int err = path ? open_file(path) : 0;

	if (err)
		return err;
	wires = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE,
		     fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED, fd, 0);
	if (wires == MAP_FAILED) {
		err = errno;
		wires = NULL;
	} else {
		err = claim();
	}
	table_unlock();
	if (err)
		stub_place_give();
	return err;
}

static int is_last(void)
{
	for (int i = 0; i < STUB_PLACES; i++) {
		struct flock f = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1 + i, .l_len = 1
		};

		if (fcntl(fd, F_OFD_GETLK, &f) || f.l_type != F_UNLCK)
			return 0;
	}
	return 1;
}

void stub_place_give(void)
{
	table_lock();
	if (fd >= 0 && place >= 0)
		(void)lock_byte(F_UNLCK, 1 + place, 0);
	if (fd >= 0 && is_last())
		(void)unlink(getenv("MLX5_STUB_WIRE"));
	table_unlock();
	if (wires)
		munmap(wires, FILE_BYTES);
	if (fd >= 0)
		close(fd);
	wires = NULL;
	fd = place = -1;
}

int stub_place(void)
{
	return place;
}

static struct soft_ring *ring_at(int device, int from, int to)
{
	size_t n = ((size_t)device * STUB_PLACES + (size_t)from) * STUB_PLACES + (size_t)to;

	return (struct soft_ring *)(void *)((uint8_t *)wires + HEAD_BYTES + n * RING_BYTES);
}

int stub_wire(int device, int other, struct soft_ring **in, struct soft_ring **out, uint64_t *start)
{
	int low = other < place ? other : place, high = other < place ? place : other;
	struct wires_pair *pair = &wires->pair[device][low][high];

	*in = ring_at(device, other, place);
	*out = ring_at(device, place, other);
	table_lock();
	*start = wires->start[other];
	if (pair->low != wires->start[low] || pair->high != wires->start[high]) {
		soft_ring_init(*in);
		soft_ring_init(*out);
		pair->low = wires->start[low];
		pair->high = wires->start[high];
	}
	table_unlock();
	return *start ? 0 : EHOSTUNREACH;
}
