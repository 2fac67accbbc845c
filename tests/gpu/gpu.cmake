# Programs that the tests on GPUs, real or fake, need besides p5bench. They use no test library, because GPU hosts may
# have none.
set(worker_folder ${CMAKE_SOURCE_DIR}/bench/backends/nccl)
add_executable(kernels_check ${CMAKE_CURRENT_LIST_DIR}/kernels_check.cu $<TARGET_OBJECTS:p5bench_kernels> ${worker_folder}/handles.cpp)
add_library(misbehave MODULE ${CMAKE_CURRENT_LIST_DIR}/misbehave.cu)
foreach(target kernels_check misbehave)
  set_target_properties(${target} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY None
    LINKER_LANGUAGE CXX BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${CMAKE_BINARY_DIR}/lib;${nccl_folder}"
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/gpu LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/gpu PREFIX "")
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${device_code_options}>)
  target_link_options(${target} PRIVATE LINKER:--enable-new-dtags)
  target_link_libraries(${target} PRIVATE p5bench_core CUDA::cudart Threads::Threads ${CMAKE_DL_LIBS})
endforeach()
target_link_libraries(kernels_check PRIVATE NCCL::NCCL)
target_include_directories(misbehave SYSTEM PRIVATE $<TARGET_PROPERTY:NCCL::NCCL,INTERFACE_INCLUDE_DIRECTORIES>)

# A cuBLASLt that makes products wrong, in a folder of its own.
find_path(P5BENCH_CUBLASLT_INCLUDE cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(P5BENCH_CUBLASLT_INCLUDE)
  add_library(flip_products SHARED ${CMAKE_CURRENT_LIST_DIR}/flip_products.cpp)
  set_target_properties(flip_products PROPERTIES OUTPUT_NAME cublasLt SOVERSION ${CUDAToolkit_VERSION_MAJOR}
    VERSION ${CUDAToolkit_VERSION_MAJOR} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/gpu/flip)
  target_include_directories(flip_products SYSTEM PRIVATE ${P5BENCH_CUBLASLT_INCLUDE})
  target_link_libraries(flip_products PRIVATE p5bench_settings CUDA::cudart ${CMAKE_DL_LIBS})
endif()

# Settings for single calls exist from NCCL 2.31 on.
if(NCCL_VERSION VERSION_GREATER_EQUAL 2.31)
  add_executable(time_calls ${CMAKE_CURRENT_LIST_DIR}/time_calls.cpp ${CMAKE_SOURCE_DIR}/tuner/table.cpp)
  set_target_properties(time_calls PROPERTIES BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "${CMAKE_BINARY_DIR}/lib;${nccl_folder}" RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/gpu)
  target_link_options(time_calls PRIVATE LINKER:--enable-new-dtags)
  target_link_libraries(time_calls PRIVATE p5bench_settings CUDA::cudart NCCL::NCCL Threads::Threads)
endif()
