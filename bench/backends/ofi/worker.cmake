# p5bench-worker-ofi: the program that p5bench starts for each rank of --backend ofi. Without libfabric's headers it is
# left out, with a line that says so.
# The EFA installer's own comes first.
set(pkg_config_path $ENV{PKG_CONFIG_PATH})
set(ENV{PKG_CONFIG_PATH} "/opt/amazon/efa/lib64/pkgconfig:/opt/amazon/efa/lib/pkgconfig:${pkg_config_path}")
pkg_check_modules(libfabric IMPORTED_TARGET libfabric>=1.9)
set(ENV{PKG_CONFIG_PATH} "${pkg_config_path}")
if(NOT libfabric_FOUND)
  message(STATUS "No libfabric 1.9 or later (libfabric-dev; PKG_CONFIG_PATH says where): p5bench-worker-ofi is left out")
  return()
endif()
message(STATUS "p5bench-worker-ofi: libfabric ${libfabric_VERSION}")
file(GLOB ofi_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
add_executable(p5bench-worker-ofi ${ofi_sources})
add_dependencies(p5bench p5bench-worker-ofi)
set_target_properties(p5bench-worker-ofi PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$<$<NOT:$<BOOL:${P5BENCH_PORTABLE}>>:${libfabric_LIBDIR}>")
target_link_options(p5bench-worker-ofi PRIVATE LINKER:--enable-new-dtags)  # RUNPATH: LD_LIBRARY_PATH comes before it
target_link_libraries(p5bench-worker-ofi PRIVATE p5bench_core PkgConfig::libfabric ${CMAKE_DL_LIBS})
install(TARGETS p5bench-worker-ofi RUNTIME DESTINATION lib/p5bench)
