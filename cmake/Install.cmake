# The installed package: find_package(kernbench CONFIG), target kernbench::kernbench, header
# <kernbench/kernbench.h> (ADR-0107).
include(CMakePackageConfigHelpers)

set(kernbench_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kernbench)
set(kernbench_include_dir ${CMAKE_INSTALL_INCLUDEDIR}/kernbench)
set(kernbench_topology_dir ${CMAKE_INSTALL_DATADIR}/kernbench/topologies)

# All layers under one name, and the umbrella header.
add_library(kernbench_umbrella INTERFACE)
add_library(kernbench::kernbench ALIAS kernbench_umbrella)
set_target_properties(kernbench_umbrella PROPERTIES EXPORT_NAME kernbench)
target_include_directories(kernbench_umbrella INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/benches/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# from_eigen() and to_eigen() take a user's matrices (no header of kernbench includes Eigen).
target_link_libraries(kernbench_umbrella INTERFACE Eigen3::Eigen)
# Workers and kernels run on fibers: their frames must not jump over a stack's guard page.
target_compile_options(kernbench_umbrella INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:-fstack-clash-protection>)
install(TARGETS kernbench_umbrella EXPORT kernbenchTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/benches/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

foreach(folder IN LISTS KERNBENCH_LAYERS)
  if(NOT TARGET kernbench_${folder})
    continue()
  endif()
  target_link_libraries(kernbench_umbrella INTERFACE kernbench::${folder})
  install(TARGETS kernbench_${folder} EXPORT kernbenchTargets
    ARCHIVE FILE_SET HEADERS DESTINATION ${kernbench_include_dir})
endforeach()
if(TARGET kernbench)  # the program
  install(TARGETS kernbench RUNTIME)
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/topologies/ DESTINATION ${kernbench_topology_dir}
  FILES_MATCHING PATTERN *.yaml)
install(FILES ${PROJECT_SOURCE_DIR}/ccl/ccl.yaml DESTINATION ${CMAKE_INSTALL_DATADIR}/kernbench)
install(FILES ${PROJECT_SOURCE_DIR}/runtime/kernbench_gdb.py
  DESTINATION ${CMAKE_INSTALL_DATADIR}/kernbench)

# The guides and their drawings, in folders as here, so that their links to each other hold.
file(GLOB guides RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/*.md)
foreach(floor IN ITEMS benches ccl runtime sim_engine topologies tp test)
  file(GLOB_RECURSE of_floor RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/${floor}/*.md ${PROJECT_SOURCE_DIR}/${floor}/*.svg)
  list(APPEND guides ${of_floor})
endforeach()
list(APPEND guides LICENSE ccl/ccl.yaml)
foreach(guide IN LISTS guides)
  cmake_path(GET guide PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${guide} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/adr ${PROJECT_SOURCE_DIR}/adr-ko ${PROJECT_SOURCE_DIR}/gallery
  DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_file(${CMAKE_CURRENT_LIST_DIR}/kernbench-config.in ${PROJECT_BINARY_DIR}/kernbench-config
  @ONLY)
install(PROGRAMS ${PROJECT_BINARY_DIR}/kernbench-config TYPE BIN)

install(EXPORT kernbenchTargets NAMESPACE kernbench:: DESTINATION ${kernbench_cmake_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/kernbenchConfig.cmake.in
  ${PROJECT_BINARY_DIR}/kernbenchConfig.cmake
  INSTALL_DESTINATION ${kernbench_cmake_dir}
  PATH_VARS kernbench_topology_dir)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kernbenchConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/kernbenchConfig.cmake ${PROJECT_BINARY_DIR}/kernbenchConfigVersion.cmake
  DESTINATION ${kernbench_cmake_dir})
