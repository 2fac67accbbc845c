# libnccl-tuner-p5bench.so is loaded into other people's programs, so it links the C++ library statically where there is
# a static one, exports only the symbols of NCCL's interface, and needs neither NCCL nor CUDA.
include(CheckCXXSourceCompiles)
set(tuner_plugin_sources ${CMAKE_CURRENT_LIST_DIR}/../table.cpp ${CMAKE_CURRENT_LIST_DIR}/communicator_tuner.cpp)

set(CMAKE_REQUIRED_LINK_OPTIONS -static-libstdc++ -static-libgcc)
check_cxx_source_compiles("#include <string>\nint main(int n, char**) { return std::to_string(n).empty(); }"
                          P5BENCH_STATIC_LIBSTDCXX)
unset(CMAKE_REQUIRED_LINK_OPTIONS)

set(tuner_plugin_map ${CMAKE_CURRENT_LIST_DIR}/libnccl-tuner-p5bench.map)
add_library(nccl-tuner-p5bench MODULE ${tuner_plugin_sources} ${CMAKE_CURRENT_LIST_DIR}/library.cpp)
target_link_libraries(nccl-tuner-p5bench PRIVATE p5bench_settings ${CMAKE_DL_LIBS})
# -Bsymbolic: in p5bench's worker the library uses its own symbols, not the worker's of the same names.
target_link_options(nccl-tuner-p5bench PRIVATE LINKER:--version-script=${tuner_plugin_map} LINKER:-Bsymbolic
  $<$<BOOL:${P5BENCH_STATIC_LIBSTDCXX}>:-static-libstdc++> $<$<AND:$<BOOL:${P5BENCH_STATIC_LIBSTDCXX}>,$<NOT:$<BOOL:${P5BENCH_PORTABLE}>>>:-static-libgcc>)
set_target_properties(nccl-tuner-p5bench PROPERTIES
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS ${tuner_plugin_map}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
install(TARGETS nccl-tuner-p5bench LIBRARY DESTINATION lib/p5bench)
