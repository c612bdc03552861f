/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/compile/every_call_cpp.cpp - every_call.h as C++. */
#include "every_call.h"

extern "C" const struct oriel_kernel *every_call_cpp(void)
{
	return &every_call;
}
