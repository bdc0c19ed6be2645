// How an operator's result lies inside the device, given how its operands do (ADR-0131).
//
// Every PE computes with its own shards and nothing moves between PEs: Megatron's algebra of cut
// matrices, once more, on the levels of a device.  Where it cannot go on, somebody has to
// communicate: a sum over holders (partial) becomes whole (replicate) by a collective alone.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::ops {

// One level of a placement, the cubes or each cube's PEs.  With one holder all are replicate.
struct Level {
  enum class Kind : std::uint8_t { replicate, cut, partial };

  Kind kind = Kind::replicate;
  std::size_t dimension = 0;  // that is cut

  bool is_replicate() const { return kind == Kind::replicate; }
  bool is_partial() const { return kind == Kind::partial; }
  bool is_cut() const { return kind == Kind::cut; }
  friend bool operator==(const Level&, const Level&) = default;
};

inline constexpr Level kReplicate{Level::Kind::replicate};
inline constexpr Level kPartial{Level::Kind::partial};
constexpr Level cut(std::size_t dimension) {
  return {Level::Kind::cut, dimension};
}

// A DPPolicy, with the numbers of holders that 0 stands for, and dimensions instead of rows and
// columns: those of a vector are the same.
struct Placement {
  int device = 0;
  int num_cubes = 1;
  int num_pes = 1;
  Level cube;
  Level pe;

  bool has_holders_of(const Placement& other) const {
    return device == other.device && num_cubes == other.num_cubes && num_pes == other.num_pes;
  }
  bool is_partial() const { return cube.is_partial() || pe.is_partial(); }
  friend bool operator==(const Placement&, const Placement&) = default;
};

// "cube=cut 0, pe=partial, num_cubes=2, num_pes=4".
std::string to_string(const Placement& placement);

// REQUIRES: the tensor is on a device
Placement placement_of(const Tensor& tensor);

// The policy that places a tensor of `rank` dimensions so; nullopt if a dimension is cut that is
// neither the first nor the last.
std::optional<DPPolicy> policy_of(const Placement& placement, std::size_t rank);

// The placement of what `rule` says of each level; nullopt if it has no answer.
// REQUIRES: a and b have the same holders
std::optional<Placement> by_level(const Placement& a,
                                  const std::function<std::optional<Level>(Level)>& rule);
std::optional<Placement> by_level(const Placement& a, const Placement& b,
                                  const std::function<std::optional<Level>(Level, Level)>& rule);

// Of the gradient of a tensor: the same, but replicated where the tensor is partial.
Placement gradient_placement(const Placement& placement);
// Of a gradient that is made of another one, row by row or element by element, and of what each
// holder has: where that is a sum of holders, it is one, too.
Placement gradient_placement(const Placement& of_dy, const Placement& tensor);
// Whether a gradient may lie so: it may also be partial where the tensor is replicated.
bool is_gradient_placement(const Placement& gradient, const Placement& tensor);

// Throws DeviceError unless all are on one device of one context, on the same holders: KB-M001,
// KB-M019, KB-M013 as a launch; KB-F003 for other holders, naming both tensors.
void check_holders(std::string_view name, const std::vector<Tensor>& operands);
// The same, and KB-F002 if their types differ.
void check_operands(std::string_view name, const std::vector<Tensor>& operands);
// Throws DeviceError KB-F003 for a row that does not lie where a policy says
// (runtime::lies_apart); check_holders() does so too.
void check_lies_together(std::string_view name, const Tensor& x);

// Throws DeviceError KB-F003 if the tensor is partial, of which a function that is not linear
// cannot be computed, or if its last dimension is cut, where a function works along it.
void check_is_whole(std::string_view name, const Tensor& x);
void check_has_whole_rows(std::string_view name, const Tensor& x);
// The same, if this dimension is cut.
void check_is_uncut(std::string_view name, const Tensor& x, std::size_t dimension);

// A dimension, of which negative ones count from the last.  Throws DeviceError KB-F001 if there is
// no such.
std::size_t dimension_of(std::string_view name, const Tensor& x, int dim);

// Throws DeviceError KB-F001: shapes.
[[noreturn]] void refuse_shapes(std::string_view name, const std::string& text);
// Throws DeviceError KB-F003: placements that an operator cannot use without communication.
[[noreturn]] void refuse_placements(std::string_view name, const Tensor& a, const Tensor& b,
                                    std::string_view what_is_right);
[[noreturn]] void refuse_placement(std::string_view name, const Tensor& a,
                                   std::string_view what_is_right);

}  // namespace kernbench::ops
