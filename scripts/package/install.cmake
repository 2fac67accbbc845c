# Installed files besides programs and libraries. In PREFIX: bin/p5bench, lib/p5bench for the programs and libraries
# that it uses, share/p5bench for data.
set(description_folder ${CMAKE_BINARY_DIR}/describe)
add_custom_command(OUTPUT ${description_folder}/p5bench.1 ${description_folder}/p5bench.bash
  COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:p5bench> -D FOLDER=${description_folder}
          -P ${CMAKE_CURRENT_LIST_DIR}/describe.cmake
  DEPENDS p5bench ${CMAKE_CURRENT_LIST_DIR}/describe.cmake VERBATIM)
add_custom_target(p5bench_descriptions ALL DEPENDS ${description_folder}/p5bench.1)

install(FILES ${description_folder}/p5bench.1 DESTINATION share/man/man1)
install(FILES ${description_folder}/p5bench.bash DESTINATION share/bash-completion/completions RENAME p5bench)
install(FILES README.md CHANGELOG.md DESTINATION share/doc/p5bench)
foreach(folder schema grafana)
  install(DIRECTORY reports/${folder} DESTINATION share/p5bench FILES_MATCHING PATTERN "*.json")
endforeach()
install(DIRECTORY scripts/k8s DESTINATION share/p5bench)
install(PROGRAMS scripts/slurm/prolog scripts/slurm/p5bench.sbatch DESTINATION share/p5bench/slurm)

# ---- packages: cmake --workflow --preset package
option(P5BENCH_PACKAGE_WITHOUT_NCCL "Make packages without p5bench-worker-nccl, for clusters without GPUs" OFF)
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" platform)
set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_PACKAGE_NAME p5bench)
set(CPACK_PACKAGE_VENDOR p5bench)
set(CPACK_PACKAGE_CONTACT "p5bench <p5bench@invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Benchmark and acceptance test of GPU clusters")
# Which drivers a package runs on hangs on the CUDA that it is built with: 12 runs from driver 525 on, 13 from 580 on.
set(package_cuda "")
if(TARGET p5bench-worker-nccl)
  set(package_cuda cuda${CUDAToolkit_VERSION_MAJOR})
endif()
string(REGEX REPLACE "-+" "-" CPACK_PACKAGE_FILE_NAME "p5bench-${PROJECT_VERSION}-${package_cuda}-${platform}")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/check_contents.cmake)
set(CPACK_P5BENCH_WITHOUT_NCCL ${P5BENCH_PACKAGE_WITHOUT_NCCL})
set(CPACK_P5BENCH_PORTABLE ${P5BENCH_PORTABLE})

string(REPLACE x86_64 amd64 debian_processor ${CMAKE_SYSTEM_PROCESSOR})
string(REPLACE aarch64 arm64 debian_processor ${debian_processor})
string(REGEX REPLACE "_+" "_" CPACK_DEBIAN_FILE_NAME "p5bench_${PROJECT_VERSION}_${package_cuda}_${debian_processor}.deb")
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Measures point-to-point and collective communication over NCCL, MPI or libfabric,
checks every result, judges each figure against what the hardware can do, and
names the part that is slow.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openmpi-bin)
# NCCL must be found but is no dependency: it is the user's.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib ${nccl_folder})
include(CPack)
