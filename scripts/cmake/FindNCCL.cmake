# NCCL's header and shared library: beside CUDA, in the system's folders, or below NCCL_HOME. Makes NCCL::NCCL.
find_path(NCCL_INCLUDE_DIR nccl.h
          HINTS ENV NCCL_HOME ${CUDAToolkit_INCLUDE_DIRS} PATHS /usr/local/cuda /usr/local/nccl PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2
             HINTS ENV NCCL_HOME ${CUDAToolkit_LIBRARY_DIR} PATHS /usr/local/cuda /usr/local/nccl
             PATH_SUFFIXES lib lib64)
if(NCCL_INCLUDE_DIR)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h nccl_numbers REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" nccl_numbers "${nccl_numbers}")
  string(REPLACE ";" "." NCCL_VERSION "${nccl_numbers}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
if(NCCL_FOUND AND NOT TARGET NCCL::NCCL)
  add_library(NCCL::NCCL SHARED IMPORTED)
  set_target_properties(NCCL::NCCL PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
