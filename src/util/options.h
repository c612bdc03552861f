/* SPDX-License-Identifier: BSD-3-Clause */
/* util/options.h - option structs of users, which begin with their size and can grow. */
#ifndef ORI_OPTIONS_H
#define ORI_OPTIONS_H

#include <stddef.h>

/* The largest size of an option struct, for all time.  A larger `size` was never set by sizeof. */
#define ORI_OPTIONS_MAX 4096

/*
 * Reads a struct that the program may have compiled with an older or a newer header.
 *
 * `own` holds the defaults and has own_bytes bytes.  Fields that `given` has replace them.  Fields
 * that only this library knows keep the default.  Fields that only the program knows must be 0.
 * own->size stays own_bytes.  On failure `own` is unchanged.  The status is ORIEL_EINVAL, and a log
 * line names the call, both sizes and `remedy` (how the program sets the size).
 */
int ori_options_take(const char *call, const char *remedy, const void *given, void *own,
		     size_t own_bytes);

/* A new field must make the struct larger, so no padding at its end may become a field. */
#define ORI_OPTIONS_NO_PADDING(type, last)                                                         \
	_Static_assert(sizeof(type) == offsetof(type, last) + sizeof(((type *)0)->last) &&         \
			       sizeof(type) % sizeof(size_t) == 0,                                 \
		       #type ": name the bytes at its end")

#endif
