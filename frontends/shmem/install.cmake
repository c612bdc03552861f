# SPDX-License-Identifier: BSD-3-Clause
# What a user of OpenSHMEM gets: headers, libraries, oshcc, oshc++, oshrun, pkg-config oriel-shmem.
# find_package(oriel) defines oriel::shmem.
install(TARGETS oriel_shmem EXPORT oriel-shmem-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# A file of its own: a package of its own may bring it.
install(EXPORT oriel-shmem-targets NAMESPACE oriel:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/oriel)
install(TARGETS oriel_shmem_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# The library lies beside liboriel.so.
set_target_properties(oriel_shmem PROPERTIES INSTALL_RPATH "$ORIGIN")
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
	FILES_MATCHING PATTERN "*.h")

# The compilers.  oshcxx is another usual name of oshc++.
file(RELATIVE_PATH bin_to_include ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
function(oriel_wrapper wrapper language compiler variable)
	configure_file(tools/oshcc.in ${PROJECT_BINARY_DIR}/installed/${wrapper} @ONLY)
	install(PROGRAMS ${PROJECT_BINARY_DIR}/installed/${wrapper} DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()
oriel_wrapper(oshcc C cc OSHCC_CC)
oriel_wrapper(oshc++ C++ c++ OSHCXX_CXX)
oriel_wrapper(oshcxx C++ c++ OSHCXX_CXX)
install(PROGRAMS tools/oshrun DESTINATION ${CMAKE_INSTALL_BINDIR})

file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/cmake/oriel-shmem.pc.in ${PROJECT_BINARY_DIR}/oriel-shmem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/oriel-shmem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
add_dependencies(oriel_product oriel_shmem oriel_shmem_static)
