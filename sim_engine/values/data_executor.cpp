#include "sim_engine/values/data_executor.h"

#include <xmmintrin.h>

#include <algorithm>
#include <thread>

#include "sim_engine/base/check.h"
#include "sim_engine/values/element_format.h"
#include "sim_engine/values/node_work.h"
#include "sim_engine/values/operand.h"
#include "sim_engine/values/step_graph.h"

namespace kernbench::sim {

namespace {

// Checks the floating-point mode: flushed subnormals or another rounding mode would change results.
void check_float_environment() {
  constexpr unsigned kFlushesOrRoundsOtherwise = 0x8040 | 0x6000;
  KB_CHECK((_mm_getcsr() & kFlushesOrRoundsOtherwise) == 0,
           "KB-N010: FTZ, DAZ or a rounding mode was set by a library");
}

// Returns the node itself, or the node that it views as a whole, which has the same elements.
ValueNode& without_aliases(ValueNode& node) {
  const NodeRange base = find_base(node);
  KB_CHECK(!base.node->is_placeholder(), "read of a value that was never bound");
  return base.node->count == node.count ? *base.node : node;
}

}  // namespace

DataExecutor::DataExecutor(MemoryStore& store, int thread_count)
    : store_(store),
      thread_count_(thread_count > 0 ? thread_count
                                     : static_cast<int>(std::thread::hardware_concurrency())) {}

void DataExecutor::read(const Value& value, std::span<float> out) {
  read_as(value, out);
}

void DataExecutor::read(const Value& value, std::span<std::int64_t> out) {
  read_as(value, out);
}

template <class Number>
void DataExecutor::read_as(const Value& value, std::span<Number> out) {
  KB_CHECK(store_.has_data(), "read in a timing-only run");
  KB_CHECK(static_cast<std::int64_t>(out.size()) == value.element_count(),
           "read of {} elements into {}", value.element_count(), out.size());
  if (out.empty()) return;
  KB_CHECK(value.node() != nullptr, "read of a value without data");
  check_float_environment();
  ValueNode& node = without_aliases(*value.node());
  compute(node);
  if (node.kind == ValueKind::constant) {
    std::ranges::fill(out, number_of<Number>(node));
  } else {
    decode(node.dtype, node.data.get(), out);
  }
}

void DataExecutor::bound_memory() {
  if (!is_memory_to_be_bounded()) return;
  check_float_environment();
  constexpr std::int64_t kNsPerNode = 2'000;  // about what the simulation takes for one
  const std::int64_t nodes = store_.live_value_count();
  const Bytes bytes = store_.live_bytes();
  const bool computes_all = nodes > kManyNodes || (bytes > most_bytes_ && bytes > kManyBytes);
  {
    struct EndBudget {
      DataExecutor& self;
      ~EndBudget() { self.budget_ = kNoLimit; }
    } guard{*this};
    if (!computes_all) budget_ = kNsPerNode * nodes + bytes;
    store_.for_each_value([&](const Value& value) {
      if (budget_ > 0) compute(without_aliases(*value.node()));
    });
  }
  most_nodes_ = std::max(kFewNodes, 2 * store_.live_value_count());
  most_bytes_ = std::max(kFewBytes, 2 * store_.live_bytes());
}

void DataExecutor::compute(ValueNode& root) {
  struct ForgetPlan {
    DataExecutor& self;
    ~ForgetPlan() { self.forget_plan(); }
  } guard{*this};
  last_thread_count_ = 1;
  if (!is_computed(root)) path_.push_back(&root);
  while (!path_.empty() && budget_ > 0) {
    plan_some();
    run_plan();
  }
}

// Plans depth first with an explicit stack, since dependencies may be millions deep.  A node stays
// on the path until its inputs are in the plan; they cannot end before it, since it refers to them.
void DataExecutor::plan_some() {
  while (!path_.empty() && !is_plan_long_enough()) {
    ValueNode& node = *path_.back();
    if (node.step == 0 && !is_computed(node)) {  // else planned already, for another user
      node.on_path = true;
      if (push_needs(node)) continue;
      node.on_path = false;
      plan_.push_back(&node);
      node.step = static_cast<std::uint32_t>(plan_.size());
      cost_ += node_cost(node);
    }
    path_.pop_back();
  }
}

// A short plan keeps the operands of small steps in the caches.  For several threads it is longer,
// since they wait for each other at its end.
bool DataExecutor::is_plan_long_enough() const {
  constexpr std::size_t kFew = 1024;
  constexpr std::size_t kMany = 65536;
  if (cost_ >= budget_) return true;
  return plan_.size() >= kFew && (plan_.size() >= kMany || useful_threads() == 1);
}

bool DataExecutor::push_needs(ValueNode& node) {
  bool pushed = false;
  visit_needs(node, [&](ValueNode& needed) {
    KB_CHECK(!needed.is_placeholder(), "read of a value that was never bound");
    KB_CHECK(!needed.on_path, "a value that depends on itself");
    if (is_computed(needed) || needed.step != 0) return;
    path_.push_back(&needed);
    pushed = true;
  });
  return pushed;
}

// A thread costs some ten microseconds to start, and handing out a step about one.
int DataExecutor::useful_threads() const {
  constexpr std::int64_t kCostPerThread = 500'000;
  constexpr std::int64_t kLeastStepCost = 2'000;
  constexpr int kMostThreads = 1024;  // even if more are asked for
  if (cost_ < kLeastStepCost * static_cast<std::int64_t>(plan_.size())) return 1;
  return static_cast<int>(
      std::clamp<std::int64_t>(cost_ / kCostPerThread, 1, std::min(thread_count_, kMostThreads)));
}

void DataExecutor::run_plan() {
  const int threads = useful_threads();
  last_thread_count_ = std::max(last_thread_count_, threads);
  if (threads > 1) {
    run_on_threads(threads);
  } else {
    run_in_order();
  }
  plan_.clear();
  if (budget_ != kNoLimit) budget_ -= cost_;
  cost_ = 0;
}

void DataExecutor::run_in_order() {
  prepare_workspaces(1);
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    ValueNode& node = *plan_[i];
    begin(node);
    const std::int64_t parts = part_count(node);
    for (std::int64_t part = 0; part < parts; ++part) compute_part(node, part, workspaces_[0]);
    end(node);
  }
}

// The steps of the plan for several threads.
class DataExecutor::PlanWork final : public StepWork {
 public:
  explicit PlanWork(DataExecutor& executor) : executor_(executor) {}
  void begin(Step step) override { executor_.begin(node(step)); }
  void end(Step step) override { executor_.end(node(step)); }
  void run(Step step, std::int64_t part, int thread) override {
    compute_part(node(step), part, executor_.workspaces_[static_cast<std::size_t>(thread)]);
  }

 private:
  ValueNode& node(Step step) { return *executor_.plan_[step]; }

  DataExecutor& executor_;
};

void DataExecutor::run_on_threads(int thread_count) {
  prepare_workspaces(thread_count);
  StepGraph graph;
  for (const ValueNode* const node : plan_) graph.add(part_count(*node), part_cost(*node));
  for (ValueNode* const node : plan_) {
    const auto needs = [&](const ValueNode& needed) {
      if (needed.step != 0) graph.add_need(node->step - 1, needed.step - 1);
    };
    visit_needs(*node, needs);
    // A node that is read through may be in the plan for another user; when it ends it drops its
    // source, so this node must not run before that.
    for (std::size_t i = 0; i < node->inputs.size() && node->inputs[i].node() != nullptr; ++i) {
      const NodeRange base = find_base(*node->inputs[i].node());
      if (is_read_through(*node, i, base)) needs(*base.node);
    }
  }
  PlanWork work(*this);
  graph.run(thread_count, work);
}

void DataExecutor::prepare_workspaces(int count) {
  const bool multiplies = std::ranges::any_of(
      plan_, [](const ValueNode* node) { return node->kind == ValueKind::gemm; });
  if (std::ssize(workspaces_) < count) workspaces_.resize(static_cast<std::size_t>(count));
  for (int i = 0; multiplies && i < count; ++i) workspaces_[static_cast<std::size_t>(i)].allocate();
}

void DataExecutor::begin(ValueNode& node) {
  take_storage(node);
}

void DataExecutor::end(ValueNode& node) {
  plan_[node.step - 1] = nullptr;
  node.step = 0;
  node.kind = ValueKind::data;
  for (NodeRef& input : node.inputs) input = NodeRef();
  node.pieces.clear();
  ++computed_count_;
}

void DataExecutor::forget_plan() {
  for (ValueNode* const node : path_) node->on_path = false;
  for (ValueNode* const node : plan_) {
    if (node == nullptr) continue;  // done
    node->step = 0;
    node->pool->release_data(*node);
  }
  path_.clear();
  plan_.clear();
  cost_ = 0;
}

}  // namespace kernbench::sim
