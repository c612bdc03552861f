/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which driver calls wait for a kernel that runs?  One kernel spins 150 ms on a stream of its own, another thread
 * launches and queries on a second stream all the time; 3 ms later the call is made and timed.  calls.txt is what it
 * printed: nvcc -arch=sm_90 -cubin -o blocks.cubin calls.cu; nvcc -arch=sm_90 -o blocks calls.cu -lcuda -lpthread; ./blocks
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>
#include <sys/mman.h>
#define CK(x)                                                                                      \
	do {                                                                                       \
		CUresult e_ = (x);                                                                 \
		if (e_) {                                                                          \
			const char *s;                                                             \
			cuGetErrorString(e_, &s);                                                  \
			fprintf(stderr, "%d: %s: %s\n", __LINE__, #x, s);                          \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
extern "C" __global__ void hold(volatile int *stop, unsigned long long ns)
{
	unsigned long long t0, t;
	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t0));
	do {
		asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
	} while (!*stop && t - t0 < ns);
}
extern "C" __global__ void quick(int *x)
{
	if (x)
		*x = 1;
}
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}
static CUcontext ctx;
static CUdevice dev;
static CUfunction fh, fq;
static CUstream sh, sq, spare;
static volatile int *stop;
static volatile int run;
static double worst;
static void *launcher(void *a)
{
	CK(cuCtxSetCurrent(ctx));
	int *z = NULL;
	void *p[] = { &z };
	while (run) {
		double t = now();
		CK(cuLaunchKernel(fq, 1, 1, 1, 32, 1, 1, 0, sq, p, NULL));
		while (cuStreamQuery(sq) == CUDA_ERROR_NOT_READY)
			;
		t = now() - t;
		if (run == 2 && t > worst)
			worst = t;
		usleep(200);
	}
	return NULL;
}
static CUmemAllocationProp prop;
static CUmemAccessDesc acc;
static void begin(void)
{
	*stop = 0;
	unsigned long long ns = 150000000ull;
	void *p[] = { (void *)&stop, &ns };
	CK(cuLaunchKernel(fh, 1, 1, 1, 32, 1, 1, 0, sh, p, NULL));
	usleep(3000);
	worst = 0;
	run = 2;
}
static void end(const char *what, double t)
{
	run = 1;
	*stop = 1;
	CK(cuStreamSynchronize(sh));
	printf("%-34s %9.1f us%s   other thread's launch + query at worst %9.1f us\n", what, t,
	       t > 100000 ? " WAITS" : "      ", worst);
	fflush(stdout);
}
#define T(what, call)                                                                              \
	do {                                                                                       \
		begin();                                                                           \
		double t_ = now();                                                                 \
		CUresult r_ = (call);                                                              \
		t_ = now() - t_;                                                                   \
		end(what, t_);                                                                     \
		if (r_)                                                                            \
			printf("   error %d\n", r_);                                               \
	} while (0)
int main(void)
{
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CK(cuCtxSetCurrent(ctx));
	CUmodule m, m2;
	CK(cuModuleLoad(&m, "blocks.cubin"));
	CK(cuModuleGetFunction(&fh, m, "hold"));
	CK(cuModuleGetFunction(&fq, m, "quick"));
	CK(cuStreamCreateWithPriority(&sh, CU_STREAM_NON_BLOCKING, 0));
	CK(cuStreamCreateWithPriority(&sq, CU_STREAM_NON_BLOCKING, 0));
	void *h;
	CK(cuMemHostAlloc(&h, 4096, 3));
	stop = (volatile int *)h;
	*stop = 0;
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = dev;
	prop.allocFlags.gpuDirectRDMACapable = 1;
	acc.location = prop.location;
	acc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	size_t N = 32 << 20;
	CUmemGenericAllocationHandle mh, mi;
	CUdeviceptr a, b, d;
	int fd;
	void *hm = mmap(NULL, N, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(hm, 0, N);
	pthread_t th;
	run = 1;
	pthread_create(&th, NULL, launcher, NULL);
	usleep(20000);
	for (int k = 0; k < 2; k++) {
		if (k)
			printf("-- again\n");
		T("(nothing)", CUDA_SUCCESS);
		T("cuStreamCreateWithPriority",
		  cuStreamCreateWithPriority(&spare, CU_STREAM_NON_BLOCKING, 0));
		{
			int *z = NULL;
			void *p[] = { &z };
			T("first cuLaunchKernel on a stream",
			  cuLaunchKernel(fq, 1, 1, 1, 32, 1, 1, 0, spare, p, NULL));
		}
		T("cuMemHostRegister 32 MiB", cuMemHostRegister(hm, N, 3));
		T("cuMemCreate 32 MiB", cuMemCreate(&mh, N, &prop, 0));
		T("cuMemAddressReserve", cuMemAddressReserve(&a, N, 0, 0, 0));
		T("cuMemMap", cuMemMap(a, N, 0, mh, 0));
		T("cuMemSetAccess", cuMemSetAccess(a, N, &acc, 1));
		T("cuMemsetD8Async 32 MiB", cuMemsetD8Async(a, 0, N, spare));
		T("cuMemcpyAsync 4 KiB", cuMemcpyAsync(a, (CUdeviceptr)hm, 4096, spare));
		T("cuMemExportToShareableHandle",
		  cuMemExportToShareableHandle(&fd, mh, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					       0));
		T("cuMemImportFromShareableHandle",
		  cuMemImportFromShareableHandle(&mi, (void *)(long)fd,
						 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
		CK(cuMemAddressReserve(&b, N, 0, 0, 0));
		CK(cuMemMap(b, N, 0, mi, 0));
		CK(cuMemSetAccess(b, N, &acc, 1));
		T("cuMemRelease (mapped)", cuMemRelease(mi));
		CK(cuMemRelease(mh));
		T("cuMemUnmap of the import", cuMemUnmap(b, N));
		T("cuMemAddressFree", cuMemAddressFree(b, N));
		T("cuMemUnmap of the last", cuMemUnmap(a, N));
		begin();
		{
			double t = now();
			close(fd);
			end("close of the descriptor", now() - t);
		}
		CK(cuMemAddressFree(a, N));
		T("cuMemHostUnregister 32 MiB", cuMemHostUnregister(hm));
		T("cuStreamDestroy", cuStreamDestroy(spare));
		T("cuModuleLoad", cuModuleLoad(&m2, "blocks.cubin"));
		T("cuModuleUnload", cuModuleUnload(m2));
		T("cuMemHostAlloc 1 MiB", cuMemHostAlloc(&h, 1 << 20, 3));
		T("cuMemFreeHost", cuMemFreeHost(h));
		T("cuMemAlloc 32 MiB", cuMemAlloc(&d, N));
		T("cuMemFree", cuMemFree(d));
	}
	run = 0;
	pthread_join(th, NULL);
	return 0;
}
