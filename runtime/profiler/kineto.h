// The trace of a run as PyTorch's profiler (Kineto) writes it: a document for each device, which
// HTA reads (ADR-0203).
//
// Kernels are events on stream 7, messages on stream 19, collectives of group g on stream 20 + g,
// named "ncclKernel_..." since HTA knows communication by that name; scopes and launches are events
// of the host.  Its temporal breakdown has the figures of Profile::ranks: compute time is
// compute_only and both, non-compute time exposed, idle time idle.

#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace kernbench::runtime {

class Simulation;

// Returns a document for each device.  REQUIRES: the simulation keeps a run log
std::vector<std::string> kineto_traces(const Simulation& simulation);

// The name of a device's file: "rank3.json".
std::string kineto_file_name(std::size_t device);
// HTA reads all files of a folder: removes those of further devices than `count`, which an earlier
// run has left there.
void remove_stale_kineto_files(const std::filesystem::path& folder, std::size_t count);

}  // namespace kernbench::runtime
