# p5bench_embed(TARGET SYMBOL FILE...): compiles files into TARGET as p5::embedded::SYMBOL (see
# bench/base/embedded.hpp), so that the program finds its data wherever it is installed.
function(p5bench_embed target symbol)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded_${symbol}.cpp)
  list(JOIN ARGN "|" files)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D SYMBOL=${symbol} -D OUTPUT=${output} "-DFILES=${files}"
            -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/WriteEmbedded.cmake
    DEPENDS ${ARGN} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/WriteEmbedded.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
