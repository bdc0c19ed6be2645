# Makes builds cheap (ADR-0170): standard headers are parsed once, and with CMAKE_UNITY_BUILD
# several files of a target share one compilation.  Both can be switched off:
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON, -DCMAKE_UNITY_BUILD=OFF.

# The most files compiled together.  More would cost less CPU time, but cores would wait for each
# other at the end.  Tests are compiled beside much else, and nobody waits for the first number of a
# build with sanitizers (ADR-0170).
set(kernbench_group_size 14)
set(kernbench_test_group_size 28)
if(KERNBENCH_SANITIZE)
  set(kernbench_group_size 28)
endif()

# Carries the standard headers and fmt, which most files use; it holds no code.
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp "")
add_library(kernbench_precompiled OBJECT ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
target_link_libraries(kernbench_precompiled PRIVATE kernbench_options fmt::fmt)
target_precompile_headers(kernbench_precompiled PRIVATE
  <algorithm> <array> <chrono> <cstdint> <cstring> <deque> <filesystem> <fmt/format.h> <functional>
  <map> <memory> <numeric> <optional> <set> <span> <string> <string_view> <tuple> <utility>
  <variant> <vector>)

# kernbench_compile_quickly(<target> <carrier>): the target's files find the carrier's headers compiled, and
# may be compiled together.
function(kernbench_compile_quickly target carrier)
  target_precompile_headers(${target} REUSE_FROM ${carrier})
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

# kernbench_group(<target> <files>...): files share a compilation in the order in which they are listed.
function(kernbench_group target)
  get_target_property(count ${target} kernbench_grouped)
  if(NOT count)
    set(count 0)
  endif()
  foreach(file IN LISTS ARGN)
    math(EXPR group "${count} / ${kernbench_group_size}")
    math(EXPR count "${count} + 1")
    set_source_files_properties(${file} TARGET_DIRECTORY ${target}
      PROPERTIES UNITY_GROUP "${target}_${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES kernbench_grouped ${count})
endfunction()

# kernbench_compile_alone(<files>...): files that replace something global, or need other options.
function(kernbench_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# kernbench_optimise(<files>...): files of a room whose loops run over many numbers, in a layer that is not
# optimised as the others are.
function(kernbench_optimise)
  get_directory_property(layer_folder PARENT_DIRECTORY)
  set_source_files_properties(${ARGN} DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} ${layer_folder}
    PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O2>")
endfunction()
