# The walls of the house: layers, and rooms inside of them (ADR-0107).

# Lowest first.  A folder may use folders to its left, never to its right; tp and ccl do not know
# each other (their USES say so, and test/tidy holds it).
set(KERNBENCH_LAYERS sim_engine runtime ccl tp benches)

# kernbench_layer(<folder> USES <lower folders> LINKS <packages in our headers>
#                 HIDES <packages in our .cpp files only> FIRST <rooms>)
# The library of a top-level folder; its rooms are added by kernbench_room(), a call in each
# subfolder.  The rooms of FIRST are those that the program first_screen needs (ADR-0170): they
# share no compilation with the others.
function(kernbench_layer folder)
  cmake_parse_arguments(arg "" "" "USES;LINKS;HIDES;FIRST" ${ARGN})
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
  set_target_properties(kernbench_${folder} PROPERTIES kernbench_first_rooms "${arg_FIRST}")
  if(CMAKE_UNITY_BUILD AND arg_FIRST)
    kernbench_first_part(${folder} ${arg_USES} ${arg_LINKS} ${arg_HIDES})
  endif()
endfunction()

# The rooms of FIRST as a target, whose objects belong to the layer and to first_screen.
function(kernbench_first_part folder)
  set(part kernbench_${folder}_first)
  add_library(${part} OBJECT)
  target_include_directories(${part} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${part} PRIVATE ${ARGN} kernbench_options)
  kernbench_compile_quickly(${part} kernbench_precompiled)
  kernbench_add_objects(${folder} ${part} TRUE)
endfunction()

# kernbench_add_objects(<layer> <target> <whether first_screen needs them>)
function(kernbench_add_objects layer target is_first)
  target_sources(kernbench_${layer} PRIVATE $<TARGET_OBJECTS:${target}>)
  if(is_first)
    set_property(GLOBAL APPEND PROPERTY kernbench_first_objects $<TARGET_OBJECTS:${target}>)
  endif()
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
  get_target_property(first kernbench_${layer} kernbench_first_rooms)
  set(is_first FALSE)
  string(REGEX REPLACE "^[^/]*/" "" short_name ${room})
  if(short_name IN_LIST first)
    set(is_first TRUE)
  endif()
  if(CMAKE_UNITY_BUILD)
    set(compiles kernbench_${layer})
    if(is_first)
      set(compiles kernbench_${layer}_first)
    endif()
    list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    target_sources(${compiles} PRIVATE ${sources})
    kernbench_group(${compiles} ${sources})
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
  kernbench_add_objects(${layer} ${name} ${is_first})
endfunction()

# What test/tidy reads.
function(kernbench_write_rooms)
  get_property(rooms GLOBAL PROPERTY kernbench_rooms)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/rooms.txt CONTENT "${rooms}")
  get_property(headers GLOBAL PROPERTY kernbench_installed)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/installed.txt CONTENT "${headers}")
endfunction()
