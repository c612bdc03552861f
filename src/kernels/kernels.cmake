# SPDX-License-Identifier: BSD-3-Clause
# The library's own GPU kernels.  nvcc makes one fatbin of them, and image.c puts its bytes into the
# library.  Without nvcc, or with ORIEL_KERNELS=OFF, the library has everything else.  It reports an
# error when such a kernel is needed.
#
# Machine code takes most of the time (docs/decisions/0046): so AUTO compiles for the GPU of this
# machine only, and ALL is for files that go to other machines.
set(ORIEL_KERNELS AUTO CACHE STRING "kernels by nvcc: AUTO (this machine's GPU, else PTX), ALL (all GPUs), OFF")
set_property(CACHE ORIEL_KERNELS PROPERTY STRINGS AUTO ALL OFF)
if(NOT ORIEL_KERNELS MATCHES "^(AUTO|ALL|OFF)$")
	message(FATAL_ERROR "ORIEL_KERNELS is \"${ORIEL_KERNELS}\"; AUTO, ALL or OFF is right")
endif()
find_program(ORIEL_NVCC nvcc HINTS /usr/local/cuda/bin)
if(ORIEL_KERNELS STREQUAL "OFF" OR NOT ORIEL_NVCC)
	message(STATUS
		"library kernels for GPUs: left out (ORIEL_KERNELS=${ORIEL_KERNELS}, nvcc: ${ORIEL_NVCC})")
	return()
endif()

# Sets `out` to the numbers of the GPUs of this machine, such as 90; empty without a GPU.
function(oriel_gpus_here out)
	execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
		OUTPUT_VARIABLE numbers ERROR_QUIET RESULT_VARIABLE status TIMEOUT 20)
	if(NOT status EQUAL 0)
		set(numbers "")
	endif()
	string(REGEX MATCHALL "[0-9]+[.][0-9]" numbers "${numbers}")
	list(REMOVE_DUPLICATES numbers)
	list(TRANSFORM numbers REPLACE "[.]" "")
	set(${out} "${numbers}" PARENT_SCOPE)
endfunction()

# kernel_codes: the GPUs that get machine code.  kernel_ptx: PTX, which the driver compiles when it
# loads the kernels.  sm_90 has fences that older GPUs lack, so without machine code there are two.
set(kernel_codes 80 90 100)
if(ORIEL_KERNELS STREQUAL "AUTO")
	oriel_gpus_here(kernel_codes)
endif()
execute_process(COMMAND ${ORIEL_NVCC} --list-gpu-code OUTPUT_VARIABLE known
	OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX MATCHALL "[0-9]+" known "${known}")
foreach(number ${kernel_codes}) # the headers need sm_80
	if(number LESS 80 OR NOT number IN_LIST known)
		list(REMOVE_ITEM kernel_codes ${number})
	endif()
endforeach()
set(kernel_ptx)
if(ORIEL_KERNELS STREQUAL "ALL" AND 90 IN_LIST known)
	set(kernel_ptx 90)
elseif(NOT kernel_codes)
	foreach(number 80 90)
		if(number IN_LIST known)
			list(APPEND kernel_ptx ${number})
		endif()
	endforeach()
endif()
if(NOT kernel_codes AND NOT kernel_ptx)
	message(STATUS "library kernels for GPUs: left out (${ORIEL_NVCC} knows neither sm_80 nor sm_90)")
	return()
endif()
set(kernel_flags)
set(kernel_targets)
foreach(number ${kernel_codes})
	list(APPEND kernel_flags -gencode=arch=compute_${number},code=sm_${number})
	list(APPEND kernel_targets sm_${number})
endforeach()
foreach(number ${kernel_ptx})
	list(APPEND kernel_flags -gencode=arch=compute_${number},code=compute_${number})
	list(APPEND kernel_targets ptx_${number})
endforeach()
list(JOIN kernel_targets " " kernel_targets)

# 177 warns of unused variables: an image does not use the host's struct of a kernel.
set(kernel_image ${CMAKE_CURRENT_BINARY_DIR}/library.fatbin)
set(kernel_source ${CMAKE_CURRENT_LIST_DIR}/library.cu)
file(GLOB_RECURSE kernel_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/oriel/*.h)
file(GLOB kernel_parts CONFIGURE_DEPENDS
	${CMAKE_CURRENT_LIST_DIR}/*.c ${CMAKE_CURRENT_LIST_DIR}/*.h)
add_custom_command(OUTPUT ${kernel_image}
	COMMAND ${ORIEL_NVCC} -DORIEL_KERNEL_IMAGE --fatbin --threads 0 -x cu -std=c++17 -O3
		-diag-suppress 177 -I${PROJECT_SOURCE_DIR}/include ${kernel_flags}
		-o ${kernel_image} ${kernel_source}
	DEPENDS ${kernel_source} ${kernel_parts} ${kernel_headers}
	COMMENT "GPU kernels of the library (${kernel_targets})" VERBATIM)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/image.c PROPERTIES
	OBJECT_DEPENDS ${kernel_image}
	COMPILE_DEFINITIONS
		"ORIEL_KERNELS_FATBIN=\"${kernel_image}\";ORIEL_KERNELS_TARGETS=\"${kernel_targets}\"")
message(STATUS "library kernels for GPUs: ${kernel_targets}")
