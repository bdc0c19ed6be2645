# Lowest first.  A folder may use folders to its left, never to its right; tp and ccl do not know
# each other (their USES say so, and test/tidy holds it).
set(KERNBENCH_LAYERS sim_engine runtime ccl tp benches)

# kernbench_library(<folder> USES <lower folders> LINKS <packages in our headers>
#                   HIDES <packages in our .cpp files only>)
# The folder's sources are added by kernbench_sources(), a call in each subfolder.
function(kernbench_library folder)
  cmake_parse_arguments(arg "" "" "USES;LINKS;HIDES" ${ARGN})
  list(FIND KERNBENCH_LAYERS ${folder} own_layer)
  foreach(used IN LISTS arg_USES)
    list(FIND KERNBENCH_LAYERS ${used} used_layer)
    if(used_layer EQUAL -1 OR used_layer GREATER_EQUAL own_layer)
      message(FATAL_ERROR "${folder} may not use ${used}: layers are ${KERNBENCH_LAYERS}")
    endif()
  endforeach()
  list(TRANSFORM arg_USES PREPEND kernbench::)
  add_library(kernbench_${folder} STATIC)
  add_library(kernbench::${folder} ALIAS kernbench_${folder})
  set_target_properties(kernbench_${folder} PROPERTIES EXPORT_NAME ${folder})
  target_include_directories(kernbench_${folder} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/kernbench>)
  target_compile_features(kernbench_${folder} PUBLIC cxx_std_20)
  target_link_libraries(kernbench_${folder}
    PUBLIC ${arg_USES} ${arg_LINKS}
    PRIVATE ${arg_HIDES} $<BUILD_INTERFACE:kernbench_options>)
  kernbench_compile_quickly(kernbench_${folder} kernbench_precompiled)
endfunction()

# kernbench_sources(<folder> HEADERS ... SOURCES ...), with paths relative to the calling directory.
function(kernbench_sources folder)
  cmake_parse_arguments(arg "" "" "HEADERS;SOURCES" ${ARGN})
  list(TRANSFORM arg_HEADERS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(kernbench_${folder} PRIVATE ${arg_SOURCES} ${arg_HEADERS})
  kernbench_group(kernbench_${folder} ${arg_SOURCES})
  set_property(GLOBAL APPEND PROPERTY kernbench_headers ${arg_HEADERS})
endfunction()
