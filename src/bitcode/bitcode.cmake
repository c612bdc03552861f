# SPDX-License-Identifier: BSD-3-Clause
# The device API as LLVM bitcode, which Triton links into its kernels.  It needs clang 19 or later
# and no CUDA toolkit.  Two files: from sm_90 on the headers use fences that older GPUs lack.
set(ORIEL_BITCODE AUTO CACHE STRING
	"device bitcode for Triton: AUTO (where clang 19 or later is found), ON or OFF")
if(ORIEL_BITCODE STREQUAL "OFF")
	return()
endif()

# The newest clang first.  One that is too old is passed over.
function(oriel_clang_is_new valid clang)
	execute_process(COMMAND ${clang} -dumpversion OUTPUT_VARIABLE version ERROR_QUIET
		OUTPUT_STRIP_TRAILING_WHITESPACE)
	if(version VERSION_LESS 19)
		set(${valid} FALSE PARENT_SCOPE)
	endif()
endfunction()
find_program(ORIEL_BITCODE_CLANG
	NAMES clang-22 clang-21 clang-20 clang-19 clang
	VALIDATOR oriel_clang_is_new DOC "compiler of the device bitcode")
if(NOT ORIEL_BITCODE_CLANG)
	if(ORIEL_BITCODE STREQUAL "ON")
		message(FATAL_ERROR
			"ORIEL_BITCODE=ON needs clang 19 or later: tools/deps.sh python installs it")
	endif()
	message(STATUS "device bitcode for Triton: left out (no clang 19 or later)")
	return()
endif()
message(STATUS "device bitcode for Triton: ${ORIEL_BITCODE_CLANG}")

# -fcuda-flush-denormals-to-zero sets the module flag that Triton's modules have; without it they do
# not link.  The empty toolkit path keeps clang from reading one that is newer than it knows.
set(bitcode_flags -x cuda --cuda-device-only --cuda-path=/nonexistent -nocudainc -nocudalib
	-fcuda-flush-denormals-to-zero -Xclang -target-feature -Xclang +ptx80
	-std=c++17 -O2 -fomit-frame-pointer -Wall -Wextra -Werror -DORIEL_BITCODE
	-I${PROJECT_SOURCE_DIR}/include -emit-llvm -S)
set(bitcode_source ${CMAKE_CURRENT_LIST_DIR}/device.cu)
file(GLOB bitcode_parts CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.h)
file(GLOB_RECURSE bitcode_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/oriel/*.h)
set(bitcode_strip ${CMAKE_CURRENT_LIST_DIR}/strip.cmake)
set(bitcode_files)
foreach(number 80 90)
	set(file ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/oriel/liboriel_device_sm${number}.bc)
	set(text ${CMAKE_CURRENT_BINARY_DIR}/device_sm${number})
	add_custom_command(OUTPUT ${file}
		COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/oriel
		COMMAND ${ORIEL_BITCODE_CLANG} ${bitcode_flags} --cuda-gpu-arch=sm_${number}
			-o ${text}_tied.ll ${bitcode_source}
		COMMAND ${CMAKE_COMMAND} -DIN=${text}_tied.ll -DOUT=${text}.ll -P ${bitcode_strip}
		COMMAND ${ORIEL_BITCODE_CLANG} --target=nvptx64-nvidia-cuda -x ir -emit-llvm -c
			-Xclang -disable-llvm-passes -o ${file} ${text}.ll
		DEPENDS ${bitcode_source} ${bitcode_parts} ${bitcode_headers} ${bitcode_strip}
		COMMENT "device bitcode for Triton (sm_${number})" VERBATIM)
	list(APPEND bitcode_files ${file})
endforeach()
add_custom_target(oriel_device_bitcode ALL DEPENDS ${bitcode_files})
add_dependencies(oriel_product oriel_device_bitcode)
install(FILES ${bitcode_files} DESTINATION ${CMAKE_INSTALL_LIBDIR}/oriel)
