/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * src/bitcode/device.cu - the device API as LLVM bitcode with scalar arguments, for Triton.
 *
 * clang compiles this file to liboriel_device_sm80.bc and liboriel_device_sm90.bc (bitcode.cmake).
 * Triton links it into kernels that call the functions of python/oriel/triton.  Every extern is
 * named oriel_triton_<call> and takes int and int64_t only.  Bodies are those of oriel/device.h;
 * nothing is implemented twice.
 */
#include "cuda_names.h"

/*
 * Triton's shared memory comes behind that of the calls, without an alignment of its own.  Its
 * matrix products need a multiple of 1024: the hardware permutes 128-byte rows by the address.
 */
#define ORI_BLOCK_WORDS_ALIGN 1024
#include <oriel/device.h>

#include "coll.h"
#include "data.h"
#include "mapped.h"
#include "words.h"
