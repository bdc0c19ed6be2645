#include "ccl/steps/step.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/fiber/prefetched.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/tl/touched.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/prefetch.h"
#include "sim_engine/components/pe_services.h"
#include "sim_engine/components/processing_element.h"

namespace kernbench::ccl {

using distributed::CollectiveCall;

namespace {

// A queue that allocates nothing once it has grown.
template <class T>
class Fifo {
 public:
  void push(T item) {
    if (count_ == ring_.size()) grow();
    at(count_++).emplace(std::move(item));
  }
  T pop() {
    std::optional<T>& slot = at(0);
    T item = std::move(*slot);
    slot.reset();
    ++first_;
    --count_;
    return item;
  }
  bool empty() const { return count_ == 0; }
  const T& front() const { return *ring_[first_ & (ring_.size() - 1)]; }
  void prefetch() const { ask_for(ring_.data(), ring_.size() * sizeof(ring_[0])); }

 private:
  std::optional<T>& at(std::size_t index) { return ring_[(first_ + index) & (ring_.size() - 1)]; }
  void grow() {
    std::vector<std::optional<T>> larger(std::max<std::size_t>(2 * ring_.size(), 4));
    for (std::size_t i = 0; i < count_; ++i) larger[i] = std::move(at(i));
    ring_ = std::move(larger);
    first_ = 0;
  }

  std::vector<std::optional<T>> ring_;  // its size is a power of two
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

tl::Tensor combine(tl::Context& tl, ReduceOp op, const tl::Tensor& a, const tl::Tensor& b) {
  switch (op) {
    case ReduceOp::product:
      return a * b;
    case ReduceOp::min:
      return tl.minimum(a, b);
    case ReduceOp::max:
      return tl.maximum(a, b);
    case ReduceOp::band:
      return a & b;
    case ReduceOp::bor:
      return a | b;
    case ReduceOp::bxor:
      return a ^ b;
    default:
      return a + b;
  }
}

// Elements of shards that a step loads or stores.
struct Range {
  Range(const StepList& list, const ShardRange& range, const CollectiveCall& call)
      : shards(list.shards[static_cast<std::size_t>(range.shards)]),
        tensor((shards.is_taken ? call.takes : call.gives)[static_cast<std::size_t>(shards.block)]
                   .tensor),
        offset(range.offset),
        pitch(range.pitch) {}

  const Slice& slice() const { return *shards.slice; }
  tl::Pointer at(int shard) const {
    const Tensor::Storage& storage = *tensor.storage();
    return tl::Pointer(storage.buffers()[static_cast<std::size_t>(shard)], storage.name) + offset;
  }
  // Visits those shards, by their index, that the step concerns.
  template <class Visit>
  void visit(const std::vector<int>& all, const std::vector<Lane>& holders, Visit visit) const {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (shards.cube == kNobody || holders[i].cube == shards.cube) visit(all[i]);
    }
  }

  const Shards& shards;
  const Tensor& tensor;
  std::int64_t offset;
  std::int64_t pitch;
};

// Rows are loaded as a matrix with the shard's pitch and flattened, because messages are dense and
// sums do not depend on the form.
tl::Tensor load_shard(tl::Context& tl, const Step& step, const Range& from, int shard) {
  const DType dtype = from.tensor.dtype();
  if (step.rows == 1) return tl.load(from.at(shard), {step.columns}, dtype);
  const tl::Tensor rows = tl.load(from.at(shard), {step.rows, step.columns}, dtype, from.pitch);
  return tl.reshape(rows, {step.count()});
}

// Chooses the copy on the lane's own PE if there is one, since that is the nearest.
int nearest_copy(const tl::Context& tl, const Slice& slice) {
  const Lane own{tl.location().cube, tl.location().pe};
  const auto found = std::ranges::find(slice.holders, own);
  if (found == slice.holders.end()) return slice.copies.front();
  return slice.copies[static_cast<std::size_t>(found - slice.holders.begin())];
}

tl::Tensor load(tl::Context& tl, const Step& step, const Range& from) {
  const Slice& slice = from.slice();
  if (slice.summands.size() == 1) return load_shard(tl, step, from, nearest_copy(tl, slice));
  std::optional<tl::Tensor> sum;
  // A partial tensor has a summand on each of several PEs.  They are added in the order of the
  // shards, so that every run and every lane rounds alike.
  from.visit(slice.summands, slice.summand_holders, [&](int shard) {
    const tl::Tensor summand = load_shard(tl, step, from, shard);
    sum = sum ? *sum + summand : summand;
  });
  KB_CHECK(sum, "no summand lies on cube {}", from.shards.cube);
  return *sum;
}

void store(tl::Context& tl, const Step& step, const Range& to, const tl::Tensor& value) {
  // Every copy on the step's cubes is written, since no other lane stores these elements.
  to.visit(to.slice().copies, to.slice().holders, [&](int copy) {
    if (step.rows == 1) {
      tl.store(to.at(copy), value);
    } else {
      tl.store(to.at(copy), tl.reshape(value, {step.rows, step.columns}), to.pitch);
    }
  });
}

// The ports to and from the nodes of a list, looked up when they are first used.
class Ports {
 public:
  Ports(const StepList& list, const NodePorts& ports)
      : list_(list), ports_(ports), to_(list.nodes.size()), from_(list.nodes.size()) {}

  void list_touched(std::vector<const void*>& objects) const {
    objects.insert(objects.end(), {to_.data(), from_.data(), list_.nodes.data()});
  }
  const NodePort& to(int peer) { return known(to_, ports_.to, peer); }
  const NodePort& from(int peer) { return known(from_, ports_.from, peer); }

 private:
  using Known = std::vector<std::optional<NodePort>>;

  const NodePort& known(Known& all, const std::function<NodePort(int)>& find, int peer) {
    const auto index = static_cast<std::size_t>(peer);
    if (!all[index]) all[index] = find(list_.nodes[index]);
    return *all[index];
  }

  const StepList& list_;
  const NodePorts& ports_;
  Known to_;
  Known from_;
};

// The receives and loads of steps that have begun, in the order of the steps.
class StepsUnderWay final : public runtime::Prefetched {
 public:
  StepsUnderWay(tl::Context& tl, const StepList& list, Ports& ports, const CollectiveCall& call,
                DType dtype)
      : tl_(tl), list_(list), ports_(ports), call_(call), dtype_(dtype) {
    for (const Shards& shards : list.shards) add_touched(shards);
    ports.list_touched(touched_);
    tl_.touched().set_more(this);
  }
  ~StepsUnderWay() { tl_.touched().set_more(nullptr); }
  StepsUnderWay(const StepsUnderWay&) = delete;
  StepsUnderWay& operator=(const StepsUnderWay&) = delete;

  // Begins what comes next.
  void begin_until(const Step& step) {
    const std::vector<Step>& steps = list_.steps;
    while (posted_ < steps.size() && steps[posted_].time <= step.time + kPostsAhead) post();
    while (loaded_ < posted_ && steps[loaded_].time <= step.time + kLoadsAhead) load_next();
  }
  tl::Tensor next_message() {
    tl::RecvFuture message = messages_.pop();
    return tl_.wait(message);
  }
  tl::Tensor next_load() { return loads_.pop(); }

  void prefetch(int stage) const override {
    if (stage == 0) {
      ask_for(touched_.data(), touched_.size() * sizeof(const void*));
      ask_for(&list_, sizeof list_);
      messages_.prefetch();
    } else if (stage == 1) {
      for (const void* const object : touched_) ask_for(object, 64);
      constexpr std::size_t kSteps = kPostsAhead + 1;
      const std::size_t first = posted_ - std::min(posted_, kSteps);
      ask_for(list_.steps.data() + first, (kSteps + 1) * sizeof(Step));
      if (first < list_.steps.size()) ask_for(list_.peers.data() + list_.steps[first].peers, 64);
      for (const sim::RegionId region : regions_) memory().prefetch(region, 0);
    }
    if (stage >= 1 && !messages_.empty()) tl_.prefetch(messages_.front(), stage - 1);
  }

 private:
  // Adds what loads and stores of these shards look at, by lines of memory.
  void add_touched(const Shards& shards) {
    const Range range(list_, {.shards = static_cast<int>(&shards - list_.shards.data())}, call_);
    const Tensor::Storage& storage = *range.tensor.storage();
    touched_.insert(touched_.end(),
                    {&shards, &range.tensor, &storage.dtype, &storage.first, &storage.memory,
                     &storage.part, &storage.memory->buffers, storage.buffers().data()});
    constexpr std::size_t kFew = 4;  // more are mostly other PEs'
    for (std::size_t i = 0; i < std::min(kFew, storage.buffers().size()); ++i) {
      regions_.push_back(storage.buffers()[i].region);
    }
  }
  const sim::MemoryStore& memory() const { return tl_.run().pe().services().memory; }
  void post() {
    const Step& step = list_.steps[posted_++];
    for (const int peer : list_.senders(step)) {
      // Receives are posted in the order in which compute_sum() takes the messages, so no message
      // needs a name.
      messages_.push(tl_.recv_async(ports_.from(peer).port, {step.count()}, dtype_));
    }
  }
  void load_next() {
    const Step& step = list_.steps[loaded_++];
    // Loads run ahead of the steps that use them and hold scratch until then, which is why
    // kLoadsAhead is small.
    if (step.source.is_there()) loads_.push(load(tl_, step, {list_, step.source, call_}));
  }

  tl::Context& tl_;
  const StepList& list_;
  Ports& ports_;
  const CollectiveCall& call_;
  const DType dtype_;
  std::vector<const void*> touched_;  // by loads and stores
  std::vector<sim::RegionId> regions_;
  Fifo<tl::RecvFuture> messages_;
  Fifo<tl::Tensor> loads_;
  std::size_t posted_ = 0;  // the first step whose receives are not posted
  std::size_t loaded_ = 0;
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
  explicit HeldValues(const StepList& list) : held_(static_cast<std::size_t>(list.held_count)) {}

  void put(const Step& step, const tl::Tensor& value) {
    if (step.uses > 0) held_[static_cast<std::size_t>(step.held)].emplace(value, step.uses);
  }

  tl::Tensor take(tl::Context& tl, std::span<const HeldPart> parts) {
    if (parts.size() == 1) return take(tl, parts.front());
    std::vector<tl::Tensor> values;
    for (const HeldPart& part : parts) values.push_back(take(tl, part));
    return tl.cat(values);
  }

 private:
  struct Held {
    tl::Tensor value;
    int uses = 0;
  };

  tl::Tensor take(tl::Context& tl, const HeldPart& part) {
    std::optional<Held>& held = held_[static_cast<std::size_t>(part.value)];
    KB_CHECK(held, "value {} is not held", part.value);
    tl::Tensor value = tl.narrow(held->value, part.begin, part.count);
    // The last use gives the scratch back at once, since later steps count on it
    // (most_message_elements()).
    if (--held->uses == 0) held.reset();
    return value;
  }

  std::vector<std::optional<Held>> held_;
};

// Computes the value of one step after the other.
class Values {
 public:
  Values(tl::Context& tl, const StepList& list, StepsUnderWay& under_way,
         const Reduction& reduction)
      : tl_(tl), list_(list), under_way_(under_way), op_(reduction.op), held_(list) {
    if (op_ == ReduceOp::avg) {
      divisors_ = AverageDivisors::of(reduction.dtype, reduction.member_count);
    }
  }

  tl::Tensor compute_value(const Step& step) {
    under_way_.begin_until(step);
    return step.is_complete ? divided_after(tl_, divisors_, compute_sum(step)) : compute_sum(step);
  }
  void hold(const Step& step, const tl::Tensor& value) { held_.put(step, value); }

 private:
  static bool has_own(const Step& step) { return step.source.is_there() || step.part_count > 0; }

  tl::Tensor own_value(const Step& step) {
    if (step.part_count > 0) return held_.take(tl_, list_.parts_of(step));
    KB_CHECK(step.source.is_there(), "a step without a value");
    return divided_before(divisors_, under_way_.next_load());
  }
  tl::Tensor compute_sum(const Step& step) {
    // Messages come first and the own value last, as the plan says (Move), so that the rounding of
    // a sum follows from the plan alone.
    if (step.from_count == 0) return own_value(step);
    tl::Tensor value = under_way_.next_message();
    for (int i = 1; i < step.from_count; ++i) {
      value = combine(tl_, op_, value, under_way_.next_message());
    }
    if (has_own(step)) value = combine(tl_, op_, value, own_value(step));
    return value;
  }

  tl::Context& tl_;
  const StepList& list_;
  StepsUnderWay& under_way_;
  const ReduceOp op_;
  AverageDivisors divisors_;
  HeldValues held_;
};

void send(tl::Context& tl, const NodePort& to, const tl::Tensor& value) {
  to.has_slots ? tl.send(to.port, value) : tl.send(to.port, value, tl::copy_to);
}

}  // namespace

// Later steps begin first, so that their messages and loads arrive while this one waits.  All of
// the next times have posted their receives before this step sends: no sender waits for ever,
// whatever the depth of the queues.
void run_steps(tl::Context& tl, const StepList& list, const NodePorts& node_ports,
               const Reduction& reduction, const CollectiveCall& call) {
  Ports ports(list, node_ports);
  StepsUnderWay under_way(tl, list, ports, call, reduction.dtype);
  Values values(tl, list, under_way, reduction);
  for (const Step& step : list.steps) {
    const tl::Tensor value = values.compute_value(step);
    // The value is sent before it is stored, since other members wait for it and nobody waits for
    // the store.
    for (const int peer : list.receivers(step)) send(tl, ports.to(peer), value);
    if (step.target.is_there()) store(tl, step, {list, step.target, call}, value);
    values.hold(step, value);
  }
}

}  // namespace kernbench::ccl
