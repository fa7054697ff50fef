# What other projects build on: find_package(tightdp CONFIG) gives tightdp::tightdp, the library, and tightdp::headers,
# the headers that need nothing else, and tightdp::c, the C library; pkg-config knows tightdp and tightdp_c. In a wheel
# everything lies in the package (tightdp.get_cmake_dir(), tightdp.get_library()).
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
# A wheel has no symbolic links, and would hold the library twice: where linkers read scripts, one has its plain name.
set(tightdp_link)
if(TIGHTDP_BUILD_PYTHON AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(tightdp_link NAMELINK_SKIP)
  file(CONFIGURE OUTPUT libtightdp_c.so.in CONTENT "INPUT(libtightdp_c.so.0)\n")
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libtightdp_c.so.in DESTINATION ${tightdp_lib} RENAME libtightdp_c.so)
endif()
install(TARGETS tightdp_cpu tightdp_flags tightdp_c EXPORT tightdp
  ARCHIVE DESTINATION ${tightdp_lib} LIBRARY DESTINATION ${tightdp_lib} ${tightdp_link}
  RUNTIME DESTINATION ${tightdp_lib})
install(EXPORT tightdp NAMESPACE tightdp:: DESTINATION ${tightdp_cmake} FILE tightdpTargets.cmake)
install(DIRECTORY cpp/include/ DESTINATION ${tightdp_include} FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/cmake/tightdpConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/tightdpConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/cmake/tightdpConfigVersion.cmake
  DESTINATION ${tightdp_cmake})

# Paths in pkg-config's files start from where the files lie, so that the whole may be moved.
set(tightdp_pkgconfig ${tightdp_lib}/pkgconfig)
file(RELATIVE_PATH tightdp_pc_include /${tightdp_pkgconfig} /${tightdp_include})
if(TIGHTDP_BUILD_PYTHON AND NOT WIN32)
  set(tightdp_pc_rpath " -Wl,-rpath,\${libdir}")  # a package's folder is on nobody's path
endif()
foreach(name tightdp tightdp_c)
  configure_file(cmake/${name}.pc.in ${CMAKE_CURRENT_BINARY_DIR}/cmake/${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cmake/${name}.pc DESTINATION ${tightdp_pkgconfig})
endforeach()
