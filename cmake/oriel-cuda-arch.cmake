# SPDX-License-Identifier: BSD-3-Clause
# Which GPU nvcc compiles tests and examples for: the one of this machine, else sm_90.
execute_process(COMMAND nvidia-smi -L OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE no_gpu)
set(CMAKE_CUDA_ARCHITECTURES native)
if(no_gpu)
	set(CMAKE_CUDA_ARCHITECTURES 90-real)
endif()
