# The walls of the house: layers, and rooms inside of them (ADR-0172).

# Lowest first.  A folder may use folders to its left, never to its right; tp and ccl do not know
# each other (their USES say so, and test/tidy holds it).
set(KERNBENCH_LAYERS sim_engine runtime ccl tp benches)

# kernbench_layer(<folder> USES <lower folders> LINKS <packages in our headers>
#                 HIDES <packages in our .cpp files only>)
# The library of a top-level folder; its rooms are added by kernbench_room(), a call in each
# subfolder.
function(kernbench_layer folder)
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
  set_target_properties(kernbench_${folder} PROPERTIES EXPORT_NAME ${folder} LINKER_LANGUAGE CXX)
  target_include_directories(kernbench_${folder} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_compile_features(kernbench_${folder} PUBLIC cxx_std_20)
  target_link_libraries(kernbench_${folder}
    PUBLIC ${arg_USES} ${arg_LINKS}
    PRIVATE ${arg_HIDES} $<BUILD_INTERFACE:kernbench_options>)
  kernbench_compile_quickly(kernbench_${folder} kernbench_precompiled)
endfunction()

# kernbench_room(USES <rooms> INSTALLS <headers> HEADERS <headers> SOURCES <files> ALONE <files>)
# The calling folder as a target, kernbench.runtime.tensor for runtime/tensor.  Its files may
# include those of the rooms that it uses, and no others: test/tidy reads rooms.txt.  A room must be
# declared before it is used, so rooms cannot form a cycle.  The headers of INSTALLS are the public
# ones.  The files of ALONE are generated or have options of their own.
function(kernbench_room)
  cmake_parse_arguments(arg "" "" "USES;INSTALLS;HEADERS;SOURCES;ALONE" ${ARGN})
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}
    OUTPUT_VARIABLE room)
  kernbench_check_uses(${room} ${arg_USES})
  string(REGEX REPLACE "/.*" "" layer ${room})
  foreach(files INSTALLS HEADERS)
    list(TRANSFORM arg_${files} PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  endforeach()
  kernbench_room_target(${room} ${layer} "${arg_USES}" "${arg_SOURCES}" "${arg_ALONE}")
  target_sources(kernbench_${layer} PUBLIC
    FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_INSTALLS})
  set_property(GLOBAL APPEND PROPERTY kernbench_headers ${arg_INSTALLS} ${arg_HEADERS})
  foreach(header IN LISTS arg_INSTALLS)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_property(GLOBAL APPEND_STRING PROPERTY kernbench_installed "${header}\n")
  endforeach()
  list(JOIN arg_USES " " uses)
  set_property(GLOBAL APPEND_STRING PROPERTY kernbench_rooms "${room}: ${uses}\n")
endfunction()

function(kernbench_check_uses room)
  foreach(used IN LISTS ARGN)
    string(REPLACE "/" "." target kernbench.${used})
    if(NOT TARGET ${target})
      message(FATAL_ERROR "${room} may not use ${used}: no room of that name is declared before it")
    endif()
  endforeach()
endfunction()

# In unity builds the layer compiles the files of its rooms, which include much the same headers.
function(kernbench_room_target room layer uses sources alone)
  string(REPLACE "/" "." name kernbench.${room})
  string(REPLACE "/" "." used_targets "${uses}")
  list(TRANSFORM used_targets PREPEND kernbench.)
  if(CMAKE_UNITY_BUILD)
    list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    target_sources(kernbench_${layer} PRIVATE ${sources})
    kernbench_group(kernbench_${layer} ${sources})
    set(sources "")
  endif()
  if(NOT sources AND NOT alone)
    add_library(${name} INTERFACE)
    return()
  endif()
  get_target_property(packages kernbench_${layer} LINK_LIBRARIES)
  list(FILTER packages EXCLUDE REGEX "^kernbench::")
  add_library(${name} OBJECT ${sources} ${alone})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${used_targets} PRIVATE ${packages} fmt::fmt)
  target_precompile_headers(${name} REUSE_FROM kernbench_precompiled)
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  target_sources(kernbench_${layer} PRIVATE $<TARGET_OBJECTS:${name}>)
endfunction()

# What test/tidy reads.
function(kernbench_write_rooms)
  get_property(rooms GLOBAL PROPERTY kernbench_rooms)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/rooms.txt CONTENT "${rooms}")
  get_property(headers GLOBAL PROPERTY kernbench_installed)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/installed.txt CONTENT "${headers}")
endfunction()
