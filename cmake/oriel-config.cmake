# SPDX-License-Identifier: BSD-3-Clause
# find_package(oriel) defines oriel::oriel, the shared library with its headers, and oriel::shmem,
# OpenSHMEM on it, if that is installed.
include(${CMAKE_CURRENT_LIST_DIR}/oriel-targets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/oriel-shmem-targets.cmake OPTIONAL)
