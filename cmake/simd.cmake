set(TIGHTDP_SIMD_OPTIMIZATION "-O3" CACHE STRING "Optimisation of the kernels; sanitizers take minutes a file at -O3")

# tightdp_add_simd(target file.simd.cpp...)
#
# Compiles each file once per instruction set. The file wraps its code in `namespace TIGHTDP_ISA { ... }`;
# cpp/src/runtime/dispatch.hpp chooses one at run time, so a wheel runs on any machine of its platform.
# A .simd.cpp file calls no inline function with external linkage (std::vector and the like): the linker keeps
# one copy of those for the whole library, and it could keep the one that needs AVX-512.
#
# A file named X.exact.simd.cpp promises the same bits from every variant: no contraction into fused multiply-adds
# (a machine without them would round differently), and square roots that need not set errno, so that they vectorise.
function(tightdp_add_simd target)
  set(isas baseline)
  if(TIGHTDP_DISPATCH AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    list(APPEND isas avx2 avx512)
    target_compile_definitions(${target} PUBLIC $<BUILD_INTERFACE:TIGHTDP_X86_DISPATCH=1>)
  endif()
  set(flags_baseline "")
  set(flags_avx2 -mavx2 -mfma)
  set(flags_avx512 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mprefer-vector-width=512)
  if(MINGW AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes the stack to be aligned to a register, and Windows aligns it to 16 bytes
    # (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=54412): the assembler makes every move one that needs no alignment.
    list(APPEND flags_avx2 -Wa,-muse-unaligned-vector-move)
    list(APPEND flags_avx512 -Wa,-muse-unaligned-vector-move)
  endif()
  set(exact ${ARGN})
  list(FILTER exact INCLUDE REGEX "\\.exact\\.simd\\.cpp$")
  set_source_files_properties(${exact} PROPERTIES
    COMPILE_OPTIONS "-ffp-contract=off;-fno-math-errno;-fno-trapping-math")
  foreach(isa IN LISTS isas)
    if(ARGN)
      add_library(${target}_${isa} OBJECT ${ARGN})
      target_link_libraries(${target}_${isa} PRIVATE tightdp_own tightdp_flags)
      set_target_properties(${target}_${isa} PROPERTIES TIGHTDP_CONTRACT ON)
      target_compile_definitions(${target}_${isa} PRIVATE TIGHTDP_ISA=${isa} TIGHTDP_ISA_${isa}=1)
      target_compile_options(${target}_${isa} PRIVATE ${TIGHTDP_SIMD_OPTIMIZATION} -Wno-psabi ${flags_${isa}})
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
    endif()
  endforeach()
endfunction()
