# tightdp_portable(target): a shared object that loads with glibc 2.28 (manylinux_2_28) whatever it was built on, and
# has its C++ library inside; on Windows, with what it needs of MinGW inside. TIGHTDP_PORTABLE=OFF links what the system
# has.
option(TIGHTDP_PORTABLE "Link shared objects so that they load with glibc 2.28, or without MinGW's libraries" ON)

function(tightdp_portable target)
  if(TIGHTDP_PORTABLE AND MINGW)
    target_link_options(${target} PRIVATE -static)
  endif()
  if(NOT TIGHTDP_PORTABLE OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
     OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|aarch64)$")
    return()
  endif()
  file(GLOB musl /lib/ld-musl-*)
  if(musl)  # no glibc
    return()
  endif()
  set(older ${PROJECT_SOURCE_DIR}/cpp/compatibility/older_glibc.cpp)
  # -flto would resolve the symbols before the assembler has renamed them.
  # Headers of the C library declare the functions that it defines, so it includes none, compiled or not.
  set_source_files_properties(${older} PROPERTIES COMPILE_OPTIONS "-fno-builtin;-fno-lto" SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${older})
  # Another C++ library in the process neither sees nor replaces ours. Threads are still in libpthread in glibc 2.28;
  # since 2.34 that is an empty library.
  target_link_options(${target} PRIVATE -static-libstdc++ LINKER:--exclude-libs,libstdc++.a
    LINKER:--no-as-needed -l:libpthread.so.0 LINKER:--as-needed)
endfunction()
