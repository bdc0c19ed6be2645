// The closed registry of the ways in which the host can see a tensor's values.
//
// Each of them first waits until what the tensor depends on is done (ADR-0027): they call
// begin_host_read() and nothing else reads values.  A new entry point gets a line here, and the
// test that goes through this list.  Writing into a tensor (copy_'s target) is not in it on
// purpose: it must not wait for collectives of other ranks, which could be waiting for this one.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "runtime/tensor/tensor.h"

namespace kernbench::runtime {

enum class HostRead : std::uint8_t {
  to_vector,
  shard_to_vector,
  item,
  at,
  to_eigen,
  format,
  copy_source,
  targets,
};

inline constexpr std::array kHostReads = {
    HostRead::to_vector, HostRead::shard_to_vector, HostRead::item,        HostRead::at,
    HostRead::to_eigen,  HostRead::format,          HostRead::copy_source, HostRead::targets};

std::string_view name_of(HostRead entry_point);

// Waits, as `entry_point`, until no launch, copy or collective that uses the tensor is under way.
// Throws CollectiveError KB-R012 inside a kernel.
void begin_host_read(Tensor::Storage& storage, HostRead entry_point);

// All elements, row by row, for what only needs to look at them.
std::vector<float> read_elements(const Tensor& tensor, HostRead entry_point);

}  // namespace kernbench::runtime
