#include "ccl/steps/step.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ccl/steps/fifo.h"
#include "ccl/steps/held_values.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/tl/tiles.h"
#include "sim_engine/base/check.h"
#include "sim_engine/components/pe_services.h"
#include "sim_engine/components/processing_element.h"

namespace kernbench::ccl {

using distributed::CollectiveCall;

namespace {

// The operation that combines the values of two members, with its name in traces.
struct Combination {
  sim::MathOp op = sim::MathOp::add;
  std::string_view name = "a + b";
};

Combination find_combination(ReduceOp op) {
  switch (op) {
    case ReduceOp::product:
      return {sim::MathOp::multiply, "a * b"};
    case ReduceOp::min:
      return {sim::MathOp::minimum, "tl.minimum"};
    case ReduceOp::max:
      return {sim::MathOp::maximum, "tl.maximum"};
    case ReduceOp::band:
      return {sim::MathOp::bit_and, "a & b"};
    case ReduceOp::bor:
      return {sim::MathOp::bit_or, "a | b"};
    case ReduceOp::bxor:
      return {sim::MathOp::bit_xor, "a ^ b"};
    default:
      return {};
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

  const Rectangle& rectangle() const { return *shards.rectangle; }
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

// Rows are loaded as a matrix with the shard's pitch and count as one tile from then on, because
// messages are dense and sums do not depend on the form.
tl::Tiles::Rows rows_of(const Step& step, const Range& range) {
  return {step.rows, step.columns, range.pitch};
}

sim::Tile load_shard(tl::Tiles& tiles, const Step& step, const Range& from, int shard) {
  return tiles.load(from.at(shard), rows_of(step, from), from.tensor.dtype());
}

// Chooses the copy on the lane's own PE if there is one, since that is the nearest.
int nearest_copy(const tl::Context& tl, const Rectangle& rectangle) {
  const Lane own{tl.location().cube, tl.location().pe};
  const auto found = std::ranges::find(rectangle.holders, own);
  if (found == rectangle.holders.end()) return rectangle.copies.front();
  return rectangle.copies[static_cast<std::size_t>(found - rectangle.holders.begin())];
}

void store(tl::Tiles& tiles, const Step& step, const Range& to, const sim::Tile& value) {
  // Every copy on the step's cubes is written, since no other lane stores these elements.
  to.visit(to.rectangle().copies, to.rectangle().holders,
           [&](int copy) { tiles.store(to.at(copy), rows_of(step, to), value); });
}

// The queues to and from the nodes of a list, looked up when they are first used.
class Ports {
 public:
  Ports(const tl::Tiles& tiles, const StepList& list, const NodePorts& ports)
      : tiles_(tiles),
        list_(list),
        ports_(ports),
        to_(list.nodes.size()),
        from_(list.nodes.size()) {}

  sim::IpcqChannel& to(int peer) {
    sim::IpcqChannel*& queue = to_[static_cast<std::size_t>(peer)];
    if (queue == nullptr) {
      queue = &tiles_.out(ports_.to(list_.nodes[static_cast<std::size_t>(peer)]));
    }
    return *queue;
  }
  sim::IpcqChannel& from(int peer) {
    sim::IpcqChannel*& queue = from_[static_cast<std::size_t>(peer)];
    if (queue == nullptr) {
      queue = &tiles_.in(ports_.from(list_.nodes[static_cast<std::size_t>(peer)]));
    }
    return *queue;
  }

 private:
  const tl::Tiles& tiles_;
  const StepList& list_;
  const NodePorts& ports_;
  std::vector<sim::IpcqChannel*> to_;  // by index in `nodes`; null: not looked up yet
  std::vector<sim::IpcqChannel*> from_;
};

// The receives and loads of steps that have begun, in the order of the steps.
class StepsUnderWay {
 public:
  StepsUnderWay(tl::Context& tl, tl::Tiles& tiles, const StepList& list, Ports& ports,
                const CollectiveCall& call, DType dtype)
      : tl_(tl), tiles_(tiles), list_(list), ports_(ports), call_(call), dtype_(dtype) {}
  StepsUnderWay(const StepsUnderWay&) = delete;
  StepsUnderWay& operator=(const StepsUnderWay&) = delete;

  // Begins what comes next.
  void begin_until(const Step& step) {
    const std::vector<Step>& steps = list_.steps;
    while (posted_ < steps.size() && steps[posted_].time <= step.time + kPostsAhead) post();
    while (loaded_ < posted_ && steps[loaded_].time <= step.time + kLoadsAhead) load_next();
  }
  sim::Tile next_message() {
    const Time began = tiles_.wait(messages_.front());
    sim::PostedReceive message = messages_.pop();
    return tiles_.take(message, began);
  }
  sim::Tile next_load() { return loads_.pop(); }

  void visit_tiles(tl::ScratchHolder::Visit visit) const {
    loads_.visit([&](const sim::Tile& load) { visit(load, "tl.load"); });
    if (sum_) visit(sum_, "a + b");
    if (summand_) visit(summand_, "tl.load");
  }

 private:
  void post() {
    const Step& step = list_.steps[posted_++];
    for (const int peer : list_.senders(step)) {
      // Receives are posted in the order in which compute_value() takes the messages, so no message
      // needs a name.
      messages_.push(tiles_.post(ports_.from(peer), dtype_, step.count()));
    }
  }
  void load_next() {
    const Step& step = list_.steps[loaded_++];
    // Loads run ahead of the steps that use them and hold scratch until then, which is why
    // kLoadsAhead is small.
    if (step.source.is_there()) loads_.push(load(step, {list_, step.source, call_}));
  }
  sim::Tile load(const Step& step, const Range& from) {
    const Rectangle& rectangle = from.rectangle();
    if (rectangle.summands.size() == 1) {
      return load_shard(tiles_, step, from, nearest_copy(tl_, rectangle));
    }
    // A partial tensor has a summand on each of several PEs.  They are added in the order of the
    // shards, so that every run and every lane rounds alike.
    from.visit(rectangle.summands, rectangle.summand_holders, [&](int shard) {
      summand_ = load_shard(tiles_, step, from, shard);
      if (sum_) tiles_.replace(summand_, tiles_.math(sim::MathOp::add, "a + b", sum_, summand_));
      tiles_.replace(sum_, std::move(summand_));
    });
    KB_CHECK(sum_, "no summand lies on cube {}", from.shards.cube);
    return std::move(sum_);
  }

  tl::Context& tl_;
  tl::Tiles& tiles_;
  const StepList& list_;
  Ports& ports_;
  const CollectiveCall& call_;
  const DType dtype_;
  Fifo<sim::PostedReceive> messages_;
  Fifo<sim::Tile> loads_;
  sim::Tile sum_;  // while several summands are loaded
  sim::Tile summand_;
  std::size_t posted_ = 0;  // the first step whose receives are not posted
  std::size_t loaded_ = 0;
};

// Computes the value of one step after the other.
class Values final : public tl::ScratchHolder {
 public:
  Values(tl::Tiles& tiles, const StepList& list, StepsUnderWay& under_way,
         const Reduction& reduction)
      : tiles_(tiles),
        list_(list),
        under_way_(under_way),
        combination_(find_combination(reduction.op)),
        held_(tiles, list) {
    if (reduction.op == ReduceOp::avg) {
      divisors_ = AverageDivisors::of(reduction.dtype, reduction.member_count);
    }
    tiles_.set_holder(this);
  }
  ~Values() { tiles_.set_holder(nullptr); }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  // Returns the value of the step until let_go().
  const sim::Tile& compute_value(const Step& step) {
    under_way_.begin_until(step);
    if (step.from_count == 0) {
      take_own(step);
      value_ = std::move(other_);
    } else {
      // Messages come first and the own value last, as the plan says (Move), so that the rounding
      // of a sum follows from the plan alone.
      value_ = under_way_.next_message();
      for (int i = 1; i < step.from_count; ++i) {
        other_ = under_way_.next_message();
        combine();
      }
      if (step.source.is_there() || step.taken_count > 0) {
        take_own(step);
        combine();
      }
    }
    if (step.is_complete) divide_after();
    return value_;
  }
  void let_go(const Step& step) {
    held_.put(step, value_);
    tiles_.let_go(value_);
  }

  void visit_tiles(Visit visit) const override {
    under_way_.visit_tiles(visit);
    held_.visit_tiles(visit);
    if (value_) visit(value_, "tl.wait");
    if (other_) visit(other_, "tl.load");
  }

 private:
  void combine() {
    tiles_.replace(value_, tiles_.math(combination_.op, combination_.name, value_, other_));
    tiles_.let_go(other_);
  }

  // Moves the member's own value into other_.
  void take_own(const Step& step) {
    if (step.taken_count > 0) {
      other_ = held_.take(list_.taken_by(step));
      return;
    }
    KB_CHECK(step.source.is_there(), "a step without a value");
    other_ = under_way_.next_load();
    // It is a power of two: multiplying with the inverse gives exactly the same.
    if (divisors_.before == 1) return;
    apply(sim::MathOp::multiply, "a * b", other_, 1 / divisors_.before);
  }

  void divide_after() {
    if (divisors_.after == 1) return;
    const DType dtype = value_->dtype;
    const bool is_converted = !divisors_.is_after_exact_in(dtype) && dtype != DType::f32;
    if (is_converted) convert_to(DType::f32);
    apply(sim::MathOp::divide, "a / b", value_, divisors_.after);
    if (is_converted) convert_to(dtype);
  }
  void convert_to(DType dtype) {
    tiles_.replace(value_, tiles_.math(sim::MathOp::convert, "tl.cast", dtype, value_));
  }
  void apply(sim::MathOp op, std::string_view name, sim::Tile& tile, double number) {
    tiles_.replace(tile, tiles_.math(op, name, tile->dtype, tile, number));
  }

  tl::Tiles& tiles_;
  const StepList& list_;
  StepsUnderWay& under_way_;
  const Combination combination_;
  AverageDivisors divisors_;
  HeldValues held_;
  sim::Tile value_;  // of the step at hand, as far as it is computed
  sim::Tile other_;  // what is combined with it
};

// A message that finds no slot goes straight to where its receive wants it, once that is posted.
void send(tl::Tiles& tiles, sim::IpcqChannel& to, const sim::Tile& value) {
  tiles.has_slot(to, value->bytes) ? tiles.send(to, value) : tiles.copy_to(to, value);
}

}  // namespace

// Later steps begin first, so that their messages and loads arrive while this one waits.  All of
// the next times have posted their receives before this step sends: no sender waits for ever,
// whatever the depth of the queues.
void run_steps(tl::Context& tl, const StepList& list, const NodePorts& node_ports,
               const Reduction& reduction, const CollectiveCall& call) {
  tl::Tiles tiles(tl);
  Ports ports(tiles, list, node_ports);
  StepsUnderWay under_way(tl, tiles, list, ports, call, reduction.dtype);
  Values values(tiles, list, under_way, reduction);
  for (const Step& step : list.steps) {
    const sim::Tile& value = values.compute_value(step);
    // The value is sent before it is stored, since other members wait for it and nobody waits for
    // the store.
    for (const int peer : list.receivers(step)) send(tiles, ports.to(peer), value);
    if (step.target.is_there()) store(tiles, step, {list, step.target, call}, value);
    values.let_go(step);
  }
}

}  // namespace kernbench::ccl
