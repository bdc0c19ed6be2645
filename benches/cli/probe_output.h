// Every probe reads numbers, and prints a head and then its figures for people or for machines.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "sim_engine/topology/topology.h"

namespace kernbench::benches::cli {

using Json = nlohmann::ordered_json;

// Throws UsageError KB-U012 that names the option, if it is no integer from `min` to `max`.
std::int64_t parse_number(std::string_view option, std::string_view text, std::int64_t min,
                          std::int64_t max);

// "# kernbench VERSION: WHAT on default (2 SIPs ...)"
std::string first_line(std::string_view what, const Topology& topology);

// Writes JSON where it was asked for, and the text to stdout or, if that has the JSON, to stderr.
void show(const std::string& json_name, const Json& json, std::string_view text);

}  // namespace kernbench::benches::cli
