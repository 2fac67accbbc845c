# p5bench-worker-nccl: the program that p5bench starts for each GPU. Without CUDA or NCCL it is left out, with a line that
# says what is missing. CUDA's runtime is shared and found by RUNPATH, so that LD_LIBRARY_PATH can put another in its
# place, and lies in lib/ beside the program, installed beside it. Included, not a subdirectory: a language is enabled at the top.
include(CheckLanguage)
find_program(P5BENCH_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(P5BENCH_NVCC AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  set(CMAKE_CUDA_COMPILER ${P5BENCH_NVCC})
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "No CUDA compiler (nvcc; CUDA_HOME says where): p5bench-worker-nccl is left out")
  return()
endif()
find_package(CUDAToolkit 12 QUIET)  # the first whose nvcc has C++20
find_package(NCCL 2.21 QUIET)
if(NOT CUDAToolkit_FOUND OR NOT NCCL_FOUND)
  message(STATUS "No NCCL 2.21 or later (nccl.h and libnccl.so; NCCL_HOME says where) or no CUDA 12 or "
                 "later: p5bench-worker-nccl is left out")
  return()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  if(CUDAToolkit_VERSION VERSION_LESS 13)  # V100, or the oldest GPUs that this CUDA has
    set(CMAKE_CUDA_ARCHITECTURES 70 80 90)
  else()
    set(CMAKE_CUDA_ARCHITECTURES 75 80 90)
  endif()
  if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
    list(APPEND CMAKE_CUDA_ARCHITECTURES 100)
  endif()
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 does not know that nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
# The C++ compiler links, and by itself: nvcc's host compiler may be an older one, whose libstdc++ would come first.
set(CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES "")
set(CMAKE_CUDA_IMPLICIT_LINK_LIBRARIES "")
message(STATUS "p5bench-worker-nccl: CUDA ${CUDAToolkit_VERSION}, NCCL ${NCCL_VERSION}")

# Apart from the rest, for the test of them.
add_library(p5bench_kernels OBJECT ${CMAKE_CURRENT_LIST_DIR}/kernels.cu ${CMAKE_CURRENT_LIST_DIR}/peer_kernels.cu)
target_link_libraries(p5bench_kernels PRIVATE p5bench_core)
target_include_directories(p5bench_kernels SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
# Device-initiated collectives need NCCL's device API, which is of 2.28.
if(NOT NCCL_VERSION VERSION_LESS 2.28 AND EXISTS ${NCCL_INCLUDE_DIR}/nccl_device.h)
  set(nccl_device_api P5BENCH_NCCL_DEVICE_API)
else()
  set(nccl_device_api)
  message(STATUS "NCCL ${NCCL_VERSION} has no device API (2.28): p5bench-worker-nccl does not perform lsa_ collectives")
endif()
target_compile_definitions(p5bench_kernels PRIVATE ${nccl_device_api})
# 445: a template argument that a lambda's parameters do not name, as with_type() uses them.
set(device_code_options --expt-relaxed-constexpr --diag-suppress=445)
target_compile_options(p5bench_kernels PRIVATE ${device_code_options})
set_target_properties(p5bench_kernels PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Shared)

file(GLOB worker_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
get_filename_component(nccl_folder ${NCCL_LIBRARY} DIRECTORY)
# With NCCL's tuner plugin inside, whose symbols NCCL finds in the program where NCCL_TUNER_PLUGIN is STATIC_PLUGIN.
add_executable(p5bench-worker-nccl ${worker_sources} $<TARGET_OBJECTS:p5bench_kernels> ${tuner_plugin_sources}
               ${CMAKE_SOURCE_DIR}/tuner/plugin/worker.cpp)
foreach(version RANGE 2 7)
  target_link_options(p5bench-worker-nccl PRIVATE LINKER:--export-dynamic-symbol=ncclTunerPlugin_v${version})
endforeach()
add_dependencies(p5bench p5bench-worker-nccl nccl-tuner-p5bench)
set_target_properties(p5bench-worker-nccl PROPERTIES
  CUDA_RUNTIME_LIBRARY None CUDA_RESOLVE_DEVICE_SYMBOLS OFF
  LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/lib;$ORIGIN$<$<NOT:$<BOOL:${P5BENCH_PORTABLE}>>:;${nccl_folder}>")
target_link_options(p5bench-worker-nccl PRIVATE LINKER:--enable-new-dtags)
target_compile_definitions(p5bench-worker-nccl PRIVATE ${nccl_device_api})
target_link_libraries(p5bench-worker-nccl PRIVATE p5bench_core CUDA::cudart NCCL::NCCL Threads::Threads ${CMAKE_DL_LIBS})

# For what a GPU does by itself.
if(NOT TARGET benchmark::benchmark)
  find_package(benchmark QUIET)
endif()
if(TARGET benchmark::benchmark)
  get_target_property(benchmark_kind benchmark::benchmark TYPE)
endif()
if(P5BENCH_PORTABLE AND benchmark_kind STREQUAL SHARED_LIBRARY)
  message(STATUS "No static Google Benchmark (P5BENCH_BENCHMARK_SOURCE says where its sources are): p5bench-worker-nccl "
                 "does not check GPUs by themselves")
elseif(TARGET benchmark::benchmark)
  target_compile_definitions(p5bench-worker-nccl PRIVATE P5BENCH_GOOGLE_BENCHMARK)
  target_link_libraries(p5bench-worker-nccl PRIVATE benchmark::benchmark)
  if(benchmark_kind STREQUAL SHARED_LIBRARY)  # beside the worker, like CUDA's runtime: not every node has it
    set(benchmark_name $<TARGET_SONAME_FILE_NAME:benchmark::benchmark>)
    add_custom_command(TARGET p5bench-worker-nccl POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:benchmark::benchmark> ${CMAKE_BINARY_DIR}/lib/${benchmark_name})
    install(FILES $<TARGET_FILE:benchmark::benchmark> DESTINATION lib/p5bench RENAME ${benchmark_name})
  endif()
else()
  message(STATUS "No Google Benchmark: p5bench-worker-nccl does not check GPUs by themselves")
endif()

# Under its SONAME, which is what the loader asks for.
file(REAL_PATH ${CUDA_cudart_LIBRARY} cudart_file)
set(cudart_name libcudart.so.${CUDAToolkit_VERSION_MAJOR})
configure_file(${cudart_file} ${CMAKE_BINARY_DIR}/lib/${cudart_name} COPYONLY)
install(TARGETS p5bench-worker-nccl RUNTIME DESTINATION lib/p5bench)
install(FILES ${CMAKE_BINARY_DIR}/lib/${cudart_name} DESTINATION lib/p5bench)
