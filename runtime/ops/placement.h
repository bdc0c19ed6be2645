// Determines the placement of an operator's result from those of its operands (ADR-0131).
//
// Every PE computes with its own shards, and nothing moves between PEs: this is Megatron's algebra
// of split matrices, applied to the levels of a device.  Where it does not suffice, a collective
// must communicate: only a collective turns a sum over holders (partial) into a whole (replicate).

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

// One level of a placement: the cubes, or each cube's PEs.  A level with one holder is replicate.
struct Level {
  enum class Kind : std::uint8_t { replicate, cut, partial };

  Kind kind = Kind::replicate;
  std::size_t dimension = 0;  // the one that is cut

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

// A DPPolicy with actual numbers of holders instead of 0, and with dimensions instead of rows and
// columns, which are the same dimension for a vector.
struct Placement {
  int device = 0;
  int num_cubes = 1;
  int num_pes = 1;
  Level cube;
  Level pe;
  bool is_shared = false;  // DPPolicy::is_shared, of a tensor that is cut

  bool has_holders_of(const Placement& other) const {
    return device == other.device && num_cubes == other.num_cubes && num_pes == other.num_pes;
  }
  bool is_partial() const { return cube.is_partial() || pe.is_partial(); }
  // Where the elements lie, whoever may read them there.
  friend bool operator==(const Placement& a, const Placement& b) {
    return a.has_holders_of(b) && a.cube == b.cube && a.pe == b.pe;
  }
};

// "cube=cut 0, pe=partial, num_cubes=2, num_pes=4".
std::string to_string(const Placement& placement);

// REQUIRES: the tensor is on a device
Placement placement_of(const Tensor& tensor);
// The placement that this policy gives a tensor with the shape and the device of `like`.
Placement placement_of(const Tensor& like, const DPPolicy& dp);

// Returns the policy that gives a tensor of `rank` dimensions this placement; nullopt if a
// dimension is cut that is neither the first nor the last.  What is no matrix stays cut, and is not
// shared.
std::optional<DPPolicy> to_policy(const Placement& placement, std::size_t rank);

// Applies `rule` to each level; nullopt if it has no answer for one.  The result is shared if an
// operand is that is cut on the same levels.
// REQUIRES: a and b have the same holders
std::optional<Placement> by_level(const Placement& a,
                                  const std::function<std::optional<Level>(Level)>& rule);
std::optional<Placement> by_level(const Placement& a, const Placement& b,
                                  const std::function<std::optional<Level>(Level, Level)>& rule);

// The placement of a tensor's gradient: the tensor's own, but replicated where that is partial.
Placement gradient_placement(const Placement& placement);
// Placement of a gradient computed, row by row or elementwise, from another gradient and local
// data: partial wherever `of_dy` is.
Placement gradient_placement(const Placement& of_dy, const Placement& tensor);
// True if a gradient may have this placement: it may also be partial where the tensor is
// replicated.
bool is_gradient_placement(const Placement& gradient, const Placement& tensor);

// Throws DeviceError unless all operands are on one device of one context, on the same holders:
// KB-M001, KB-M019, KB-M013 as a launch does; KB-F003 for other holders, naming both tensors.
void check_holders(std::string_view name, const std::vector<Tensor>& operands);
// The types that an operator is implemented for: those that arithmetic in f32 serves, or all.
// Matrix products are of the former, and refuse integers with a text of their own.
enum class Types : std::uint8_t { floating, any, factors };
// As check_holders(), and KB-F002 if the types differ, or are not of the operator's.
void check_operands(std::string_view name, const std::vector<Tensor>& operands,
                    Types types = Types::floating);
// Throws DeviceError KB-F002 for a type that an operator of floating point is not implemented for.
void check_is_floating(std::string_view name, const Tensor& x);
// Throws DeviceError KB-F003 for a row view that lies elsewhere than a policy would place it
// (runtime::lies_apart); check_holders() checks this too.
void check_lies_together(std::string_view name, const Tensor& x);

// check_is_whole() throws DeviceError KB-F003 if the tensor is partial, since a function that is
// not linear needs the sum; check_has_whole_rows() also if the last dimension is cut.
void check_is_whole(std::string_view name, const Tensor& x);
void check_has_whole_rows(std::string_view name, const Tensor& x);
// Throws DeviceError KB-F003 if this dimension is cut.
void check_is_uncut(std::string_view name, const Tensor& x, std::size_t dimension);

// Returns the number of a dimension; negative ones count from the last.  Throws DeviceError
// KB-F001 if there is no such dimension.
// True for a tensor without dimensions, which torch's functions along one take with dim 0 or -1.
// Throws DeviceError KB-F001 for another dim of it.
bool is_point(std::string_view name, const Tensor& x, int dim);
std::size_t wrap_dimension(std::string_view name, const Tensor& x, int dim);

// Throws DeviceError KB-F001: the shapes do not fit.
[[noreturn]] void refuse_shapes(std::string_view name, const std::string& text);
// Throws DeviceError KB-F002: a type that the operator has no meaning for.
[[noreturn]] void refuse_type(std::string_view name, const std::string& text);
// Throws DeviceError KB-F003: placements that an operator cannot use without communication.
[[noreturn]] void refuse_placements(std::string_view name, const Tensor& a, const Tensor& b,
                                    std::string_view what_is_right);
[[noreturn]] void refuse_placement(std::string_view name, const Tensor& a,
                                   std::string_view what_is_right);

}  // namespace kernbench::ops
