// How a tensor is placed inside one device (ADR-0026), and the keyword arguments of functions that
// make tensors, reduce them or move them.

#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/shape.h"
#include "sim_engine/topology/location.h"

namespace kernbench {

// A DPPolicy says how a tensor is placed inside one device (ADR-0026).

// One level of a placement, with the meaning of DTensor's placements for k holders:
//   replicate    each holds the whole tensor
//   row_wise     the first dimension is split into chunks of ceil(size / k) (torch.chunk); the
//                last chunks may be smaller or empty
//   column_wise  the last dimension is split in the same way
//   partial      each holds a summand of the same shape; the tensor's value is their sum
enum class Shard : std::uint8_t { replicate, row_wise, column_wise, partial };

std::string_view name_of(Shard shard);

// The cubes of a device share a tensor; then the PEs of each cube share the cube's part.
struct DPPolicy {
  Shard cube = Shard::replicate;
  Shard pe = Shard::replicate;
  int num_cubes = 0;  // the first cubes are used; 0: all
  int num_pes = 0;    // of each cube, the first PEs are used; 0: all
  // A matrix whose parts every PE of the device reads where they lie: matrix products take it as
  // they take a replicated one.
  bool is_shared = false;

  // Return how many cubes of a device, and PEs of a cube, hold a part, counting all where the
  // policy has 0.
  int cube_holders(const Topology& topology) const;
  int pe_holders(const Topology& topology) const;

  // One copy, on the first PE of the first cube.
  static constexpr DPPolicy on_one_pe() {
    return {.cube = Shard::replicate, .pe = Shard::replicate, .num_cubes = 1, .num_pes = 1};
  }
  // A matrix lies once on the device, its rows over all PEs, which share it; what is no matrix is
  // small beside those, and each PE has a copy.  For the parameters of a model whose samples lie
  // row by row.
  static constexpr DPPolicy shared(int num_cubes = 0, int num_pes = 0) {
    return {Shard::row_wise, Shard::row_wise, num_cubes, num_pes, true};
  }
  // Returns the policy that places a tensor of so many dimensions: a shared one is for matrices.
  constexpr DPPolicy for_rank(std::size_t rank) const {
    if (!is_shared || rank == 2) return *this;
    return {Shard::replicate, Shard::replicate, num_cubes, num_pes};
  }

  // The former name of on_one_pe(), for programs that have it.
  static constexpr DPPolicy replicated() { return on_one_pe(); }

  friend bool operator==(const DPPolicy&, const DPPolicy&) = default;
};

// True if the holders have summands.
constexpr bool is_partial(const DPPolicy& policy) {
  return policy.cube == Shard::partial || policy.pe == Shard::partial;
}

// Returns the policy after the summands are added up: every holder of a summand has the sum.
constexpr DPPolicy summed(DPPolicy policy) {
  if (policy.cube == Shard::partial) policy.cube = Shard::replicate;
  if (policy.pe == Shard::partial) policy.pe = Shard::replicate;
  return policy;
}

// "cube=partial, pe=column_wise"
std::string to_string(const DPPolicy& policy);

constexpr bool is_sharded(Shard shard) {
  return shard == Shard::row_wise || shard == Shard::column_wise;
}

// One holder's part of a tensor.
struct ShardInfo {
  int sip = 0;
  int cube = 0;
  int pe = 0;
  std::vector<std::int64_t> offset;  // of its first element in the tensor, per dimension
  Shape shape;
  Bytes address = 0;  // virtual, in the SIP's address space
  // The distances from index to index, in elements, of a view whose elements do not lie row by row;
  // empty for other tensors.
  std::vector<std::int64_t> strides = {};
};

// Returns the parts of a tensor on device `sip`, by cube, then PE.  A tensor on several SIPs
// starts at that one, and each SIP has a column-wise part.
// Throws DeviceError KB-K010 if the policy asks for more SIPs, cubes or PEs than there are.
std::vector<ShardInfo> place(const DPPolicy& policy, const Shape& shape, const Topology& topology,
                             int sip, int num_sips = 1);

// "ahbm:1" is a device (SIP) of the tensor's context, "ahbm" the caller's
// (torch.ahbm.set_device()), "cpu" the host, whose tensors are constants to copy from.
class Device {
 public:
  // Implicit: callers pass texts.  Throws DeviceError KB-M024 for another text.
  Device(std::string_view text);
  Device(const char* text) : Device(std::string_view(text)) {}

  bool is_host() const { return index_ == kHost; }
  // The number of the device; `current` where the text has none.  REQUIRES: !is_host()
  int index_or(int current) const { return index_ == kCurrent ? current : index_; }

 private:
  static constexpr int kHost = -1;
  static constexpr int kCurrent = -2;

  int index_ = kCurrent;
};

// The dimensions that a reduction reduces, negative ones counted from the last: `1`, `{0, -1}`, or
// none, which stands for all.
class Dimensions {
 public:
  Dimensions() = default;
  Dimensions(int dimension) : numbers_{dimension} {}
  Dimensions(std::same_as<bool> auto) = delete;  // it would count as 0 or 1
  Dimensions(std::initializer_list<int> dimensions) : numbers_(dimensions) {}

  const std::vector<int>& numbers() const { return numbers_; }

 private:
  std::vector<int> numbers_;
};

// The keyword arguments of torch's zeros(), full(), ...
struct TensorOptions {
  // The type is f32 if none is given; for arange() and randint() of whole numbers it is i64.
  std::optional<DType> dtype = {};
  DPPolicy dp = {};
  std::string name = {};  // for messages; "tensor<n>" if empty
  // The number of SIPs, from the caller's device on, over which the last dimension is split before
  // `dp` places each part.  Only a single driver whose PEs are ranks (ADR-0024) sets it.
  int num_sips = 1;
};

}  // namespace kernbench
