# Writes the manual page and the completion, which PROGRAM prints, into FOLDER. This works also where the build itself
# runs in a job.
set(no_launcher "")
foreach(name OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK PMI_SIZE PMI_RANK PMI_FD PMIX_RANK PMIX_NAMESPACE
        SLURM_STEP_NUM_TASKS SLURM_PROCID SLURM_STEP_ID)
  list(APPEND no_launcher --unset=${name})
endforeach()
foreach(pair man:p5bench.1 bash:p5bench.bash)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 what)
  list(GET pair 1 file)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env ${no_launcher} ${PROGRAM} describe ${what}
                  OUTPUT_VARIABLE text ERROR_VARIABLE problem RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${PROGRAM} describe ${what} ended with ${status}: ${problem}")
  endif()
  file(WRITE ${FOLDER}/${file} "${text}")
endforeach()
