/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * globals.c - global and static variables of the program as symmetric memory.
 *
 * The program's writable segments (.data and .bss) get a second view of window memory laid over
 * them: the bytes are copied into the window, then mremap() with an old size of 0 maps the window's
 * pages at the segment's addresses.  So the variables keep their addresses and values, and peers
 * reach them.  The pages stay shared: a child of fork() writes the variables of its parent.
 *
 * Segments are those of the program and of the libraries that it was linked with.  Libraries of
 * the system, of Oriel, and those loaded by dlopen() are left out.
 *
 * Another thread may write a variable during the move.  The segment is read-only meanwhile, and
 * that thread waits in the handler of SIGSEGV until the new pages are there.
 *
 * In a program that is linked with the static libraries, the variables of Oriel itself are among
 * these pages.  Such a program works, but must not call fork(): the child would change them.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "globals.h"
#include "osh.h"

/*
 * Libraries of the system and of this project, by the beginning of their names.  A program has no
 * use for their variables, and their own threads may write them at any time.
 */
static const char *const left_out[] = {
	"ld-linux",  "ld64.so",     "ld-musl",     "linux-vdso", "libc.so",   "libm.so",
	"libmvec",   "libpthread",  "libdl.so",    "librt.so",   "libresolv", "libutil.so",
	"libanl.so", "libgcc_s",    "libstdc++",   "libc++",     "libatomic", "libgomp",
	"libomp.so", "libgfortran", "libquadmath", "libasan",    "libtsan",   "libubsan",
	"liblsan",   "libnuma",     "libpmix",     "liboriel",
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int is_left_out(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
		if (!strncmp(name, left_out[i], strlen(left_out[i])))
			return 1;
	return 0;
}

/* ---- the objects of this process ------------------------------------------------------------- */

typedef ElfW(Addr) elf_address;
typedef ElfW(Phdr) elf_header;
typedef ElfW(Dyn) elf_dynamic;

struct object {
	const char *name; /* file name without folders; "" for the program */
	elf_address base;
	const elf_header *headers;
	int nheaders;
	int linked; /* needed by the program, directly or not */
};

#define OBJECTS_MAX 512

struct objects {
	struct object object[OBJECTS_MAX];
	int n;
};

static int note_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct objects *all = arg;
	struct object *o;

	(void)bytes;
	if (all->n == OBJECTS_MAX)
		return 1;
	o = &all->object[all->n];
	/* The program is the first one. */
	o->name = all->n ? base_name(info->dlpi_name) : "";
	o->base = info->dlpi_addr;
	o->headers = info->dlpi_phdr;
	o->nheaders = info->dlpi_phnum;
	o->linked = all->n == 0;
	all->n++;
	return 0;
}

static const elf_header *header_of(const struct object *o, uint32_t type)
{
	int i;

	for (i = 0; i < o->nheaders; i++)
		if (o->headers[i].p_type == type)
			return &o->headers[i];
	return NULL;
}

static void mark_linked(struct objects *all, struct object *o);

static void mark_name(struct objects *all, const char *name)
{
	int i;

	for (i = 0; i < all->n; i++)
		if (!all->object[i].linked && !strcmp(all->object[i].name, name)) {
			all->object[i].linked = 1;
			mark_linked(all, &all->object[i]);
		}
}

/* Marks what an object needs, and what that needs. */
static void mark_linked(struct objects *all, struct object *o)
{
	const elf_header *header = header_of(o, PT_DYNAMIC);
	const elf_dynamic *first, *d;
	elf_address strings = 0;

	if (!header)
		return;
	first = (const elf_dynamic *)(o->base + header->p_vaddr);
	for (d = first; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB)
			strings = d->d_un.d_ptr;
	/* Some loaders leave the address as it is in the file. */
	if (strings < o->base)
		strings += o->base;
	for (d = first; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_NEEDED)
			mark_name(all, base_name((const char *)(strings + d->d_un.d_val)));
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Whole pages of a writable part.  What the loader made read-only after its work is left out. */
static void add_segment(struct osh_globals *g, const struct object *o, const elf_header *part)
{
	const elf_header *relro = header_of(o, PT_GNU_RELRO);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end, sealed;
	struct osh_segment *s;
	uintptr_t start = (o->base + part->p_vaddr) & ~(page - 1);

	end = (o->base + part->p_vaddr + part->p_memsz + page - 1) & ~(page - 1);
	if (relro) {
		sealed = (o->base + relro->p_vaddr + relro->p_memsz) & ~(page - 1);
		if (o->base + relro->p_vaddr < end && sealed > start)
			start = sealed;
	}
	if (start >= end)
		return;
	if (g->n == OSH_SEGMENTS_MAX)
		osh_fail("shmem_init", "the program has variables in more than %d libraries",
			 OSH_SEGMENTS_MAX);
	s = &g->segment[g->n++];
	s->start = start;
	s->bytes = end - start;
	s->zeros = (o->base + part->p_vaddr + part->p_filesz + page - 1) & ~(page - 1);
	s->zeros = s->zeros < end ? s->zeros : end;
	s->name = *o->name ? o->name : "the program";
	g->bytes += s->bytes;
}

void osh_globals_find(struct osh_globals *g)
{
	struct objects *all = calloc(1, sizeof(*all));
	int i, h;

	if (!all)
		osh_fail("shmem_init", "no memory for the list of libraries");
	g->n = 0;
	g->bytes = 0;
	dl_iterate_phdr(note_object, all);
	if (all->n)
		mark_linked(all, &all->object[0]);
	for (i = 0; i < all->n; i++) {
		const struct object *o = &all->object[i];

		for (h = 0; o->linked && !is_left_out(o->name) && h < o->nheaders; h++)
			if (o->headers[h].p_type == PT_LOAD && o->headers[h].p_flags & PF_W)
				add_segment(g, o, &o->headers[h]);
	}
	free(all);
}

/* ---- the move -------------------------------------------------------------------------------- */

/*
 * What is moved, and the segment that is moved now.  Only the moving thread writes these, and never
 * while pages are read-only.
 */
static struct osh_globals moving;
static volatile uintptr_t moving_start, moving_end;

static struct sigaction before;

static int is_moving(uintptr_t at)
{
	return at >= moving_start && at < moving_end;
}

/*
 * A thread that writes to the segment waits here, then its store is executed again.  The move may
 * also have ended between the fault and this call.  So the handler stays after the move.  Each
 * thread can come so late once; a program that protects its variables itself comes again and again.
 */
#define LATE_FAULTS 10000

static void wait_for_move(int sig, siginfo_t *info, void *context)
{
	static int late;
	uintptr_t at = (uintptr_t)info->si_addr;
	int i;

	(void)context;
	while (is_moving(at))
		sched_yield();
	for (i = 0; i < moving.n; i++)
		if (at - moving.segment[i].start < moving.segment[i].bytes &&
		    __atomic_fetch_add(&late, 1, __ATOMIC_RELAXED) < LATE_FAULTS)
			return;
	/* A fault of the program: it comes again, with the handler of before. */
	sigaction(sig, &before, NULL);
}

/*
 * The window's pages are zeros.  Words of zeros are not written, so a large .bss takes memory only
 * where it is used.  AddressSanitizer keeps forbidden bytes between variables: they move too.
 */
__attribute__((noinline, no_sanitize("address"), no_sanitize("thread"))) static void copy_page(
	uint8_t *to, uintptr_t from, uint64_t page)
{
	const volatile uint64_t *source = (const volatile uint64_t *)from;
	uint64_t *dest = (uint64_t *)(void *)to, i, word;

	for (i = 0; i < page / 8; i++) {
		word = source[i];
		if (word)
			dest[i] = word;
	}
}

#define MAP_ENTRIES 256
#define MAP_USED (3ull << 62) /* the page is in memory or swapped out */

/*
 * Notes which of `n` pages were ever used; `map` is /proc/self/pagemap, or -1.  If the kernel does
 * not tell, all of them.
 */
static void find_used(int map, uintptr_t at, uint64_t page, uint64_t n, uint64_t *used)
{
	ssize_t want = (ssize_t)(n * sizeof(*used)), got = -1;

	if (map >= 0)
		got = pread(map, used, (size_t)want, (off_t)(at / page * sizeof(*used)));
	if (got != want)
		memset(used, 0xff, (size_t)want);
}

/* Reading pages of .bss that were never used would take longer than all the rest. */
static void copy_segment(uint8_t *to, const struct osh_segment *s, uint64_t page, int map)
{
	uint64_t used[MAP_ENTRIES] = { 0 }, i, n;
	uintptr_t at = s->start, end = s->start + s->bytes;

	for (; at < s->zeros; at += page, to += page)
		copy_page(to, at, page);
	for (; at < end; at += n * page, to += n * page) {
		n = (end - at) / page < MAP_ENTRIES ? (end - at) / page : MAP_ENTRIES;
		find_used(map, at, page, n, used);
		for (i = 0; i < n; i++)
			if (used[i] & MAP_USED)
				copy_page(to + i * page, at + i * page, page);
	}
}

/* Returns 0 or an errno.  If it fails, the segment is as before. */
static int move_segment(const struct osh_segment *s, uint8_t *memory, int map)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	void *start = (void *)s->start;
	int error = 0;

	moving_end = s->start + s->bytes;
	moving_start = s->start;
	if (mprotect(start, s->bytes, PROT_READ)) {
		error = errno;
	} else {
		copy_segment(memory, s, page, map);
		if (mremap(memory, 0, s->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, start) != start) {
			error = errno;
			mprotect(start, s->bytes, PROT_READ | PROT_WRITE);
		}
	}
	moving_end = 0;
	return error;
}

void osh_globals_move(const struct osh_globals *g, uint8_t *memory)
{
	struct sigaction wait = { .sa_flags = SA_SIGINFO | SA_RESTART }, now;
	static int moved;
	int i, error = 0, map = -1;

	/* After the first move .bss is a view of shared pages, and the map tells less about it. */
	if (!moved)
		map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	moved = 1;
	moving = *g;
	wait.sa_sigaction = wait_for_move;
	sigemptyset(&wait.sa_mask);
	sigaction(SIGSEGV, &wait, &now);
	if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != wait_for_move)
		before = now;
	for (i = 0; i < g->n && !error; i++) {
		error = move_segment(&g->segment[i], memory, map);
		memory += g->segment[i].bytes;
	}
	if (map >= 0)
		close(map);
	if (error)
		osh_fail("shmem_init", "cannot make the variables of %s symmetric: %s",
			 g->segment[i - 1].name, strerror(error));
}
