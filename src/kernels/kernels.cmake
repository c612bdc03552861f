# SPDX-License-Identifier: BSD-3-Clause
# The library's own GPU kernels.  nvcc makes one fatbin of them, and image.c puts its bytes into the
# library.  Without nvcc, or with ORIEL_KERNELS=OFF, the library has everything else.  It reports an
# error when such a kernel is needed.
set(ORIEL_KERNELS AUTO CACHE STRING "GPU kernels of the library: AUTO (where nvcc is found) or OFF")
find_program(ORIEL_NVCC nvcc HINTS /usr/local/cuda/bin)
if(ORIEL_KERNELS STREQUAL "OFF" OR NOT ORIEL_NVCC)
	message(STATUS
		"library kernels for GPUs: left out (ORIEL_KERNELS=${ORIEL_KERNELS}, nvcc: ${ORIEL_NVCC})")
	return()
endif()

# Machine code for the GPUs that this nvcc supports, and PTX for later ones.
execute_process(COMMAND ${ORIEL_NVCC} --list-gpu-code OUTPUT_VARIABLE known
	OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REPLACE "\n" ";" known "${known}")
set(kernel_flags)
set(kernel_targets)
foreach(number 80 90 100)
	if("sm_${number}" IN_LIST known)
		list(APPEND kernel_flags -gencode=arch=compute_${number},code=sm_${number})
		string(APPEND kernel_targets "sm_${number} ")
	endif()
endforeach()
if("sm_90" IN_LIST known)
	list(APPEND kernel_flags -gencode=arch=compute_90,code=compute_90)
	string(APPEND kernel_targets "PTX")
endif()
if(NOT kernel_flags)
	message(STATUS
		"library kernels for GPUs: left out (${ORIEL_NVCC} knows none of sm_80, sm_90, sm_100)")
	return()
endif()
string(STRIP "${kernel_targets}" kernel_targets)

# 177 warns of unused variables: an image does not use the host's struct of a kernel.
set(kernel_image ${CMAKE_CURRENT_BINARY_DIR}/library.fatbin)
set(kernel_source ${CMAKE_CURRENT_LIST_DIR}/library.cu)
file(GLOB_RECURSE kernel_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/oriel/*.h)
file(GLOB kernel_parts CONFIGURE_DEPENDS
	${CMAKE_CURRENT_LIST_DIR}/*.c ${CMAKE_CURRENT_LIST_DIR}/*.h)
add_custom_command(OUTPUT ${kernel_image}
	COMMAND ${ORIEL_NVCC} -DORIEL_KERNEL_IMAGE --fatbin -x cu -std=c++17 -O3 -diag-suppress 177
		-I${PROJECT_SOURCE_DIR}/include ${kernel_flags} -o ${kernel_image} ${kernel_source}
	DEPENDS ${kernel_source} ${kernel_parts} ${kernel_headers}
	COMMENT "GPU kernels of the library (${kernel_targets})" VERBATIM)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/image.c PROPERTIES
	OBJECT_DEPENDS ${kernel_image}
	COMPILE_DEFINITIONS
		"ORIEL_KERNELS_FATBIN=\"${kernel_image}\";ORIEL_KERNELS_TARGETS=\"${kernel_targets}\"")
message(STATUS "library kernels for GPUs: ${kernel_targets}")
