# The compile options of every target of this project.  None of them reaches a user's own targets.
add_library(kernbench_options INTERFACE)
target_compile_options(kernbench_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
  -ffp-contract=off            # the same bits whether or not the machine has FMA
  -fstack-clash-protection)    # a large frame cannot jump over a fiber's guard page
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)  # its -Wconversion has this one besides what that of g++ has
  target_compile_options(kernbench_options INTERFACE -Wno-sign-conversion)
endif()
target_compile_definitions(kernbench_options INTERFACE _GLIBCXX_ASSERTIONS)

# g++ looks for garbage whenever its heap has grown by some 100 MB, a tenth of the time of a large
# file.  It may grow to 2 GB first, where each core has as much (ADR-0170).
cmake_host_system_information(RESULT kernbench_megabytes QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT kernbench_cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR kernbench_megabytes "${kernbench_megabytes} / ${kernbench_cores}")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND kernbench_megabytes GREATER 2000)
  target_compile_options(kernbench_options INTERFACE --param=ggc-min-heapsize=2000000)
endif()

# What mostly runs once, such as tables and command lines: -O1 takes a fifth less to compile (ADR-0170).
add_library(kernbench_once_options INTERFACE)
target_compile_options(kernbench_once_options INTERFACE
  "$<$<CONFIG:Release>:-O1>"
  "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>")  # false alarms in std::optional

if(NOT KERNBENCH_PORTABLE AND EXISTS /proc/cpuinfo)
  file(READ /proc/cpuinfo kernbench_cpuinfo LIMIT 8192)
  if(kernbench_cpuinfo MATCHES " avx2 " AND kernbench_cpuinfo MATCHES " fma " AND
     kernbench_cpuinfo MATCHES " f16c " AND kernbench_cpuinfo MATCHES " bmi2 ")
    target_compile_options(kernbench_options INTERFACE -march=x86-64-v3)
  endif()
endif()

if(KERNBENCH_SANITIZE)
  target_compile_options(kernbench_options INTERFACE
    -fsanitize=${KERNBENCH_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # false alarms in instrumented std::regex and std::function
    target_compile_options(kernbench_options INTERFACE -Wno-maybe-uninitialized)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang AND KERNBENCH_SANITIZE MATCHES address)
    # Each fiber would get another stack for locals, to find their use after a return.
    target_compile_options(kernbench_options INTERFACE -fsanitize-address-use-after-return=never)
  endif()
  target_link_options(kernbench_options INTERFACE -fsanitize=${KERNBENCH_SANITIZE})
  # These checks are a third of the cost of the build.  AddressSanitizer finds what most of them
  # would: accesses through null or dangling pointers, or beyond an object.  x86 has no alignment
  # that compilers for it rely on at -Og.
  if(KERNBENCH_SANITIZE MATCHES address AND KERNBENCH_SANITIZE MATCHES undefined)
    target_compile_options(kernbench_options INTERFACE -fno-sanitize=alignment,null,object-size,vptr)
  endif()
  # The code asks for these names, since compilers disagree about theirs.
  if(KERNBENCH_SANITIZE MATCHES address)
    target_compile_definitions(kernbench_options INTERFACE KERNBENCH_ASAN)
  endif()
  if(KERNBENCH_SANITIZE MATCHES thread)
    target_compile_definitions(kernbench_options INTERFACE KERNBENCH_TSAN)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # it does not see the fences of Boost.Asio
      target_compile_options(kernbench_options INTERFACE -Wno-tsan)
    endif()
  endif()
endif()

# Use mold if it is installed: it links in a tenth of the time.
find_program(KERNBENCH_MOLD mold)
if(KERNBENCH_MOLD)
  target_link_options(kernbench_options INTERFACE -fuse-ld=mold)
endif()
