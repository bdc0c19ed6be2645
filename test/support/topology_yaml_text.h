// A topology as the text of a file that describes it.

#pragma once

#include <string>

#include "sim_engine/topology/topology.h"

namespace kernbench::test {

// REQUIRES: topology.check() throws nothing
std::string to_yaml(const Topology& topology);

}  // namespace kernbench::test
