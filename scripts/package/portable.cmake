# P5BENCH_PORTABLE: programs that run on other systems than the one that builds them, from glibc 2.34 on (Amazon Linux
# 2023, Ubuntu 22.04). libstdc++, fmt, hwloc, zlib and Google Benchmark are linked statically; libgcc_s, Open MPI,
# libfabric and NCCL are the user's, found by the loader. Without it all libraries are linked as they are installed, with the
# paths where the build found them.
option(P5BENCH_PORTABLE "Build for packages" OFF)
# Traces of jobs may be gzip; without zlib they have to be unpacked first.
set(ZLIB_USE_STATIC_LIBS ${P5BENCH_PORTABLE})
find_package(ZLIB)
if(ZLIB_FOUND)
  add_library(p5bench_zlib ALIAS ZLIB::ZLIB)
endif()
if(NOT P5BENCH_PORTABLE)
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
  add_library(p5bench_fmt ALIAS fmt::fmt)
  add_library(p5bench_hwloc ALIAS PkgConfig::hwloc)
  return()
endif()
set(CMAKE_SKIP_BUILD_RPATH ON)

# Debian has no static libfmt.
add_library(p5bench_fmt ALIAS fmt::fmt-header-only)

add_library(p5bench_portable STATIC ${CMAKE_CURRENT_LIST_DIR}/portable.cpp)
set_target_properties(p5bench_portable PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)

find_library(P5BENCH_HWLOC_STATIC libhwloc.a HINTS ${hwloc_LIBRARY_DIRS} REQUIRED)
add_library(p5bench_hwloc INTERFACE)
target_include_directories(p5bench_hwloc SYSTEM INTERFACE ${hwloc_INCLUDE_DIRS})
target_link_libraries(p5bench_hwloc INTERFACE ${P5BENCH_HWLOC_STATIC} p5bench_portable ${CMAKE_DL_LIBS} m)

# -u pulls the symbols into each program before libstdc++, which is last, needs them. libgcc stays shared: the static
# one of newer compilers needs more of glibc than 2.34 has, and each system has the shared one for its glibc.
target_link_options(p5bench_settings INTERFACE -static-libstdc++ LINKER:--exclude-libs,ALL LINKER:-u,arc4random)
target_link_libraries(p5bench_settings INTERFACE p5bench_portable)

# Google Benchmark, static: from CMAKE_PREFIX_PATH, or built from its sources. Without it the worker does not check
# single GPUs.
set(P5BENCH_BENCHMARK_SOURCE "" CACHE PATH "Folder with the sources of Google Benchmark, for P5BENCH_PORTABLE")
if(P5BENCH_BENCHMARK_SOURCE)
  foreach(part TESTING WERROR INSTALL INSTALL_DOCS)
    set(BENCHMARK_ENABLE_${part} OFF CACHE BOOL "" FORCE)
  endforeach()
  set(BUILD_SHARED_LIBS OFF)
  add_subdirectory(${P5BENCH_BENCHMARK_SOURCE} ${CMAKE_BINARY_DIR}/benchmark EXCLUDE_FROM_ALL SYSTEM)
endif()
