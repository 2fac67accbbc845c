# CPack calls this after installation and before packing: it refuses incomplete packages.
file(GLOB_RECURSE found LIST_DIRECTORIES false ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*)
if(NOT "${found}" MATCHES "/lib/p5bench/p5bench-worker-nccl(;|$)" AND NOT CPACK_P5BENCH_WITHOUT_NCCL)
  message(FATAL_ERROR "p5bench-worker-nccl is not there, and without it the package measures no GPUs: install CUDA and NCCL "
    "(CUDA_HOME and NCCL_HOME say where) and build again, or give -D P5BENCH_PACKAGE_WITHOUT_NCCL=ON for hosts without GPUs")
endif()
if(NOT CPACK_P5BENCH_PORTABLE)
  message(FATAL_ERROR "this build is for this system only: packages come of -D P5BENCH_PORTABLE=ON, which `cmake --workflow "
    "--preset package` gives")
endif()

# Everything in bin and lib, by the libraries that the loader needs.
find_program(objdump objdump REQUIRED)
foreach(file IN LISTS found)
  if(NOT file MATCHES "/(bin|lib)/")
    continue()
  endif()
  execute_process(COMMAND ${objdump} -T ${file} OUTPUT_VARIABLE symbols ERROR_QUIET)
  string(REGEX MATCHALL "GLIBC_2\\.(3[5-9]|[4-9][0-9])\\) *[A-Za-z0-9_]+|GLIBCXX_[0-9.]+\\) *[A-Za-z0-9_]+" newer "${symbols}")
  if(newer)
    cmake_path(GET file FILENAME name)
    list(JOIN newer ", " newer)
    message(FATAL_ERROR "${name} would not run where glibc is 2.34: it needs ${newer}. Build on Debian 12 or older")
  endif()
endforeach()

# dpkg-shlibdeps must ignore NCCL, which is the user's, even where here it comes from a package.
if(CPACK_GENERATOR STREQUAL "DEB")
  file(WRITE ${CPACK_TEMPORARY_DIRECTORY}/debian/shlibs.local "libnccl 2\n")
endif()
