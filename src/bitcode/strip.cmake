# SPDX-License-Identifier: BSD-3-Clause
# cmake -DIN=FILE -DOUT=FILE -P strip.cmake - removes what ties functions to a target from LLVM's
# text.  LLVM inlines a function only into functions of the same target.  Triton's have none of
# these attributes.  Without this step a put is a call, and its loads stay inside loops.
file(READ ${IN} text)
if(text MATCHES "(call|define) [^\n]*@([A-Za-z0-9_]+)\\([^\n]* byval")
	message(FATAL_ERROR
		"${CMAKE_MATCH_2}() takes a struct by value and is not inlined.  Triton "
		"cannot compile that: declare the parameter with ORI_VALUE (device/port.h)")
endif()
foreach(attribute target-cpu target-features denormal-fp-math denormal-fp-math-f32 no-trapping-math
		stack-protector-buffer-size)
	string(REGEX REPLACE " *\"${attribute}\"=\"[^\"]*\"" "" text "${text}")
endforeach()
file(WRITE ${OUT} "${text}")
