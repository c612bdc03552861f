/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_abi.cpp - our own declarations of the CUDA driver compared with cuda.h, if that
 * is installed.
 *
 * The compiler decides everything: sizes and offsets of structs, values of constants, and for each
 * function the kind and size of every argument.  The file is C++ because C cannot take function
 * types apart.
 */
#include <cstddef>
#include <cstdio>
#include <type_traits>

/* first: cuda.h makes macros of the names that ours has for fields */
#include "device/cuda/driver.h"

#include <cuda.h>

#if CUDA_VERSION >= 13000

#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs), #theirs)
#define SAME_PLACE(ours, field, theirs, field1)                                                    \
	static_assert(offsetof(ours, field) == offsetof(theirs, field1), #theirs "." #field1)

SAME_SIZE(ori_cu_result, CUresult);
SAME_SIZE(ori_cu_device, CUdevice);
SAME_SIZE(ori_cu_ptr, CUdeviceptr);
SAME_SIZE(ori_cu_mem, CUmemGenericAllocationHandle);
SAME_SIZE(void *, CUcontext);
SAME_SIZE(void *, CUstream);
SAME_SIZE(void *, CUmodule);
SAME_SIZE(void *, CUfunction);
SAME_SIZE(ori_cu_ipc, CUipcMemHandle);
SAME_SIZE(ori_cu_fabric, CUmemFabricHandle);
SAME_SIZE(ori_cu_uuid, CUuuid);
SAME_SIZE(ori_cu_location, CUmemLocation);
SAME_SIZE(ori_cu_prop, CUmemAllocationProp);
SAME_SIZE(ori_cu_access, CUmemAccessDesc);
SAME_SIZE(ori_cu_copy_attributes, CUmemcpyAttributes);
SAME_PLACE(ori_cu_copy_attributes, source_order, CUmemcpyAttributes, srcAccessOrder);
SAME_PLACE(ori_cu_copy_attributes, from, CUmemcpyAttributes, srcLocHint);
SAME_PLACE(ori_cu_copy_attributes, to, CUmemcpyAttributes, dstLocHint);
SAME_PLACE(ori_cu_copy_attributes, flags, CUmemcpyAttributes, flags);
SAME_PLACE(ori_cu_location, type, CUmemLocation, type);
SAME_PLACE(ori_cu_location, id, CUmemLocation, id);
SAME_PLACE(ori_cu_prop, type, CUmemAllocationProp, type);
SAME_PLACE(ori_cu_prop, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_PLACE(ori_cu_prop, location, CUmemAllocationProp, location);
SAME_PLACE(ori_cu_prop, win32, CUmemAllocationProp, win32HandleMetaData);
SAME_PLACE(ori_cu_prop, compression, CUmemAllocationProp, allocFlags.compressionType);
SAME_PLACE(ori_cu_prop, gpudirect_rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME_PLACE(ori_cu_prop, usage, CUmemAllocationProp, allocFlags.usage);
SAME_PLACE(ori_cu_access, location, CUmemAccessDesc, location);
SAME_PLACE(ori_cu_access, flags, CUmemAccessDesc, flags);

#define SAME_VALUE(ours, theirs, value) static_assert((long)(ours) == (long)(theirs), #theirs);
ORI_CU_CONSTANTS(SAME_VALUE)

/* 1: passed alike.  Pointers count as alike, whatever they point at; enums count as integers. */
template <typename A, typename B> constexpr bool alike()
{
	constexpr bool a_int = std::is_integral_v<A> || std::is_enum_v<A>;
	constexpr bool b_int = std::is_integral_v<B> || std::is_enum_v<B>;

	return sizeof(A) == sizeof(B) && a_int == b_int &&
	       std::is_pointer_v<A> == std::is_pointer_v<B> &&
	       std::is_class_v<A> == std::is_class_v<B>;
}

template <typename A, typename B> struct same_call : std::false_type {
};

template <typename R, typename... A, typename S, typename... B>
struct same_call<R (*)(A...), S (*)(B...)> {
	static constexpr bool check()
	{
		if constexpr (sizeof...(A) != sizeof...(B))
			return false;
		else
			return alike<R, S>() && (alike<A, B>() && ...);
	}
	static constexpr bool value = check();
};

#define SAME_CALL(field, symbol, args)                                                             \
	static_assert(same_call<ori_cu_result(*) args, decltype(&symbol)>::value, #symbol);
ORI_CU_CALLS(SAME_CALL)
ORI_CU_STREAM_CALLS(SAME_CALL)

#define ONE(...) +1
int main()
{
	std::printf("%d functions and %d constants agree with cuda.h of CUDA %d.%d\n",
		    0 ORI_CU_CALLS(ONE) ORI_CU_STREAM_CALLS(ONE), 0 ORI_CU_CONSTANTS(ONE),
		    CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
	return 0;
}

#else

int main()
{
	std::printf("SKIP: cuda.h is of CUDA %d.%d, which lacks names that 13.0 has\n",
		    CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
	return 77;
}

#endif
