# SPDX-License-Identifier: BSD-3-Clause
# find_package(oriel) defines oriel::oriel, the shared library with its headers, and oriel::shmem,
# OpenSHMEM on it.
include(${CMAKE_CURRENT_LIST_DIR}/oriel-targets.cmake)
