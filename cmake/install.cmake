# What other C++ projects build on: find_package(tightdp CONFIG) gives tightdp::tightdp, the library, and
# tightdp::headers, the headers that need nothing else, and tightdp::c, the C library. In a wheel everything lies in the
# package (tightdp.get_cmake_dir()).
if(TIGHTDP_BUILD_PYTHON)
  set(tightdp_include tightdp/include)
  set(tightdp_lib tightdp/lib)
  set(tightdp_cmake tightdp/cmake)
else()
  include(GNUInstallDirs)
  set(tightdp_include ${CMAKE_INSTALL_INCLUDEDIR})
  set(tightdp_lib ${CMAKE_INSTALL_LIBDIR})
  set(tightdp_cmake ${CMAKE_INSTALL_LIBDIR}/cmake/tightdp)
endif()
include(CMakePackageConfigHelpers)
target_include_directories(tightdp_flags INTERFACE $<INSTALL_INTERFACE:${tightdp_include}>)
target_include_directories(tightdp_c PUBLIC $<INSTALL_INTERFACE:${tightdp_include}>)
install(TARGETS tightdp_cpu tightdp_flags tightdp_c EXPORT tightdp
  ARCHIVE DESTINATION ${tightdp_lib} LIBRARY DESTINATION ${tightdp_lib} RUNTIME DESTINATION ${tightdp_lib})
install(EXPORT tightdp NAMESPACE tightdp:: DESTINATION ${tightdp_cmake} FILE tightdpTargets.cmake)
install(DIRECTORY cpp/include/ DESTINATION ${tightdp_include} FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/cmake/tightdpConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/tightdpConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/cmake/tightdpConfigVersion.cmake
  DESTINATION ${tightdp_cmake})
