# What `cmake --graphviz` draws: the rooms alone (CONTRIBUTING.md).
set(GRAPHVIZ_GRAPH_NAME "rooms")
set(GRAPHVIZ_EXECUTABLES FALSE)
set(GRAPHVIZ_STATIC_LIBS FALSE)
set(GRAPHVIZ_EXTERNAL_LIBS FALSE)
set(GRAPHVIZ_CUSTOM_TARGETS FALSE)
set(GRAPHVIZ_GENERATE_PER_TARGET FALSE)
set(GRAPHVIZ_GENERATE_DEPENDERS FALSE)
set(GRAPHVIZ_IGNORE_TARGETS "^umbrella_check$" "^kernbench_" "^kernbench$" "_test$" "^fmt" "^Boost" "^yaml" "^Threads" "^Eigen" "^CLI" "^nlohmann" "^Catch2" "_options$" "::")
