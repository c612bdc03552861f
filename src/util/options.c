/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/options.c - option structs that begin with their size and can grow.
 *
 * Owns the rule for structs of older and newer programs (docs/decisions/0036).  Callers know what
 * the fields mean.  Called on any thread, by calls that take options.
 */
#include <string.h>

#include "options.h"
#include "util.h"

static int is_zero(const unsigned char *bytes, size_t n)
{
	size_t i = 0;

	while (i < n && !bytes[i])
		i++;
	return i == n;
}

/*
 * Every struct is a whole number of words and has a field besides `size`.  Any other size was not
 * set by sizeof, so the rest of the struct is not set either.
 */
static int is_possible(size_t bytes)
{
	return bytes > sizeof(size_t) && bytes % sizeof(size_t) == 0 && bytes <= ORI_OPTIONS_MAX;
}

int ori_options_take(const char *call, const char *remedy, const void *given, void *own,
		     size_t own_bytes)
{
	const unsigned char *from = given;
	size_t bytes;

	memcpy(&bytes, from, sizeof(bytes));
	if (!is_possible(bytes))
		return ori_fail(ORIEL_EINVAL,
				"%s: the struct of options has size %zu, the library's has %zu: use %s",
				call, bytes, own_bytes, remedy);
	if (bytes > own_bytes && !is_zero(from + own_bytes, bytes - own_bytes))
		return ori_fail(ORIEL_EINVAL,
				"%s: an option is set that this library does not know (the program's "
				"struct has %zu bytes, the library's %zu): leave it 0 or use a newer "
				"liboriel",
				call, bytes, own_bytes);
	if (bytes > own_bytes)
		bytes = own_bytes;
	memcpy((unsigned char *)own + sizeof(bytes), from + sizeof(bytes), bytes - sizeof(bytes));
	return 0;
}
