# A toolchain: from Linux to Windows with Debian's g++-mingw-w64-x86-64-posix, and Wine to run what was built.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)  # Wine finds no libstdc++ of the compiler's
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
find_program(TIGHTDP_WINE NAMES wine64 wine)
if(TIGHTDP_WINE)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${TIGHTDP_WINE})
endif()
