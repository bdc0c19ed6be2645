#include "benches/evaluation/gemm_model.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/base/check.h"
#include "sim_engine/components/gemm_array.h"
#include "sim_engine/components/routing.h"

namespace kernbench::benches::evaluation {

namespace {

using sim::GemmSize;

// A link on the path (ADR-0033).
struct Hop {
  LinkSpec spec;
  Time free{0};
};

// A transfer on its way: when its head, and when its tail, reaches the next hop.
struct Travel {
  Time head{0};
  Time tail{0};
};

void pass(Hop& hop, Travel& travel, Bytes bytes) {
  const Time start = std::max(travel.head, hop.free);
  hop.free = start + transfer_time(bytes, hop.spec.bandwidth);
  travel.tail = std::max(hop.free, travel.tail) + hop.spec.latency;
  travel.head = start + hop.spec.latency;
}

// A load or a store that has reached the slice.
struct Request {
  Travel travel;
  Bytes bytes = 0;
  std::int64_t step = -1;    // of a load
  std::int64_t result = -1;  // of a store
};

// Elements [row, row + rows) x [column, column + columns) of a matrix.
struct Block {
  Bytes address = 0;
  std::int64_t pitch = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

class Pipeline {
 public:
  Pipeline(const Topology& topology, const GemmProblem& problem)
      : pe_(topology.pe),
        problem_(problem),
        counts_{sim::ceil_divide(problem.size.m, problem.tile.m),
                sim::ceil_divide(problem.size.n, problem.tile.n),
                sim::ceil_divide(problem.size.k, problem.tile.k)},
        steps_(static_cast<std::size_t>(counts_.m * counts_.n * counts_.k)),
        stored_(static_cast<std::size_t>(counts_.m * counts_.n)) {
    slice_.spec = sim::Routing::hbm_slice(topology);
    sram_.spec = {topology.cube.sram.bandwidth, topology.cube.sram.latency};
    const LinkSpec tcm{pe_.tcm.bandwidth, pe_.tcm.latency};
    way_in_ = {Hop{topology.cube.noc}, Hop{tcm}};
    way_out_ = {Hop{tcm}, Hop{topology.cube.noc}};
  }

  GemmPrediction predict();

 private:
  // The state of a product of two tiles.
  struct Step {
    Time loaded{0};  // both operands are there
    int loads = 0;   // number of its loads that have arrived
    Time end{0};
  };

  Step& at(std::int64_t step) { return steps_[static_cast<std::size_t>(step)]; }
  GemmSize size_of_step(std::int64_t step) const;
  std::int64_t row_of(std::int64_t step) const { return step / counts_.k / counts_.n; }
  std::int64_t column_of(std::int64_t step) const { return step / counts_.k % counts_.n; }
  void issue_loads(std::int64_t step);
  void issue_load(std::int64_t step, const Block& block, Time issued);
  void issue_store(std::int64_t step);
  Time translation(const Block& block) const;
  Bytes count_bytes(const Block& block) const {
    return block.rows * block.columns * size_of(problem_.dtype);
  }
  void serve_next();
  Time time_of_store(std::int64_t result);
  void multiply(std::int64_t step);
  Time time_at_ports(std::int64_t step) const;

  const Topology::Pe& pe_;
  const GemmProblem& problem_;
  const GemmSize counts_;
  std::vector<Step> steps_;
  std::vector<std::optional<Time>> stored_;  // when each result is stored
  Hop slice_;
  Hop sram_;
  std::array<Hop, 2> way_in_;
  std::array<Hop, 2> way_out_;
  Time load_channel_free_{0};
  Time store_channel_free_{0};
  Time dispatched_{0};             // the product before
  std::vector<Request> requests_;  // at the slice, not yet served
  GemmPrediction prediction_;
};

GemmSize Pipeline::size_of_step(std::int64_t step) const {
  const auto& [m, n, k] = problem_.size;
  const GemmSize& tile = problem_.tile;
  return {std::min(tile.m, m - row_of(step) * tile.m),
          std::min(tile.n, n - column_of(step) * tile.n),
          std::min(tile.k, k - step % counts_.k * tile.k)};
}

// Every page between the first and the last byte holds a part of some row.  Where a shared operand
// lies is not known here; it takes a page at least.
Time Pipeline::translation(const Block& block) const {
  if (problem_.shares_operands) return pe_.mmu_latency;
  const Bytes size = size_of(problem_.dtype);
  const Bytes first = block.address + (block.row * block.pitch + block.column) * size;
  const Bytes last = first + ((block.rows - 1) * block.pitch + block.columns) * size - 1;
  return pe_.mmu_latency * (last / pe_.mmu_page - first / pe_.mmu_page + 1);
}

// Issues the step's loads when the product two before has ended, which frees the place of its
// operands.
void Pipeline::issue_loads(std::int64_t step) {
  const Time issued = step < 2 ? Time{0} : at(step - 2).end;
  const auto [m, n, k] = size_of_step(step);
  const std::int64_t row = row_of(step) * problem_.tile.m;
  const std::int64_t column = column_of(step) * problem_.tile.n;
  const std::int64_t depth = step % counts_.k * problem_.tile.k;
  issue_load(step, {problem_.a, problem_.size.k, row, depth, m, k}, issued);
  issue_load(step, {problem_.b, problem_.size.n, depth, column, k, n}, issued);
}

void Pipeline::issue_load(std::int64_t step, const Block& block, Time issued) {
  load_channel_free_ =
      std::max(load_channel_free_, issued + pe_.scheduler_dispatch) + pe_.dma_setup;
  const Time head = load_channel_free_ + translation(block);
  requests_.push_back({.travel = {head, head}, .bytes = count_bytes(block), .step = step});
  prediction_.hbm_loaded += count_bytes(block);
}

void Pipeline::issue_store(std::int64_t step) {
  const GemmSize size = size_of_step(step);
  const Block block{problem_.c,
                    problem_.size.n,
                    row_of(step) * problem_.tile.m,
                    column_of(step) * problem_.tile.n,
                    size.m,
                    size.n};
  store_channel_free_ =
      std::max(store_channel_free_, at(step).end + pe_.scheduler_dispatch) + pe_.dma_setup;
  const Time head = store_channel_free_ + translation(block);
  Request request{.travel = {head, head}, .bytes = count_bytes(block), .result = step / counts_.k};
  for (Hop& hop : way_out_) pass(hop, request.travel, request.bytes);
  requests_.push_back(request);
  prediction_.hbm_stored += request.bytes;
}

// Serves the request that is first at the slice, or at SRAM; a load goes before a store at the same
// time.
void Pipeline::serve_next() {
  KB_CHECK(!requests_.empty(), "nothing is under way");
  const auto next = std::ranges::min_element(requests_, {}, [](const Request& request) {
    return std::pair(request.travel.head, request.result >= 0);
  });
  Request request = *next;
  requests_.erase(next);
  const bool is_from_sram = problem_.shares_operands && request.step >= 0;
  pass(is_from_sram ? sram_ : slice_, request.travel, request.bytes);
  if (request.result >= 0) {
    stored_[static_cast<std::size_t>(request.result)] = request.travel.tail;
    return;
  }
  for (Hop& hop : way_in_) pass(hop, request.travel, request.bytes);
  Step& step = at(request.step);
  step.loaded = std::max(step.loaded, request.travel.tail);
  ++step.loads;
}

Time Pipeline::time_of_store(std::int64_t result) {
  auto& time = stored_[static_cast<std::size_t>(result)];
  while (!time) serve_next();
  return *time;
}

// The sum of a result is f32 until its last step.
Time Pipeline::time_at_ports(std::int64_t number) const {
  const GemmSize size = size_of_step(number);
  const Bytes element = size_of(problem_.dtype);
  const bool begins_result = number % counts_.k == 0;
  const bool ends_result = number % counts_.k == counts_.k - 1;
  const Bytes sum = size.m * size.n * size_of(DType::f32);
  const auto [read, written] = sim::gemm_traffic(
      pe_.gemm, size,
      {element, element, ends_result ? element : size_of(DType::f32), begins_result ? 0 : sum});
  return transfer_time(std::max(read, written), pe_.tcm.compute_bandwidth);
}

// All requests that can precede this step's loads at the slice have been issued: loads of the next
// step, and stores of earlier products.
void Pipeline::multiply(std::int64_t number) {
  Step& step = at(number);
  while (step.loads < 2) serve_next();
  Time ready = std::max(step.loaded, dispatched_);
  const std::int64_t result = number / counts_.k;
  const bool begins_result = number % counts_.k == 0;
  if (begins_result && result >= 2) ready = std::max(ready, time_of_store(result - 2));
  dispatched_ = ready + pe_.scheduler_dispatch;
  const Time before = number == 0 ? Time{0} : at(number - 1).end;
  const auto use = sim::gemm_array_use(pe_.gemm, size_of_step(number));
  step.end = std::max(dispatched_, before) +
             std::max(time_at_ports(number), cycles_time(use.value().cycles, pe_.gemm.clock));
}

GemmPrediction Pipeline::predict() {
  const auto count = static_cast<std::int64_t>(steps_.size());
  prediction_.gemm_count = count;
  issue_loads(0);
  for (std::int64_t step = 0; step < count; ++step) {
    if (step + 1 < count) issue_loads(step + 1);
    multiply(step);
    if (step % counts_.k == counts_.k - 1) issue_store(step);
  }
  for (std::int64_t result = 0; result < counts_.m * counts_.n; ++result) {
    prediction_.window = std::max(prediction_.window, time_of_store(result));
  }
  prediction_.time = pe_.cpu_issue + pe_.scheduler_dispatch + prediction_.window;
  return prediction_;
}

}  // namespace

GemmPrediction predict_gemm(const Topology& topology, const GemmProblem& problem) {
  return Pipeline(topology, problem).predict();
}

Time closed_form(const EqualSteps& steps) {
  return steps.fill + steps.loads + (steps.count - 1) * std::max(steps.product, steps.loads) +
         steps.product + steps.drain;
}

}  // namespace kernbench::benches::evaluation
