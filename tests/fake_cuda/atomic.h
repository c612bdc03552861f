/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/atomic.h - included before all else (-include) into sources of kernels: every atomic
 * that they make is shown to the fake driver first, which knows where a GPU has none (knob
 * atomics).
 */
#ifndef ORI_FAKE_ATOMIC_H
#define ORI_FAKE_ATOMIC_H

void fake_cuda_atomic(const void *word);

#define ORI_ATOMIC_LOOK(word) fake_cuda_atomic(word)

#endif
