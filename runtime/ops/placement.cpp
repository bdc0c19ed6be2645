#include "runtime/ops/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "runtime/tensor/describe.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::ops {

namespace {

Level to_level(Shard shard, int holders, std::size_t rank) {
  if (holders == 1 || shard == Shard::replicate) return kReplicate;
  if (shard == Shard::partial) return kPartial;
  if (rank == 0) return kReplicate;  // nothing of a scalar can be cut
  return cut(shard == Shard::row_wise ? 0 : rank - 1);
}

std::optional<Shard> to_shard(const Level& level, std::size_t rank) {
  if (level.is_replicate()) return Shard::replicate;
  if (level.is_partial()) return Shard::partial;
  if (level.dimension + 1 == rank) return Shard::column_wise;
  if (level.dimension == 0) return Shard::row_wise;
  return std::nullopt;
}

std::string to_string(const Level& level) {
  if (level.is_cut()) return fmt::format("cut {}", level.dimension);
  return level.is_partial() ? "partial" : "replicate";
}

std::string describe(std::size_t argument, const Tensor& tensor) {
  return fmt::format("argument {}, {}", argument, runtime::describe(tensor));
}

// The options with which a user makes a tensor that has the type and the holders of `other`.
std::string options_like(const Tensor& tensor, const Tensor& other) {
  std::string words;
  if (tensor.dtype() != other.dtype()) {
    words = fmt::format(".dtype = {}, ", runtime::words_for(other.dtype()));
  }
  return fmt::format("{{{}.dp = {}}}", words, runtime::words_for(runtime::placed(other)));
}

void check_pair(std::string_view name, const std::vector<Tensor>& operands, std::size_t index) {
  const Tensor& first = operands.front();
  const Tensor& other = operands[index];
  runtime::check_same_context(
      *other.storage()->simulation, *first.storage()->simulation, name,
      [&] { return runtime::describe_name(*other.storage()); },
      [&] { return runtime::describe_name(*first.storage()); });
  if (placement_of(other).has_holders_of(placement_of(first))) return;
  const std::string cure =
      other.device() != first.device()
          ? "make both on one device: torch.ahbm.set_device() comes before"
          : fmt::format("make '{}' with {}, or '{}' with {}", first.name(),
                        options_like(first, other), other.name(), options_like(other, first));
  throw DeviceError("KB-F003",
                    "{}: {}, and {}; all tensors of an operator lie on the same device with the "
                    "same num_cubes and num_pes: {}",
                    name, describe(1, first), describe(index + 1, other), cure);
}

void check_types(std::string_view name, const std::vector<Tensor>& operands, std::size_t index) {
  const Tensor& first = operands.front();
  const Tensor& other = operands[index];
  if (other.dtype() == first.dtype()) return;
  throw DeviceError("KB-F002",
                    "{}: expected scalar type {} but found {}: {}, and {}; they must be of one "
                    "type: make '{}' with {{.dtype = {}}}, or "
                    "'{}' with {{.dtype = {}}}",
                    name, torch_name_of(first.dtype()), torch_name_of(other.dtype()),
                    describe(1, first), describe(index + 1, other), first.name(),
                    runtime::words_for(other.dtype()), other.name(),
                    runtime::words_for(first.dtype()));
}

void check_is_product_of_reals(std::string_view name, const std::vector<Tensor>& operands) {
  const auto fp8 =
      std::ranges::find_if(operands, [](const Tensor& x) { return is_float8(x.dtype()); });
  if (fp8 != operands.end()) {
    throw DeviceError("KB-F002",
                      "\"{}\" not implemented for '{}': {}; multiply matrices of fp8 by "
                      "scaled_mm(), or give it {}.to({})",
                      name, torch_name_of(fp8->dtype()), runtime::describe(*fp8), fp8->name(),
                      runtime::words_for(DType::f32));
  }
  const auto integral =
      std::ranges::find_if(operands, [](const Tensor& x) { return is_integral(x.dtype()); });
  if (integral == operands.end()) return;
  throw DeviceError(
      "KB-F002",
      "\"{}\" not implemented for '{}': {}; matrix products of integers are left out: "
      "multiply in f32, {}.to({}), which is exact while sums are below 2^24",
      name, torch_name_of(integral->dtype()), runtime::describe(*integral), integral->name(),
      runtime::words_for(DType::f32));
}

// Text for the placement that every operator accepts: the whole tensor on each of its holders.
std::string what_always_fits(const Tensor& tensor) {
  const DPPolicy dp = runtime::placed(tensor);
  return fmt::format(
      "what always fits is .dp = {}",
      runtime::words_for({Shard::replicate, Shard::replicate, dp.num_cubes, dp.num_pes}));
}

}  // namespace

std::string to_string(const Placement& placement) {
  return fmt::format("cube={}, pe={}, num_cubes={}, num_pes={}", to_string(placement.cube),
                     to_string(placement.pe), placement.num_cubes, placement.num_pes);
}

Placement placement_of(const Tensor& tensor) {
  return placement_of(tensor, tensor.dp());
}

Placement placement_of(const Tensor& tensor, const DPPolicy& dp) {
  const Topology& topology = tensor.storage()->simulation->machine().topology();
  Placement placement;
  placement.device = tensor.device();
  placement.num_cubes = dp.cube_holders(topology);
  placement.num_pes = dp.pe_holders(topology);
  const std::size_t rank = tensor.shape().rank();
  placement.cube = to_level(dp.cube, placement.num_cubes, rank);
  placement.pe = to_level(dp.pe, placement.num_pes, rank);
  placement.is_shared = dp.is_shared && (placement.cube.is_cut() || placement.pe.is_cut());
  return placement;
}

std::optional<DPPolicy> to_policy(const Placement& placement, std::size_t rank) {
  const auto cube = to_shard(placement.cube, rank);
  const auto pe = to_shard(placement.pe, rank);
  if (!cube || !pe) return std::nullopt;
  return DPPolicy{*cube, *pe, placement.num_cubes, placement.num_pes,
                  placement.is_shared && rank == 2};
}

namespace {

// True if the elements of a shared tensor are cut on the same levels in a result.
bool stays_shared(const Placement& placement, const Level& cube, const Level& pe) {
  return placement.is_shared && placement.cube.is_cut() == cube.is_cut() &&
         placement.pe.is_cut() == pe.is_cut();
}

}  // namespace

std::optional<Placement> by_level(const Placement& a,
                                  const std::function<std::optional<Level>(Level)>& rule) {
  const auto cube = rule(a.cube);
  const auto pe = rule(a.pe);
  if (!cube || !pe) return std::nullopt;
  return Placement{a.device, a.num_cubes, a.num_pes, *cube, *pe, stays_shared(a, *cube, *pe)};
}

std::optional<Placement> by_level(const Placement& a, const Placement& b,
                                  const std::function<std::optional<Level>(Level, Level)>& rule) {
  const auto cube = rule(a.cube, b.cube);
  const auto pe = rule(a.pe, b.pe);
  if (!cube || !pe) return std::nullopt;
  return Placement{a.device,  a.num_cubes,
                   a.num_pes, *cube,
                   *pe,       stays_shared(a, *cube, *pe) || stays_shared(b, *cube, *pe)};
}

Placement gradient_placement(const Placement& placement) {
  return *by_level(placement, [](Level level) -> std::optional<Level> {
    return level.is_partial() ? kReplicate : level;
  });
}

Placement gradient_placement(const Placement& of_dy, const Placement& tensor) {
  return *by_level(of_dy, gradient_placement(tensor), [](const Level& dy, const Level& own) {
    return std::optional(dy.is_partial() ? dy : own);
  });
}

bool is_gradient_placement(const Placement& gradient, const Placement& tensor) {
  if (!gradient.has_holders_of(tensor)) return false;
  const auto fits = [](Level of_gradient, Level of_tensor) -> std::optional<Level> {
    if (of_tensor.is_cut() && of_gradient != of_tensor) return std::nullopt;
    if (of_tensor.is_partial() && !of_gradient.is_replicate()) return std::nullopt;
    if (of_tensor.is_replicate() && of_gradient.is_cut()) return std::nullopt;
    return of_gradient;
  };
  return by_level(gradient, tensor, fits).has_value();
}

void check_holders(std::string_view name, const std::vector<Tensor>& operands) {
  for (const Tensor& operand : operands) runtime::check_on_device(operand, name);
  for (const Tensor& operand : operands) {
    if (const auto& shards = operand.shards(); shards.front().sip != shards.back().sip) {
      refuse_placement(name, operand, "an operator works inside one device: use num_sips = 1");
    }
    check_lies_together(name, operand);
  }
  for (std::size_t i = 1; i < operands.size(); ++i) check_pair(name, operands, i);
}

void check_lies_together(std::string_view name, const Tensor& x) {
  if (!runtime::lies_apart(*x.storage())) return;
  refuse_placement(name, x,
                   fmt::format("it is a row of a tensor that is cut along its first dimension, and "
                               "lies on {} alone: copy_ it into a tensor of its own first",
                               sim::to_string(x.storage()->buffers().front().home)));
}

void check_operands(std::string_view name, const std::vector<Tensor>& operands, Types types) {
  check_holders(name, operands);
  if (types == Types::factors) check_is_product_of_reals(name, operands);
  for (std::size_t i = 1; i < operands.size(); ++i) check_types(name, operands, i);
  if (types != Types::any) check_is_floating(name, operands.front());
}

void check_is_floating(std::string_view name, const Tensor& x) {
  runtime::check_on_device(x, name);
  if (!is_integral(x.dtype()) && !is_float8(x.dtype())) return;
  throw DeviceError("KB-F002", "\"{}\" not implemented for '{}': {}; give it {}.to({})", name,
                    torch_name_of(x.dtype()), runtime::describe(x), x.name(),
                    runtime::words_for(DType::f32));
}

void check_is_whole(std::string_view name, const Tensor& x) {
  if (!placement_of(x).is_partial()) return;
  refuse_placement(name, x,
                   "its holders have summands, and this needs the sum: all_reduce it first");
}

void check_has_whole_rows(std::string_view name, const Tensor& x) {
  check_is_whole(name, x);
  const std::size_t rank = x.shape().rank();
  if (rank == 0) refuse_shapes(name, "a tensor of no dimensions has no rows");
  const Placement placement = placement_of(x);
  const auto cuts_rows = [&](const Level& level) {
    return level.is_cut() && level.dimension + 1 == rank;
  };
  if (!cuts_rows(placement.cube) && !cuts_rows(placement.pe)) return;
  refuse_placement(name, x, "its rows are needed whole: only other dimensions may be cut");
}

void check_is_uncut(std::string_view name, const Tensor& x, std::size_t dimension) {
  const Placement placement = placement_of(x);
  if (placement.cube != cut(dimension) && placement.pe != cut(dimension)) return;
  refuse_placement(name, x,
                   fmt::format("along dimension {}, which is cut, PEs would have to exchange "
                               "elements",
                               dimension));
}

bool is_point(std::string_view name, const Tensor& x, int dim) {
  if (x.dim() > 0) return false;
  if (dim == 0 || dim == -1) return true;
  refuse_shapes(name, fmt::format("Dimension out of range (expected to be in range of [-1, 0], but "
                                  "got {})",
                                  dim));
}

std::size_t wrap_dimension(std::string_view name, const Tensor& x, int dim) {
  const auto rank = static_cast<int>(x.shape().rank());
  if (rank == 0) {
    refuse_shapes(name, fmt::format("Dimension specified as {} but tensor has no dimensions", dim));
  }
  if (dim < -rank || dim >= rank) {
    refuse_shapes(name, fmt::format("Dimension out of range (expected to be in range of [{}, {}], "
                                    "but got {})",
                                    -rank, rank - 1, dim));
  }
  return static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
}

namespace {

// Some of torch's texts begin with the operator's name themselves.
[[noreturn]] void refuse(const char* code, std::string_view name, const std::string& text) {
  const char next = text.size() > name.size() ? text[name.size()] : ' ';
  const bool is_named =
      text.starts_with(name) && next != '_' && std::isalnum(static_cast<unsigned char>(next)) == 0;
  if (is_named) throw DeviceError(code, "{}", text);
  throw DeviceError(code, "{}: {}", name, text);
}

}  // namespace

void refuse_shapes(std::string_view name, const std::string& text) {
  refuse("KB-F001", name, text);
}

void refuse_type(std::string_view name, const std::string& text) {
  refuse("KB-F002", name, text);
}

void refuse_placements(std::string_view name, const Tensor& a, const Tensor& b,
                       std::string_view what_is_right) {
  throw DeviceError("KB-F003", "{}: {}, and {}; {}; {}", name, describe(1, a), describe(2, b),
                    what_is_right, what_always_fits(a));
}

void refuse_placement(std::string_view name, const Tensor& a, std::string_view what_is_right) {
  throw DeviceError("KB-F003", "{}: its argument, {}; {}; {}", name, runtime::describe(a),
                    what_is_right, what_always_fits(a));
}

}  // namespace kernbench::ops
