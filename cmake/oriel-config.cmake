# SPDX-License-Identifier: BSD-3-Clause
# find_package(oriel) defines oriel::oriel, the shared library with its headers.
include(${CMAKE_CURRENT_LIST_DIR}/oriel-targets.cmake)
