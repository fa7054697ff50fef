# The optional module _cuda. TIGHTDP_CUDA:
#   AUTO (the default)  built where both a CUDA compiler and a device are found, for that device alone: seconds
#   ON                  built for every architecture below, with or without a device; no compiler is an error
#   OFF                 not built
# A build without _cuda lacks nothing else: the package finds it missing and says so.
set(TIGHTDP_CUDA AUTO CACHE STRING "Build tightdp._cuda: AUTO, ON or OFF")
set_property(CACHE TIGHTDP_CUDA PROPERTY STRINGS AUTO ON OFF)

set(tightdp_device "")
if(TIGHTDP_CUDA STREQUAL "AUTO")
  find_program(TIGHTDP_NVIDIA_SMI nvidia-smi)
  if(TIGHTDP_NVIDIA_SMI)
    execute_process(COMMAND ${TIGHTDP_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE tightdp_device ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" tightdp_device "${tightdp_device}")
    string(REPLACE "." "" tightdp_device "${tightdp_device}")
    list(REMOVE_DUPLICATES tightdp_device)
  endif()
endif()

if(TIGHTDP_CUDA STREQUAL "ON" OR tightdp_device)
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER AND TIGHTDP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TIGHTDP_CUDA is ON and no CUDA compiler was found: "
                        "put nvcc on the path or set CMAKE_CUDA_COMPILER")
  endif()
endif()

if(CMAKE_CUDA_COMPILER)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    if(tightdp_device)
      set(CMAKE_CUDA_ARCHITECTURES ${tightdp_device})
    else()
      # From Turing to Hopper, and PTX for what comes after.
      set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 90-virtual)
    endif()
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  # CMake before 3.25.2 does not know that nvcc speaks C++20.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  find_package(CUDAToolkit REQUIRED)
  file(GLOB_RECURSE tightdp_cuda_sources CONFIGURE_DEPENDS cpp/src/*.cu)
  # Rows are clipped, and get noise, with the same roundings as on the CPU, and two cells see the edge between them
  # alike: no contraction. The contour engine's error bounds hold with or without it.
  set_source_files_properties(cpp/src/clipping/clipped_sum.cu cpp/src/clipping/exact_sum.cu
    cpp/src/dense_layers/product_sum.cu cpp/src/prv/cells.cu
    PROPERTIES COMPILE_OPTIONS "--fmad=false")
  add_library(tightdp_device OBJECT ${tightdp_cuda_sources})
  set_target_properties(tightdp_device PROPERTIES CUDA_VISIBILITY_PRESET hidden)
  target_link_libraries(tightdp_device PRIVATE tightdp_own tightdp_cpu)
  pybind11_add_module(_cuda cpp/bindings/cuda/module.cpp $<TARGET_OBJECTS:tightdp_device>)
  target_link_libraries(_cuda PRIVATE tightdp_own tightdp_cpu CUDA::cudart_static)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    # What is missing is missed here, and not when the module is imported. The module itself has Python's names open.
    add_library(tightdp_device_complete MODULE $<TARGET_OBJECTS:tightdp_device>)
    set_target_properties(tightdp_device_complete PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(tightdp_device_complete PRIVATE tightdp_cpu CUDA::cudart_static)
    target_link_options(tightdp_device_complete PRIVATE LINKER:--no-undefined)
    add_dependencies(_cuda tightdp_device_complete)
  endif()
  install(TARGETS _cuda DESTINATION tightdp)
endif()
