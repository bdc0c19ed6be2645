// The complete list of the ways in which the host can read a tensor's values.
//
// Each of them first waits until the operations that the tensor depends on are done (ADR-0027):
// they call begin_host_read(), and no other code reads values.  A new entry point is added here,
// and the test that goes through this list covers it.  Writing into a tensor (copy_'s target) is
// left out on purpose: it must not wait for collectives of other ranks, which could be waiting for
// this one.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "runtime/fiber/fiber.h"
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
  indices,
};

inline constexpr std::array kHostReads = {
    HostRead::to_vector,   HostRead::shard_to_vector, HostRead::item,
    HostRead::at,          HostRead::to_eigen,        HostRead::format,
    HostRead::copy_source, HostRead::targets,         HostRead::indices};

std::string_view name_of(HostRead entry_point);

// True if a launch, copy or collective that uses the tensor is under way.
bool is_in_use(const Tensor::Storage& storage);

// Waits, as `entry_point`, until no launch, copy or collective that uses the tensor is under way.
// Throws CollectiveError KB-R012 inside a kernel.
void begin_host_read(Tensor::Storage& storage, HostRead entry_point);

// Waits until no launch, copy or collective that uses the tensor is under way, then throws what one
// that was queued has failed with.  `what` is for reports.
void wait_until_unused(Tensor::Storage& storage, DescribeWait what);

// Returns all elements, row by row, without changing the tensor.
std::vector<float> read_elements(const Tensor& tensor, HostRead entry_point);
// Reads whole numbers; elements of a type of floating point become i64
// (sim_engine/values/element_format.h).
std::vector<std::int64_t> read_integers(const Tensor& tensor, HostRead entry_point);

}  // namespace kernbench::runtime
