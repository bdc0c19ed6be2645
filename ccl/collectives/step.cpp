#include "ccl/collectives/step.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/check.h"

namespace kernbench::ccl {

namespace {

constexpr Bytes kShareOfScratch = 8;

// A step whose receives are posted and whose load is issued.
struct Begun {
  const Step* step = nullptr;
  std::vector<tl::RecvFuture> messages;
  std::optional<tl::Tensor> loaded;
};

tl::Tensor combine(tl::Context& tl, ReduceOp op, const tl::Tensor& a, const tl::Tensor& b) {
  switch (op) {
    case ReduceOp::product:
      return a * b;
    case ReduceOp::min:
      return tl.minimum(a, b);
    case ReduceOp::max:
      return tl.maximum(a, b);
    default:
      return a + b;
  }
}

tl::Pointer pointer_to(const ShardRange& range, int shard) {
  const Tensor::Storage& storage = *range.tensor->storage();
  const auto index = static_cast<std::size_t>(shard);
  return tl::Pointer(storage.buffers()[index], storage.name) + range.offset;
}

tl::Tensor load_shard(tl::Context& tl, const Step& step, int shard) {
  const ShardRange& range = step.source;
  const tl::Pointer from = pointer_to(range, shard);
  const DType dtype = range.tensor->dtype();
  if (step.rows == 1) return tl.load(from, {step.columns}, dtype);
  return tl.reshape(tl.load(from, {step.rows, step.columns}, dtype, range.pitch), {step.count()});
}

// Chooses the copy on the lane's own PE if there is one, since that is the nearest.
int nearest_copy(const tl::Context& tl, const Slice& slice) {
  const Lane own{tl.location().cube, tl.location().pe};
  const auto found = std::ranges::find(slice.holders, own);
  if (found == slice.holders.end()) return slice.copies.front();
  return slice.copies[static_cast<std::size_t>(found - slice.holders.begin())];
}

tl::Tensor load(tl::Context& tl, const Step& step) {
  const Slice& slice = *step.source.slice;
  if (slice.summands.size() == 1) return load_shard(tl, step, nearest_copy(tl, slice));
  tl::Tensor sum = load_shard(tl, step, slice.summands.front());
  for (std::size_t i = 1; i < slice.summands.size(); ++i) {
    sum = sum + load_shard(tl, step, slice.summands[i]);
  }
  return sum;
}

void store(tl::Context& tl, const Step& step, const tl::Tensor& value) {
  const ShardRange& range = step.target;
  for (const int copy : range.slice->copies) {
    const tl::Pointer to = pointer_to(range, copy);
    if (step.rows == 1) {
      tl.store(to, value);
    } else {
      tl.store(to, tl.reshape(value, {step.rows, step.columns}), range.pitch);
    }
  }
}

DType dtype_of(const Step& step, DType fallback) {
  if (step.source.tensor != nullptr) return step.source.tensor->dtype();
  return step.target.tensor != nullptr ? step.target.tensor->dtype() : fallback;
}

Begun begin(tl::Context& tl, const Step& step, const MemberPorts& ports, DType dtype) {
  Begun begun{&step, {}, {}};
  for (const int member : step.from) {
    if (member == kNobody) continue;
    begun.messages.push_back(tl.recv_async(ports.from(member), {step.count()}, dtype));
  }
  if (step.source.tensor != nullptr) begun.loaded = load(tl, step);
  return begun;
}

// Divides by a power of two; multiplying with the inverse gives exactly the same.
tl::Tensor divided_before(const AverageDivisors& divisors, tl::Tensor value) {
  return divisors.before == 1 ? std::move(value) : value * (1 / divisors.before);
}

tl::Tensor divided_after(tl::Context& tl, const AverageDivisors& divisors, tl::Tensor value) {
  if (divisors.after == 1) return value;
  const DType dtype = value.dtype();
  if (divisors.is_after_exact_in(dtype)) return value / divisors.after;
  return tl.cast(tl.cast(value, DType::f32) / divisors.after, dtype);
}

tl::Tensor value_of(tl::Context& tl, Begun& begun, const Reduction& reduction, DType dtype) {
  const AverageDivisors divisors = reduction.op == ReduceOp::avg
                                       ? AverageDivisors::of(dtype, reduction.member_count)
                                       : AverageDivisors{};
  std::optional<tl::Tensor> value;
  const auto take_in = [&](const tl::Tensor& next) {
    value = value ? combine(tl, reduction.op, *value, next) : next;
  };
  for (tl::RecvFuture& message : begun.messages) take_in(tl.wait(message));
  if (begun.loaded) {
    take_in(divided_before(divisors, *std::exchange(begun.loaded, std::nullopt)));
  }
  KB_CHECK(value, "a step without a value");
  return begun.step->is_complete ? divided_after(tl, divisors, *value) : *value;
}

}  // namespace

std::int64_t most_step_elements(Bytes tcm, DType dtype, std::size_t summands) {
  // Counts messages and summands of each step that has begun, and the values being sent and
  // stored.
  const auto values = static_cast<Bytes>((kLookAhead + 2) * (summands + 1));
  return std::max<std::int64_t>(tcm / kShareOfScratch / values / size_of(dtype), 1);
}

void run_steps(tl::Context& tl, std::span<const Step> steps, const MemberPorts& ports,
               const Reduction& reduction) {
  DType dtype = DType::f32;
  for (const Step& step : steps) dtype = dtype_of(step, dtype);
  std::deque<Begun> under_way;
  std::size_t next = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    // Later steps begin first, so that their messages and loads arrive while this one waits.
    while (next < steps.size() && under_way.size() <= kLookAhead) {
      under_way.push_back(begin(tl, steps[next++], ports, dtype));
    }
    const Step& step = steps[i];
    const tl::Tensor value = value_of(tl, under_way.front(), reduction, dtype);
    under_way.pop_front();
    for (const int member : step.to) {
      if (member != kNobody) tl.send(ports.to(member), value, tl::copy_to);
    }
    if (step.target.tensor != nullptr) store(tl, step, value);
  }
}

}  // namespace kernbench::ccl
