// Sums over ranks as integers, whose bits depend neither on the order of additions nor on how the
// summands are dealt out (Reproducible::ranks): each element is counted in a unit that follows from
// the largest of its summands, and integers add up exactly.

#include "runtime/distributed/fixed_point.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "runtime/launch/kernel_launch.h"
#include "runtime/tensor/describe.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::distributed {

namespace {

// The largest summand of an element becomes an integer of 40 or 41 bits, so that 2^22 summands fit
// into an i64.  What is cut off is below what f32 has, unless the largest is below 2^-97; below
// 2^-120 nothing is left.
constexpr double kBits = 40;
// Units of smaller elements would leave the range of f32 on the way there or back.
constexpr double kLeastExponent = -80;
constexpr double kMostExponent = 127;

// A stretch of the shard that a PE has of each tensor of a kernel.
struct Stretch {
  tl::Context& tl;
  std::int64_t first = 0;
  std::int64_t count = 0;

  tl::Tensor load(const Tensor& tensor) const {
    return tl.load(at(tensor), {count}, tensor.dtype());
  }
  void store(const Tensor& tensor, const tl::Tensor& value) const { tl.store(at(tensor), value); }

 private:
  tl::Pointer at(const Tensor& tensor) const {
    return runtime::shard_pointer(tensor, tl.location()) + first;
  }
};

// The kernels of a rank's call, which run beside the user's as those of its collectives do.
class Kernels {
 public:
  Kernels(runtime::Simulation& simulation, std::uint64_t operation)
      : simulation_(simulation), operation_(operation) {}

  // Runs a kernel on all holders of `result`, a stretch after the other.
  void run(std::string_view name, const Tensor& result, std::vector<Tensor> uses,
           std::function<void(const Stretch&)> body) const {
    runtime::LaunchRequest request;
    request.name = name;
    request.operation = operation_;
    request.is_collective = request.has_end = true;
    for (const ShardInfo& shard : result.shards()) {
      if (shard.shape.numel() > 0) request.pes.push_back({shard.sip, shard.cube, shard.pe});
    }
    if (request.pes.empty()) return;
    uses.push_back(result);
    request.uses = std::move(uses);
    request.body = [result, body = std::move(body)](tl::Context& tl) { visit(tl, result, body); };
    runtime::launch(simulation_, std::move(request));
  }

 private:
  static void visit(tl::Context& tl, const Tensor& result,
                    const std::function<void(const Stretch&)>& body) {
    constexpr Bytes kStretches = 64;  // of i64 in scratch: a kernel has several values under way
    tl.limit_commands_under_way(8);
    const std::int64_t most = std::max<std::int64_t>(
        tl.run().pe().scratch_capacity() / kStretches / size_of(DType::i64), 1);
    for (const ShardInfo& shard : result.shards()) {
      if (sim::PeLocation{shard.sip, shard.cube, shard.pe} != tl.location()) continue;
      const std::int64_t count = shard.shape.numel();
      for (std::int64_t first = 0; first < count; first += most) {
        body({tl, first, std::min(most, count - first)});
      }
    }
  }

  runtime::Simulation& simulation_;
  const std::uint64_t operation_;
};

// The exponent of the unit, plus kBits, of elements whose largest summand is `largest`.
tl::Tensor exponent_of(tl::Context& tl, const tl::Tensor& largest) {
  return tl.clamp(tl.floor(tl.log2(largest)), kLeastExponent, kMostExponent);
}

// A tensor beside x, on the same holders.
Tensor make_beside(const Tensor& x, std::string_view name, DType dtype) {
  const Tensor made(
      runtime::make_device_storage(x.storage()->simulation, x.device(), x.shape(),
                                   {.dtype = dtype, .dp = x.dp(), .name = std::string(name)}));
  runtime::mark_memory(made, MemoryKind::communication);
  const auto lies_alike = [](const ShardInfo& a, const ShardInfo& b) {
    return a.sip == b.sip && a.cube == b.cube && a.pe == b.pe && a.shape == b.shape;
  };
  if (std::ranges::equal(made.shards(), x.shards(), lies_alike)) return made;
  throw CollectiveError("KB-C013",
                        "all_reduce: {} is a part of another tensor, and lies as none of its own "
                        "would, which Reproducible::ranks needs; copy_ it into a tensor of its own "
                        "first",
                        runtime::describe(x));
}

// The sizes of x's elements; what is no number is infinite, so that a maximum keeps it.
Tensor find_sizes(const Kernels& kernels, const Tensor& x) {
  const Tensor sizes = make_beside(x, "sizes", DType::f32);
  kernels.run("sizes", sizes, {x}, [x, sizes](const Stretch& at) {
    const tl::Tensor value = at.tl.cast(at.load(x), DType::f32);
    const double infinite = std::numeric_limits<double>::infinity();
    at.store(sizes, at.tl.where(value == value, at.tl.abs(value), infinite));
  });
  return sizes;
}

Tensor to_integers(const Kernels& kernels, const Tensor& x, const Tensor& largest) {
  const Tensor integers = make_beside(x, "fixed_point", DType::i64);
  kernels.run("to_fixed_point", integers, {x, largest}, [=](const Stretch& at) {
    const tl::Tensor units = at.tl.exp2(kBits - exponent_of(at.tl, at.load(largest)));
    const tl::Tensor value = at.tl.cast(at.load(x), DType::f32);
    at.store(integers, at.tl.cast(value * units, DType::i64));
  });
  return integers;
}

// Writes the sums to x, divided by `divisor`, and NaN where a summand was no finite number.
void from_integers(const Kernels& kernels, const Tensor& x, const Tensor& sums,
                   const Tensor& largest, double divisor) {
  kernels.run("from_fixed_point", x, {sums, largest}, [=](const Stretch& at) {
    const tl::Tensor size = at.load(largest);
    const tl::Tensor unit = at.tl.exp2(exponent_of(at.tl, size) - kBits);
    tl::Tensor sum = at.tl.cast(at.load(sums), DType::f32) * unit + (size - size);
    if (divisor != 1) sum = sum / divisor;
    at.store(x, at.tl.cast(sum, x.dtype()));
  });
}

// The same call of another tensor.
CollectiveCall reduce_instead(const CollectiveCall& call, const Tensor& x, ReduceOp op) {
  CollectiveCall other = call;
  other.gives = other.takes = {whole(x)};
  other.op = op;
  other.reproducible = Reproducible::run;
  return other;
}

}  // namespace

void run_in_fixed_point(runtime::Simulation& simulation, Communicator& communicator,
                        const CollectiveCall& call, int ranks,
                        const std::function<void(const CollectiveCall&)>& before_sum) {
  const Kernels kernels(simulation, call.operation);
  const Tensor& x = call.takes.front().tensor;
  const Tensor largest = find_sizes(kernels, x);
  communicator.run(reduce_instead(call, largest, ReduceOp::max));
  const Tensor integers = to_integers(kernels, x, largest);
  CollectiveCall sum = reduce_instead(call, integers, ReduceOp::sum);
  ++sum.operation;
  before_sum(sum);
  simulation.begin(sum.operation);
  communicator.run(sum);
  from_integers(kernels, x, integers, largest, call.op == ReduceOp::avg ? ranks : 1);
  runtime::mark_replicated(*x.storage());
}

}  // namespace kernbench::distributed
