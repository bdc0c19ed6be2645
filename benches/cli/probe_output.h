// Every probe prints a head, and then its figures for people or for machines.

#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "sim_engine/topology/topology.h"

namespace kernbench::benches::cli {

using Json = nlohmann::ordered_json;

// "# kernbench VERSION: WHAT on default (2 SIPs ...)"
std::string first_line(std::string_view what, const Topology& topology);

// Writes JSON where it was asked for, and the text to stdout or, if that has the JSON, to stderr.
void show(const std::string& json_name, const Json& json, std::string_view text);

}  // namespace kernbench::benches::cli
