// The section `system` of a topology file: SIPs, their nodes, and the links between them.

#pragma once

#include "sim_engine/config/yaml_reader.h"
#include "sim_engine/topology/topology.h"

namespace kernbench {

// Reads the section `system` of a topology file.  The file's reader collects its errors.
Topology::System read_system(YamlMap& file);

// A link that is a map of its own, or is among other keys of a map.
LinkSpec read_link(YamlMap link);
LinkSpec link_in(YamlMap& link);

}  // namespace kernbench
