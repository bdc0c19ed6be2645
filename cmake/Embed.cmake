# kernbench_embed(<variable> HEADER <h> NAMESPACE <namespace> FUNCTION <name> FILES <paths>)
# Sets `variable` to a source file which is written when the files change and defines the function
# that `HEADER` declares: std::span<const EmbeddedFile> name().  So the program works from any folder.
function(kernbench_embed variable)
  cmake_parse_arguments(arg "" "HEADER;NAMESPACE;FUNCTION" "FILES" ${ARGN})
  set(script ${PROJECT_SOURCE_DIR}/cmake/write_embedded_files.cmake)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${arg_FUNCTION}.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${arg_HEADER} -DNAMESPACE=${arg_NAMESPACE}
            -DFUNCTION=${arg_FUNCTION} "-DFILES=${arg_FILES}" -P ${script}
    DEPENDS ${arg_FILES} ${script}
    COMMENT "Embedding ${arg_FUNCTION}"
    VERBATIM)
  set(${variable} ${output} PARENT_SCOPE)
endfunction()
