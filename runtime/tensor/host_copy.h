// Copies from the host into shards, over the host link.

#pragma once

#include <cstddef>
#include <memory>
#include <source_location>
#include <string_view>
#include <vector>

#include "runtime/tensor/host_elements.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/units.h"

namespace kernbench::runtime {

struct ShardWrite {
  std::size_t shard = 0;
  // The elements, row by row.  Writes of equal elements share these, and then also the
  // value: copies of a replicated tensor need the host's memory of one.
  std::shared_ptr<const HostElements> elements;
};

// Starts one transfer per shard at once and waits for the last; but of shards that share elements
// the first alone takes the host link, and the others leave the IO chiplet when it has landed
// (ADR-0033).  A shard's new contents are visible when its own transfer has landed.  `function` is
// the name of the user's call at `location`. Throws CollectiveError KB-R012 inside a kernel,
// KB-G003 if an operation under way uses the target (runtime/tensor/data_under_way.h).
void copy_from_host(const Tensor& target, std::vector<ShardWrite> writes, std::string_view function,
                    const std::source_location& location);

// Takes the time in which the elements come to the host over the host link, from one holder each,
// once what computes them is done, and returns it.  A host read behind it has them at no further
// cost: host reads themselves observe, and take no simulated time (ADR-0027).
// REQUIRES: x is on a device, and no strided view
Time carry_to_host(const Tensor& x);

// Do what Tensor::copy_() and Tensor::copy_shard_() do, without autograd.
// REQUIRES: both are defined, and of the same shape
void copy_elements(const Tensor& into, const Tensor& source,
                   const std::source_location& location = std::source_location::current());
// Returns a copy on another device, with the same placement, over the host link.  Throws
// CollectiveError KB-R003 if there is no such device.
Tensor copy_on(const Tensor& x, int device);
// Throws DeviceError KB-M017, KB-M015.  REQUIRES: both are defined
void copy_elements_of_shard(const Tensor& into, std::size_t index, const Tensor& source,
                            const std::source_location& location);

}  // namespace kernbench::runtime
