/* SPDX-License-Identifier: BSD-3-Clause */
/* cxx.cpp - a C++ program: variables with constructors, the header, and its overload. */
#include <complex>
#include <string>

#include "../pe.h"

static std::string name = "built before main";
static long words[10];

struct holder {
	static long inside;
	long own;
	holder() : own(12)
	{
	}
};
long holder::inside = 3;
static holder object;

int main()
{
	shmem_init();
	int me = shmem_my_pe(), npes = shmem_n_pes(), next = (me + 1) % npes;
	int before = (me + npes - 1) % npes;

	CHECK(name == "built before main");
	CHECK_EQ(holder::inside, 3);
	CHECK_EQ(object.own, 12);
	shmem_barrier_all();
	shmem_long_p(&holder::inside, 50 + me, next);
	shmem_long_p(&object.own, 60 + me, next);
	shmem_long_p(&words[9], 70 + me, next);
	shmem_barrier_all();
	CHECK_EQ(holder::inside, 50 + before);
	CHECK_EQ(object.own, 60 + before);
	CHECK_EQ(words[9], 70 + before);
	name += ", changed after the move to memory that is longer than before";
	CHECK_EQ(name.size(), 78);
	shmem_finalize();
	return 0;
}
