/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/compile/every_call_c.c - every_call.h as C. */
#include "every_call.h"

const struct oriel_kernel *every_call_c(void);

const struct oriel_kernel *every_call_c(void)
{
	return &every_call;
}
