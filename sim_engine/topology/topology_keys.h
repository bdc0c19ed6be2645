// The keys of a topology file: a list of them, and topologies with other values.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/config/yaml_key.h"
#include "sim_engine/topology/topology.h"

namespace kernbench {

// Every key that a topology file may have, with the values of this one.  Throws like
// YamlDocument::parse().
std::vector<YamlKey> topology_keys(std::string_view text, const std::string& name);

// Topology::parse() of a text in which these keys have other values.
Topology changed_topology(std::string_view text, const std::string& name,
                          std::span<const YamlChange> changes);

}  // namespace kernbench
