/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/driver.h - Oriel's own declarations of the CUDA driver API that it calls.
 *
 * The library is built without CUDA headers and linked to no CUDA library: driver.c finds the
 * functions at run time.  These declarations are a binary interface and never change.
 * tests/unit/cuda_abi.cpp compares them with cuda.h where that is installed.  Fields have the
 * driver's names without the version suffix of the symbol, so that one can search its manual for
 * them.
 *
 * Everything here may be called on any thread.
 */
#ifndef ORI_CUDA_DRIVER_H
#define ORI_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* ---- types ----------------------------------------------------------------------------------- */

typedef int ori_cu_result;             /* CUresult */
typedef int ori_cu_device;             /* CUdevice */
typedef unsigned long long ori_cu_ptr; /* CUdeviceptr */
typedef unsigned long long ori_cu_mem; /* CUmemGenericAllocationHandle */
/* CUcontext, CUstream, CUmodule, CUfunction are pointers: void * here. */

struct ori_cu_ipc { /* CUipcMemHandle */
	char reserved[64];
};

struct ori_cu_fabric { /* CUmemFabricHandle */
	unsigned char data[64];
};

struct ori_cu_uuid { /* CUuuid */
	char bytes[16];
};

struct ori_cu_location { /* CUmemLocation */
	int32_t type;
	int32_t id;
};

struct ori_cu_prop { /* CUmemAllocationProp */
	int32_t type;
	int32_t handle_types;
	struct ori_cu_location location;
	void *win32;
	unsigned char compression;
	unsigned char gpudirect_rdma;
	unsigned short usage;
	unsigned char reserved[4];
};

struct ori_cu_access { /* CUmemAccessDesc */
	struct ori_cu_location location;
	int32_t flags;
};

struct ori_cu_copy_attributes { /* CUmemcpyAttributes */
	int32_t source_order;
	struct ori_cu_location from, to;
	uint32_t flags;
};

/* X(ours, the driver's, value) */
#define ORI_CU_CONSTANTS(X)                                                                        \
	X(ORI_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, 1)                                       \
	X(ORI_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, 2)                                       \
	X(ORI_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE, 100)                                             \
	X(ORI_CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, 201)                                 \
	X(ORI_CU_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                     \
	X(ORI_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND, 500)                                             \
	X(ORI_CU_NOT_READY, CUDA_ERROR_NOT_READY, 600)                                             \
	X(ORI_CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                 \
	X(ORI_CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED, 4)                                       \
	X(ORI_CU_ECC, CUDA_ERROR_ECC_UNCORRECTABLE, 214)                                           \
	X(ORI_CU_NVLINK, CUDA_ERROR_NVLINK_UNCORRECTABLE, 220)                                     \
	X(ORI_CU_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT, 702)                                   \
	X(ORI_CU_CONTEXT_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)                          \
	X(ORI_CU_ASSERT, CUDA_ERROR_ASSERT, 710)                                                   \
	X(ORI_CU_HARDWARE_STACK, CUDA_ERROR_HARDWARE_STACK_ERROR, 714)                             \
	X(ORI_CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED, 719)                                     \
	X(ORI_CU_MPS_CONNECTION, CUDA_ERROR_MPS_CONNECTION_FAILED, 805)                            \
	X(ORI_CU_MPS_RPC, CUDA_ERROR_MPS_RPC_FAILURE, 806)                                         \
	X(ORI_CU_ALREADY_PINNED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)                   \
	X(ORI_CU_UNKNOWN, CUDA_ERROR_UNKNOWN, 999)                                                 \
	X(ORI_CU_DEV_MAX_THREADS, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)                    \
	X(ORI_CU_DEV_SMS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                            \
	X(ORI_CU_DEV_UVA, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                              \
	X(ORI_CU_DEV_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                      \
	X(ORI_CU_DEV_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                      \
	X(ORI_CU_DEV_PAGEABLE, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 88)                     \
	X(ORI_CU_DEV_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)            \
	X(ORI_CU_DEV_POSIX_FD, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,    \
	  103)                                                                                     \
	X(ORI_CU_DEV_RDMA_VMM, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 110)   \
	X(ORI_CU_DEV_DMA_BUF, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 124)                          \
	X(ORI_CU_RANGE_DMA_BUF, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1)                            \
	X(ORI_CU_DEV_FABRIC, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 128)                \
	X(ORI_CU_DEV_MPS, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 133)                                    \
	X(ORI_CU_P2P_ATOMICS, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 3)                  \
	X(ORI_CU_PTR_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                             \
	X(ORI_CU_PTR_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID, 7)                                 \
	X(ORI_CU_PTR_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                               \
	X(ORI_CU_PTR_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                              \
	X(ORI_CU_PTR_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 10)             \
	X(ORI_CU_MEMORY_HOST, CU_MEMORYTYPE_HOST, 1)                                               \
	X(ORI_CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE, 2)                                           \
	X(ORI_CU_FUNC_MAX_THREADS, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                     \
	X(ORI_CU_FUNC_LOCAL_BYTES, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                          \
	X(ORI_CU_FUNC_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                                    \
	X(ORI_CU_LIMIT_STACK, CU_LIMIT_STACK_SIZE, 0)                                              \
	X(ORI_CU_HANDLE_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)                           \
	X(ORI_CU_HANDLE_FABRIC, CU_MEM_HANDLE_TYPE_FABRIC, 8)                                      \
	X(ORI_CU_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)                          \
	X(ORI_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE, 1)                                  \
	X(ORI_CU_ALLOC_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED, 1)                                   \
	X(ORI_CU_GRANULARITY_MIN, CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0)                             \
	X(ORI_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, 1)                                   \
	X(ORI_CU_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING, 2)                                      \
	X(ORI_CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED, 2)                               \
	X(ORI_CU_SOURCE_ORDER_STREAM, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, 1)                        \
	X(ORI_CU_COPY_OVERLAP, CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE, 1)                      \
	X(ORI_CU_USER_OBJECT_NO_SYNC, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, 1)                        \
	X(ORI_CU_USER_OBJECT_MOVE, CU_GRAPH_USER_OBJECT_MOVE, 1)                                   \
	X(ORI_CU_PEER_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704)                        \
	X(ORI_CU_IPC_LAZY_PEER, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1)                             \
	X(ORI_CU_PIN_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE, 1)                                     \
	X(ORI_CU_PIN_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP, 2)                                   \
	X(ORI_CU_PIN_IO, CU_MEMHOSTREGISTER_IOMEMORY, 4)                                           \
	X(ORI_CU_DEV_HOST_PAGES, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, \
	  100)                                                                                     \
	X(ORI_CU_DEV_WRITES_ORDER, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 118)       \
	X(ORI_CU_WRITES_ORDER_OWNER, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER, 100)

enum ori_cu_constant {
#define ORI_CU_CONSTANT(ours, theirs, value) ours = (value),
	ORI_CU_CONSTANTS(ORI_CU_CONSTANT)
#undef ORI_CU_CONSTANT
};

/* ---- functions ------------------------------------------------------------------------------- */

/* X(field, symbol in the library, arguments); each returns ori_cu_result, 0 is success */
#define ORI_CU_CALLS(X)                                                                            \
	X(cuInit, cuInit, (unsigned int flags))                                                    \
	X(cuDriverGetVersion, cuDriverGetVersion, (int *version))                                  \
	X(cuGetErrorString, cuGetErrorString, (ori_cu_result, const char **text))                  \
	X(cuDeviceGetCount, cuDeviceGetCount, (int *count))                                        \
	X(cuDeviceGet, cuDeviceGet, (ori_cu_device *, int ordinal))                                \
	X(cuDeviceGetName, cuDeviceGetName, (char *name, int bytes, ori_cu_device))                \
	X(cuDeviceGetUuid, cuDeviceGetUuid_v2, (struct ori_cu_uuid *, ori_cu_device))              \
	X(cuDeviceTotalMem, cuDeviceTotalMem_v2, (size_t * bytes, ori_cu_device))                  \
	X(cuDeviceGetAttribute, cuDeviceGetAttribute, (int *value, int attribute, ori_cu_device))  \
	X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, (char *id, int bytes, ori_cu_device))          \
	X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer,                                            \
	  (int *can, ori_cu_device from, ori_cu_device to))                                        \
	X(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute,                                        \
	  (int *value, int attribute, ori_cu_device from, ori_cu_device to))                       \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (void **context, ori_cu_device))     \
	X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (ori_cu_device))                \
	X(cuCtxPushCurrent, cuCtxPushCurrent_v2, (void *context))                                  \
	X(cuCtxPopCurrent, cuCtxPopCurrent_v2, (void **context))                                   \
	X(cuCtxGetLimit, cuCtxGetLimit, (size_t * value, int limit))                               \
	X(cuCtxSetLimit, cuCtxSetLimit, (int limit, size_t value))                                 \
	X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, (int *least, int *greatest))   \
	X(cuStreamCreateWithPriority, cuStreamCreateWithPriority,                                  \
	  (void **stream, unsigned int flags, int priority))                                       \
	X(cuStreamDestroy, cuStreamDestroy_v2, (void *stream))                                     \
	X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (int *mode))       \
	X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, (void *peer, unsigned int flags))          \
	X(cuStreamQuery, cuStreamQuery, (void *stream))                                            \
	X(cuStreamWaitEvent, cuStreamWaitEvent, (void *stream, void *event, unsigned int flags))   \
	X(cuEventCreate, cuEventCreate, (void **event, unsigned int flags))                        \
	X(cuEventDestroy, cuEventDestroy_v2, (void *event))                                        \
	X(cuEventRecord, cuEventRecord, (void *event, void *stream))                               \
	X(cuEventQuery, cuEventQuery, (void *event))                                               \
	X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity,                            \
	  (size_t * bytes, const struct ori_cu_prop *, int which))                                 \
	X(cuMemCreate, cuMemCreate,                                                                \
	  (ori_cu_mem *, size_t bytes, const struct ori_cu_prop *, unsigned long long flags))      \
	X(cuMemRelease, cuMemRelease, (ori_cu_mem))                                                \
	X(cuMemAddressReserve, cuMemAddressReserve,                                                \
	  (ori_cu_ptr *, size_t bytes, size_t alignment, ori_cu_ptr wish,                          \
	   unsigned long long flags))                                                              \
	X(cuMemAddressFree, cuMemAddressFree, (ori_cu_ptr, size_t bytes))                          \
	X(cuMemMap, cuMemMap,                                                                      \
	  (ori_cu_ptr, size_t bytes, size_t offset, ori_cu_mem, unsigned long long flags))         \
	X(cuMemUnmap, cuMemUnmap, (ori_cu_ptr, size_t bytes))                                      \
	X(cuMemSetAccess, cuMemSetAccess,                                                          \
	  (ori_cu_ptr, size_t bytes, const struct ori_cu_access *, size_t count))                  \
	X(cuMemExportToShareableHandle, cuMemExportToShareableHandle,                              \
	  (void *handle, ori_cu_mem, int handle_type, unsigned long long flags))                   \
	X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle,                          \
	  (ori_cu_mem *, void *handle, int handle_type))                                           \
	X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, (ori_cu_mem *, void *inside))  \
	X(cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle,          \
	  (struct ori_cu_prop *, ori_cu_mem))                                                      \
	X(cuMemGetAddressRange, cuMemGetAddressRange_v2,                                           \
	  (ori_cu_ptr * base, size_t * bytes, ori_cu_ptr inside))                                  \
	X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange,                            \
	  (void *handle, ori_cu_ptr, size_t bytes, int type, unsigned long long flags))            \
	X(cuIpcGetMemHandle, cuIpcGetMemHandle, (struct ori_cu_ipc *, ori_cu_ptr))                 \
	X(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2,                                               \
	  (ori_cu_ptr *, struct ori_cu_ipc, unsigned int flags))                                   \
	X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, (ori_cu_ptr))                                  \
	X(cuPointerGetAttributes, cuPointerGetAttributes,                                          \
	  (unsigned int count, int *attributes, void **values, ori_cu_ptr))                        \
	X(cuMemHostRegister, cuMemHostRegister_v2, (void *, size_t bytes, unsigned int flags))     \
	X(cuMemHostUnregister, cuMemHostUnregister, (void *))                                      \
	X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2,                                 \
	  (ori_cu_ptr *, void *host, unsigned int flags))                                          \
	X(cuMemHostAlloc, cuMemHostAlloc, (void **, size_t bytes, unsigned int flags))             \
	X(cuMemFreeHost, cuMemFreeHost, (void *))                                                  \
	X(cuMemcpyAsync, cuMemcpyAsync,                                                            \
	  (ori_cu_ptr to, ori_cu_ptr from, size_t bytes, void *stream))                            \
	X(cuMemsetD8Async, cuMemsetD8Async,                                                        \
	  (ori_cu_ptr, unsigned char value, size_t bytes, void *stream))                           \
	X(cuModuleLoadData, cuModuleLoadData, (void **module, const void *image))                  \
	X(cuModuleUnload, cuModuleUnload, (void *module))                                          \
	X(cuModuleGetFunction, cuModuleGetFunction,                                                \
	  (void **function, void *module, const char *name))                                       \
	X(cuFuncGetAttribute, cuFuncGetAttribute, (int *value, int attribute, void *function))     \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                             \
	  cuOccupancyMaxActiveBlocksPerMultiprocessor,                                             \
	  (int *blocks, void *function, int threads, size_t shared_bytes))                         \
	X(cuLaunchKernel, cuLaunchKernel,                                                          \
	  (void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,          \
	   unsigned int block_x, unsigned int block_y, unsigned int block_z,                       \
	   unsigned int shared_bytes, void *stream, void **params, void **extra))

/* The same for calls that old drivers do not have.  They are NULL then. */
#define ORI_CU_STREAM_CALLS(X)                                                                     \
	X(cuStreamIsCapturing, cuStreamIsCapturing, (void *stream, int *status))                   \
	X(cuStreamGetId, cuStreamGetId, (void *stream, unsigned long long *id))                    \
	X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3,                                       \
	  (void *stream, int *status, unsigned long long *id, void **graph,                        \
	   const void **dependencies, const void **edges, size_t *count))                          \
	X(cuUserObjectCreate, cuUserObjectCreate,                                                  \
	  (void **object, void *ptr, void (*destroy)(void *), unsigned int refs,                   \
	   unsigned int flags))                                                                    \
	X(cuGraphRetainUserObject, cuGraphRetainUserObject,                                        \
	  (void *graph, void *object, unsigned int refs, unsigned int flags))                      \
	X(cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2,                                               \
	  (ori_cu_ptr * to, ori_cu_ptr * from, size_t * bytes, size_t count,                       \
	   struct ori_cu_copy_attributes *, size_t * first, size_t attributes, void *stream))

struct ori_cuda_stream_calls {
#define ORI_CU_CALL(field, symbol, args) ori_cu_result(*field) args;
	ORI_CU_STREAM_CALLS(ORI_CU_CALL)
#undef ORI_CU_CALL
};

struct ori_cuda_driver {
#define ORI_CU_CALL(field, symbol, args) ori_cu_result(*field) args;
	ORI_CU_CALLS(ORI_CU_CALL)
#undef ORI_CU_CALL
	int version; /* 13000 is CUDA 13.0 */
	int ndevices;
	struct ori_cuda_stream_calls streams;
};

/*
 * Finds the driver and initialises it, once per process; later calls give the same answer.
 * ORIEL_EUNSUPPORTED with a log line that says what is missing: library, function, or GPU.
 */
int ori_cuda_driver_get(const struct ori_cuda_driver **);
/* The same without a log line: the reason is in text. */
int ori_cuda_driver_find(const struct ori_cuda_driver **, char *text, size_t bytes);

/*
 * For a driver call that failed: ori_fail() with "what: call: the driver's text".  ORIEL_ENOMEM
 * when memory ran out, ORIEL_EDEVICE when the context is lost, else ORIEL_ESYSTEM.
 */
int ori_cuda_fail(ori_cu_result, const char *call, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Does every further call on the context return this result?  It does after a kernel crashed.
 * Under MPS it also does after a kernel of another process on the GPU crashed.
 */
int ori_cuda_is_lost(ori_cu_result);
/*
 * A variable of util/config.h, or its default.  Devices are opened without the comm's
 * configuration.
 */
const char *ori_cuda_variable(const char *name);
/* Is there an MPS daemon for this process?  Known before the driver is initialised. */
int ori_cuda_mps_pipe(void);
/* The driver's text for a result; never NULL. */
const char *ori_cuda_text(ori_cu_result);

#endif
