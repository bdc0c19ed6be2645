#include "ccl/steps/step.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/check.h"

namespace kernbench::ccl {

namespace {

constexpr Bytes kShareOfScratch = 3;

// How many times ahead of the present step receives are posted, and loads are issued.  The news of
// a post must be with its sender when it has the message; both take a latency.
constexpr int kPostsAhead = 2;
constexpr int kLoadsAhead = 1;

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

// Visits the shards of a range, by their index and holder.
template <class Visit>
void for_each_shard(const ShardRange& range, const std::vector<int>& shards,
                    const std::vector<Lane>& holders, Visit visit) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (range.cube == kNobody || holders[i].cube == range.cube) visit(shards[i]);
  }
}

tl::Tensor load(tl::Context& tl, const Step& step) {
  const Slice& slice = *step.source.slice;
  if (slice.summands.size() == 1) return load_shard(tl, step, nearest_copy(tl, slice));
  std::optional<tl::Tensor> sum;
  for_each_shard(step.source, slice.summands, slice.summand_holders, [&](int shard) {
    const tl::Tensor summand = load_shard(tl, step, shard);
    sum = sum ? *sum + summand : summand;
  });
  KB_CHECK(sum, "no summand lies on cube {}", step.source.cube);
  return *sum;
}

void store(tl::Context& tl, const Step& step, const tl::Tensor& value) {
  const ShardRange& range = step.target;
  for_each_shard(range, range.slice->copies, range.slice->holders, [&](int copy) {
    const tl::Pointer to = pointer_to(range, copy);
    if (step.rows == 1) {
      tl.store(to, value);
    } else {
      tl.store(to, tl.reshape(value, {step.rows, step.columns}), range.pitch);
    }
  });
}

// The steps of a lane: the present one, and those that have begun.
class StepsUnderWay {
 public:
  StepsUnderWay(tl::Context& tl, std::span<const Step> steps, const NodePorts& ports, DType dtype)
      : tl_(tl), steps_(steps), ports_(ports), dtype_(dtype) {}

  // Begins what comes next, and returns the step.
  Begun& front(const Step& step) {
    while (posted_ < steps_.size() && steps_[posted_].time <= step.time + kPostsAhead) post();
    while (loaded_ < posted_ && steps_[loaded_].time <= step.time + kLoadsAhead) load_next();
    return under_way_.front();
  }
  void pop() {
    under_way_.pop_front();
    ++done_;
  }

 private:
  void post() {
    const Step& step = steps_[posted_++];
    Begun& begun = under_way_.emplace_back(Begun{&step, {}, {}});
    for (const int node : step.move->from) {
      begun.messages.push_back(tl_.recv_async(ports_.from(node).port, {step.count()}, dtype_));
    }
  }
  void load_next() {
    const std::size_t index = loaded_++;
    const Step& step = steps_[index];
    if (step.source.tensor != nullptr) under_way_[index - done_].loaded = load(tl_, step);
  }

  tl::Context& tl_;
  const std::span<const Step> steps_;
  const NodePorts& ports_;
  const DType dtype_;
  std::deque<Begun> under_way_;
  std::size_t posted_ = 0;  // the first step whose receives are not posted
  std::size_t loaded_ = 0;
  std::size_t done_ = 0;
};

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

// Values that later steps use, and how many still will.
class HeldValues {
 public:
  void put(const Step& step, const tl::Tensor& value) {
    if (step.uses > 0) held_.emplace(step.id, Held{value, step.uses});
  }

  tl::Tensor take(tl::Context& tl, std::span<const HeldPart> parts) {
    std::vector<tl::Tensor> values;
    for (const HeldPart& part : parts) {
      const auto found = held_.find(part.id);
      KB_CHECK(found != held_.end(), "move {} holds no value", part.id.move);
      values.push_back(tl.narrow(found->second.value, part.begin, part.count));
      if (--found->second.uses == 0) held_.erase(found);
    }
    return values.size() == 1 ? values.front() : tl.cat(values);
  }

 private:
  struct Held {
    tl::Tensor value;
    int uses = 0;
  };
  std::map<HeldId, Held> held_;
};

tl::Tensor value_of(tl::Context& tl, Begun& begun, HeldValues& held, const Reduction& reduction) {
  const AverageDivisors divisors =
      reduction.op == ReduceOp::avg ? AverageDivisors::of(reduction.dtype, reduction.member_count)
                                    : AverageDivisors{};
  std::optional<tl::Tensor> value;
  const auto take_in = [&](const tl::Tensor& next) {
    value = value ? combine(tl, reduction.op, *value, next) : next;
  };
  for (tl::RecvFuture& message : begun.messages) take_in(tl.wait(message));
  if (begun.loaded) {
    take_in(divided_before(divisors, *std::exchange(begun.loaded, std::nullopt)));
  }
  if (!begun.step->parts.empty()) take_in(held.take(tl, begun.step->parts));
  KB_CHECK(value, "a step without a value");
  return begun.step->move->is_complete ? divided_after(tl, divisors, *value) : *value;
}

void send(tl::Context& tl, const NodePort& to, const tl::Tensor& value) {
  to.has_slots ? tl.send(to.port, value) : tl.send(to.port, value, tl::copy_to);
}

}  // namespace

std::int64_t most_message_elements(const Topology& topology, DType dtype, const Plan& plan,
                                   std::size_t summands) {
  // Counts messages, summands and results of all times that have begun.
  const bool reduces = std::ranges::any_of(
      plan.moves, [](const Move& move) { return move.has_source && !move.from.empty(); });
  const Bytes loads = reduces ? (1 + kLoadsAhead) * static_cast<Bytes>(summands) : 0;
  const Bytes values = plan.window * (plan.width * (1 + kPostsAhead + loads) + 1);
  const Bytes own = topology.communication.scratch;
  const Bytes third = topology.pe.tcm.capacity / kShareOfScratch;
  return std::max<std::int64_t>((own > 0 ? std::min(own, third) : third) / values / size_of(dtype),
                                1);
}

// Later steps begin first, so that their messages and loads arrive while this one waits.  All of
// the next times have posted their receives before this step sends: no sender waits for ever,
// whatever the depth of the queues.
void run_steps(tl::Context& tl, std::span<const Step> steps, const NodePorts& ports,
               const Reduction& reduction) {
  StepsUnderWay under_way(tl, steps, ports, reduction.dtype);
  HeldValues held;
  for (const Step& step : steps) {
    const tl::Tensor value = value_of(tl, under_way.front(step), held, reduction);
    under_way.pop();
    for (const int node : step.move->to) send(tl, ports.to(node), value);
    if (step.target.tensor != nullptr) store(tl, step, value);
    held.put(step, value);
  }
}

}  // namespace kernbench::ccl
