// The inputs of a run: the user's files, or those that are built into the program.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ccl/core/config.h"
#include "sim_engine/base/embedded_file.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/shipped_topologies.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches {

// "ccl" is ccl/ccl.yaml as it was when the program was built, "h100_8" what belongs to that
// topology.
std::span<const EmbeddedFile> shipped_ccl_configs();
std::string_view shipped_ccl_config();

// The ccl.yaml in force: `ccl` if it is given; else the one that belongs to the topology, which a
// shipped topology has under its name and a file box.yaml in box/ccl.yaml beside it; else none.
std::string ccl_of(const std::string& topology, const std::string& ccl);
// The name of what load_ccl() reads in messages: "h100_8/ccl.yaml".
std::string ccl_name(const std::string& name_or_path);

// The first sentence of the comment that a shipped file begins with.
std::string first_sentence(std::string_view yaml);

// The file `name_or_path`, or a shipped topology of that name.  Throws UsageError KB-U004 with the
// nearest name if it is neither, and what Topology::load() throws.
Topology load_topology(const std::string& name_or_path);

// The texts that load_topology() and load_ccl() would read now.
std::string topology_text(const std::string& name_or_path);
std::string ccl_text(const std::string& name_or_path);

// "6 SIPs in a ring, 4 x 4 cubes of 8 PEs each"
std::string describe(const Topology& topology);
// "4 x 4 cubes of 8 PEs"
std::string describe_sip(const Topology& topology);
// The number of PEs in all cubes of a SIP.
int pes_of_sip(const Topology& topology);

// Loads the file, that of the shipped topology of this name, or ccl/ccl.yaml if it is empty.
ccl::Config load_ccl(const std::string& name_or_path);

// "64KiB" and "64Ki" are "64 KiB", "128GB/s" is "128 GB/s".
std::string with_spaced_unit(std::string_view text);

// "65536", "64KiB", "64 KiB".  Throws UsageError KB-U012 that names `option`.
Bytes parse_bytes(std::string_view option, std::string_view text);

}  // namespace kernbench::benches
