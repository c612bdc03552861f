/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/atomic.h - included before all else (-include) into sources of kernels.
 *
 * Every atomic of these sources is reported to the fake driver first.  The driver knows for which
 * memory a GPU has no atomics (knob atomics).
 */
#ifndef ORI_FAKE_ATOMIC_H
#define ORI_FAKE_ATOMIC_H

void fake_cuda_atomic(const void *word);

#define ORI_ATOMIC_LOOK(word) fake_cuda_atomic(word)

#endif
