// measure(): every collective on both backends, its time by the closed form, and what it counts as
// wrong.

#include "benches/collectives/measured_collective.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "benches/bench/inputs.h"
#include "ccl/core/config.h"
#include "runtime/distributed/backend.h"
#include "runtime/distributed/local_backend.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/small_topology.h"

namespace kernbench::benches::measured_collective_test {

namespace {

constexpr Time kAlpha{500'000};
constexpr Time kByte{20};

collectives::MeasuredInput input_of(collectives::MeasuredCollective collective, int ranks,
                                    std::int64_t count) {
  collectives::MeasuredInput input;
  input.blocks = {.collective = collective, .ranks = ranks, .count = count, .seed = 3};
  input.placement = DPPolicy::on_one_pe();
  return input;
}

collectives::Measurement measure_on(const Topology& topology,
                                    const collectives::MeasuredInput& input, bool data = true) {
  RuntimeContext torch(topology, {.data = data});
  return collectives::measure(torch, input);
}

Topology ring(int ranks) {
  return test::link_topology(SipTopology::ring_1d, ranks);
}

// A backend that returns at once, with nothing done.
class IdleBackend : public distributed::Backend, public distributed::Communicator {
 public:
  explicit IdleBackend(int world_size) : world_size_(world_size) {}
  std::string_view name() const override { return "test_idle"; }
  int world_size() const override { return world_size_; }
  std::unique_ptr<Communicator> connect(const std::vector<int>&, std::string_view) override {
    return std::make_unique<IdleBackend>(world_size_);
  }
  void run(const distributed::CollectiveCall&) override {}
  void transfer(std::uint64_t, const distributed::Block&, const distributed::Block&) override {}

 private:
  const int world_size_;
};

[[maybe_unused]] const bool kHasIdleBackend = distributed::register_backend(
    "test_idle",
    [](const distributed::BackendInputs& inputs) -> std::unique_ptr<distributed::Backend> {
      return std::make_unique<IdleBackend>(inputs.torch.topology().system.sip_count);
    });

// On each place that the collective has.
template <class Check>
void on_each_place(collectives::MeasuredInput input, Check check) {
  const collectives::CollectiveSpec& spec = collectives::spec_of(input.blocks.collective);
  for (const bool in_place : {false, true}) {
    if (in_place ? !spec.in_place : !spec.out_of_place) continue;
    input.in_place = in_place;
    CAPTURE(spec.name, in_place, input.backend);
    check(input);
  }
}

// Round the ring as often as there are ranks, so that one's own values are added twice.
void once_too_often(tl::Context& tl, const ccl::KernelArgs& args) {
  const tl::Shape shape{args.n_elem};
  tl::Tensor travelling = tl.load(args.tensor, shape, args.dtype);
  tl::Tensor sum = travelling;
  for (int step = 0; step < args.world_size; ++step) {
    tl.send(args.ring().next, travelling);
    travelling = tl.recv(args.ring().previous, shape, args.dtype);
    sum = sum + travelling;
  }
  tl.store(args.tensor, sum);
}

KERNBENCH_REGISTER_ALGORITHM("test_once_too_often", once_too_often);

void keeps(tl::Context&, const ccl::KernelArgs&) {}

[[maybe_unused]] const bool kHasShift =
    ccl::register_algorithm({.name = "test_no_shift", .kernel = keeps, .collective = "shift"});
[[maybe_unused]] const bool kHasBroadcast =
    ccl::register_algorithm({.name = "test_broadcast", .kernel = keeps, .collective = "broadcast"});

// The collective of an algorithm of ccl.yaml, on two SIPs.
collectives::Measurement measure_by(std::string_view algorithm, std::int64_t count,
                                    std::string_view more = "") {
  const auto config =
      ccl::Config::parse(fmt::format("defaults: {{algorithm: {}{}}}", algorithm, more));
  const Topology topology = load_topology("tiny");
  RuntimeContext torch(topology, {.ccl = config});
  collectives::MeasuredInput input = collectives::input_for(config, topology);
  input.blocks.count = count;
  return collectives::measure(torch, input);
}

}  // namespace

TEST_CASE("every collective is right on both backends, for each type", "[measured_collective]") {
  const Topology topology = test::round_topology(SipTopology::torus_2d, 2, 3, 2, 1);
  for (const collectives::MeasuredCollective collective : collectives::kMeasuredCollectives) {
    for (const std::string backend : {"ahbm", "local"}) {
      for (const DType dtype : kDTypes) {
        collectives::MeasuredInput input = input_of(collective, 6, 100);
        input.backend = backend;
        input.blocks.dtype = dtype;
        input.blocks.root = 4;
        input.placement = {.cube = Shard::column_wise, .pe = Shard::column_wise};
        on_each_place(input, [&](const collectives::MeasuredInput& wanted) {
          const collectives::Measurement measured = measure_on(topology, wanted);
          CHECK(measured.wrong == 0);
          CHECK(measured.algorithm.has_value() == (backend == "ahbm"));
          CHECK(measured.lower_bound.has_value() == (backend == "ahbm"));
          CHECK((measured.time > Time{0}) == (backend == "ahbm"));
        });
      }
    }
  }
}

TEST_CASE("reductions are right for each operation", "[measured_collective]") {
  for (const collectives::MeasuredCollective collective :
       {collectives::MeasuredCollective::all_reduce, collectives::MeasuredCollective::reduce,
        collectives::MeasuredCollective::reduce_scatter}) {
    for (const ReduceOp op :
         {ReduceOp::sum, ReduceOp::avg, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
      for (const std::string backend : {"ahbm", "local"}) {
        collectives::MeasuredInput input = input_of(collective, 3, 40);
        input.backend = backend;
        input.blocks.op = op;
        input.blocks.dtype = DType::f16;
        CAPTURE(name_of(op));
        on_each_place(input, [&](const collectives::MeasuredInput& wanted) {
          CHECK(measure_on(ring(3), wanted).wrong == 0);
        });
      }
    }
  }
}

TEST_CASE("a group takes part alone", "[measured_collective]") {
  for (const collectives::MeasuredCollective collective : collectives::kMeasuredCollectives) {
    for (const std::string backend : {"ahbm", "local"}) {
      collectives::MeasuredInput input = input_of(collective, 3, 40);
      input.backend = backend;
      input.members = {1, 3, 4};
      input.blocks.root = 2;
      on_each_place(input, [&](const collectives::MeasuredInput& wanted) {
        CHECK(measure_on(ring(6), wanted).wrong == 0);
      });
    }
  }
}

// Three ranks take blocks of 40 each; an element that was never written reads as NaN.
TEST_CASE("every element that was not taken is counted", "[measured_collective]") {
  const auto wrong_of = [](collectives::MeasuredCollective collective, bool in_place) {
    collectives::MeasuredInput input = input_of(collective, 3, 40);
    input.backend = "test_idle";
    input.in_place = in_place;
    return measure_on(ring(3), input).wrong.value();
  };
  CHECK(wrong_of(collectives::MeasuredCollective::all_gather, false) == 3 * 3 * 40);
  CHECK(wrong_of(collectives::MeasuredCollective::all_gather, true) == 3 * 2 * 40);
  CHECK(wrong_of(collectives::MeasuredCollective::reduce_scatter, false) == 3 * 40);
  CHECK(wrong_of(collectives::MeasuredCollective::all_to_all, false) == 3 * 3 * 40);
  CHECK(wrong_of(collectives::MeasuredCollective::gather, false) == 3 * 40);
  CHECK(wrong_of(collectives::MeasuredCollective::gather, true) == 2 * 40);
  CHECK(wrong_of(collectives::MeasuredCollective::scatter, false) == 3 * 40);
  CHECK(wrong_of(collectives::MeasuredCollective::scatter, true) == 2 * 40);
  CHECK(wrong_of(collectives::MeasuredCollective::sendrecv, false) == 3 * 40);
  // The values that were there before may be right by chance; those of a root of broadcast are.
  for (const collectives::MeasuredCollective collective :
       {collectives::MeasuredCollective::all_reduce, collectives::MeasuredCollective::broadcast,
        collectives::MeasuredCollective::reduce}) {
    const std::int64_t ranks = collective == collectives::MeasuredCollective::all_reduce  ? 3
                               : collective == collectives::MeasuredCollective::broadcast ? 2
                                                                                          : 1;
    CHECK(wrong_of(collective, true) > ranks * 30);
    CHECK(wrong_of(collective, true) <= ranks * 40);
  }
}

// TIMING.md 3.2, the shorter ways round.  Before a large message, the news that its receive is
// posted take alpha and 16 B.
TEST_CASE("times are those of the closed forms", "[measured_collective][timing]") {
  const Time news = kAlpha + 16 * kByte;
  for (const int ranks : {3, 5}) {
    for (const std::int64_t count : {1, 256, 1024}) {
      const bool is_small = count <= 256;
      const Time block = count * 4 * kByte;
      const auto time_of = [&](collectives::MeasuredCollective collective) {
        return measure_on(ring(ranks), input_of(collective, ranks, count)).time;
      };
      CHECK(time_of(collectives::MeasuredCollective::sendrecv) ==
            (is_small ? Time{0} : news) + kAlpha + block);
      if (!is_small) continue;  // cut into parts
      CHECK(time_of(collectives::MeasuredCollective::all_gather) == ranks / 2 * (kAlpha + block));
      CHECK(time_of(collectives::MeasuredCollective::reduce_scatter) ==
            ranks / 2 * (kAlpha + block));
    }
  }
}

TEST_CASE("a time is no less than its bound, and the same without values",
          "[measured_collective][timing]") {
  const Topology topology = test::round_topology(SipTopology::mesh_2d_no_wrap, 3, 2, 2, 1);
  for (const collectives::MeasuredCollective collective : collectives::kMeasuredCollectives) {
    for (const std::int64_t count : {1, 100, 10'000}) {
      on_each_place(input_of(collective, 6, count), [&](const collectives::MeasuredInput& wanted) {
        const collectives::Measurement measured = measure_on(topology, wanted);
        CHECK(measured.lower_bound > Time{0});
        CHECK(measured.time >= measured.lower_bound);
        const collectives::Measurement timed = measure_on(topology, wanted, false);
        CHECK(timed.time == measured.time);
        CHECK(timed.wrong == std::nullopt);
      });
    }
  }
}

TEST_CASE("repetitions count by their mean", "[measured_collective][timing]") {
  collectives::MeasuredInput input = input_of(collectives::MeasuredCollective::all_reduce, 6, 600);
  input.blocks.op = ReduceOp::max;
  const Time once = measure_on(ring(6), input, false).time;
  input.repetitions = 4;
  // One may begin before the one before has ended on all ranks.
  CHECK(measure_on(ring(6), input, false).time <= once);
}

TEST_CASE("the algorithm is the one that runs", "[measured_collective]") {
  const auto algorithm_of = [](collectives::MeasuredInput input) {
    return measure_on(ring(3), input).algorithm.value();
  };
  collectives::MeasuredInput input = input_of(collectives::MeasuredCollective::all_reduce, 3, 40);
  CHECK(algorithm_of(input) == "intercube_allreduce");
  input.blocks.op = ReduceOp::max;
  CHECK(algorithm_of(input) == "intercube_allreduce");
  CHECK(algorithm_of(input_of(collectives::MeasuredCollective::all_gather, 3, 40)) == "torus");
  CHECK(algorithm_of(input_of(collectives::MeasuredCollective::broadcast, 3, 40)) == "chain");
  CHECK(algorithm_of(input_of(collectives::MeasuredCollective::gather, 3, 40)) == "packed_ways");
  input = input_of(collectives::MeasuredCollective::all_reduce, 2, 40);
  input.members = {0, 2};
  CHECK(algorithm_of(input) == "swing_whole_allreduce");  // the fastest (ADR-0181)
}

TEST_CASE("sums that are not the sum are counted, element by element", "[measured_collective]") {
  CHECK(measure_by("ring_allreduce", 1000).wrong == 0);
  CHECK(measure_by("ring_allreduce", 1000, ", world_size: 2").wrong == 0);
  // Summands are -1, 0 and 1 and such: those other than 0 show.
  const collectives::Measurement measured = measure_by("test_once_too_often", 1000);
  CHECK(measured.wrong > 500);
  CHECK(measured.wrong <= 2 * 1000);  // on two ranks
}

TEST_CASE("values that were not passed on are counted", "[measured_collective]") {
  CHECK(measure_by("hello_send", 1000).wrong == 0);
  for (const std::string_view more : {"", ", world_size: 2"}) {
    const collectives::Measurement measured = measure_by("test_no_shift", 1000, more);
    CHECK(measured.wrong > 500);
    CHECK(measured.wrong <= 2 * 1000);
  }
}

TEST_CASE("a collective that nobody can check is refused", "[measured_collective][errors]") {
  CHECK_THROWS_WITH(
      measure_by("test_broadcast", 8),
      Catch::Contains("KB-C012") && Catch::Contains("'test_broadcast' is a broadcast"));
}

}  // namespace kernbench::benches::measured_collective_test
