// Computes the result of a step from made-up times of ranks.

#include "benches/tensor_parallel/step_result.h"

#include <catch2/catch.hpp>

#include "benches/bench/cell.h"
#include "benches/bench/row_cells.h"
#include "benches/tensor_parallel/step_charts.h"
#include "benches/tensor_parallel/step_table.h"
#include "sim_engine/base/check.h"
#include "test/benches/figure/drawn.h"
#include "test/support/small_topology.h"

namespace kernbench::benches::step_result_test {

namespace {

constexpr Time kUs{1'000'000};

// A ring of 4 SIPs: 500 ns, 50 GB/s; an array of 2 x 2 cells at 1 GHz: 8 GFLOP/s.
Topology ring_of_four() {
  Topology topology = test::link_topology(SipTopology::ring_1d, 4);
  topology.pe.gemm = {.rows = 2, .columns = 2, .clock = Frequency{1'000'000'000}};
  return topology;
}

runtime::FlightEvent collective(std::string_view function, std::int64_t elements, Time started,
                                Time took) {
  return {.function = function,
          .has_tensor = true,
          .dtype = DType::f16,
          .shape = {elements},
          .issued = started,
          .started = started,
          .completed = started + took};
}

// 10 us of forward and 20 of backward, 4 of them with communication, 1 of which is hidden.
tensor_parallel::RankStep rank_step() {
  tensor_parallel::RankStep step;
  step.began = 5 * kUs;
  step.forward_collectives = 2;
  step.forward_ended = 15 * kUs;
  step.ended = 35 * kUs;
  step.activity = {.computing = 24 * kUs, .communicating = 4 * kUs, .overlapped = kUs};
  step.collectives = {collective("all_gather_into_tensor", 1000, 6 * kUs, 1 * kUs),
                      collective("all_reduce", 1000, 12 * kUs, 1 * kUs),
                      collective("all_reduce", 1000, 20 * kUs, 2 * kUs)};
  return step;
}

tensor_parallel::StepResult result_of(const std::vector<tensor_parallel::RankStep>& ranks,
                                      double forward_flops = 32'000) {
  return tensor_parallel::summarize(ring_of_four(), ranks, forward_flops, 2);
}

}  // namespace

TEST_CASE("a step is that of the rank that takes longest", "[tensor_parallel]") {
  std::vector<tensor_parallel::RankStep> ranks(4, rank_step());
  ranks[2].ended = 36 * kUs;
  ranks[2].activity.computing = 25 * kUs;
  const tensor_parallel::StepResult result = result_of(ranks);
  CHECK(result.world_size == 4);
  CHECK(result.forward == 10 * kUs);
  CHECK(result.backward == 21 * kUs);
  CHECK(result.activity.computing == 25 * kUs);
  CHECK(result.flops == 96'000);
  CHECK(result.tflops_per_device() == Approx(96'000 / 4 / 31e-6 / 1e12));
  CHECK(result.peak_tflops == Approx(0.016));  // 2 PEs
}

TEST_CASE("collectives of one function and size are counted together", "[tensor_parallel]") {
  const tensor_parallel::StepResult result =
      result_of(std::vector<tensor_parallel::RankStep>(4, rank_step()));
  REQUIRE(result.collectives.size() == 2);
  CHECK(result.collectives[0].function == "all_gather_into_tensor");
  CHECK(result.collectives[0].size == 4 * 2000);  // of all ranks' blocks
  CHECK(result.collectives[0].count == 1);
  CHECK(result.collectives[1].function == "all_reduce");
  CHECK(result.collectives[1].size == 2000);
  CHECK(result.collectives[1].count == 2);
  CHECK(result.collectives[1].time == 3 * kUs);
}

TEST_CASE("the bound of a step is what arrays and links allow", "[tensor_parallel]") {
  // Each rank has 8,000 operations of forward: 500 ns at 16 GFLOP/s.  Neither an all_reduce of
  // 2,000 B, whose bytes need 530 ns, nor an all_gather of as much from each rank, 560 ns, can beat
  // the ring's diameter: 1000 ns.
  const tensor_parallel::StepResult result =
      result_of(std::vector<tensor_parallel::RankStep>(4, rank_step()));
  const Time forward = Time{500'000} + Time{1'000'000} + Time{1'000'000};
  const Time backward{1'000'000};  // as long as the products
  CHECK(result.bound == forward + backward);
  const tensor_parallel::StepResult larger =
      result_of(std::vector<tensor_parallel::RankStep>(4, rank_step()), 320'000);
  CHECK(larger.bound == Time{5'000'000} + Time{2'000'000} + Time{10'000'000});
}

TEST_CASE("a step that is faster than any can be is a bug", "[tensor_parallel]") {
  CHECK_THROWS_AS(result_of(std::vector<tensor_parallel::RankStep>(4, rank_step()), 640'000),
                  InternalError);
  std::vector<tensor_parallel::RankStep> ranks(4, rank_step());
  for (tensor_parallel::RankStep& rank : ranks) rank.ended = rank.forward_ended + Time{900'000};
  CHECK_THROWS_AS(result_of(ranks), InternalError);
}

TEST_CASE("the rows of a step have these columns", "[tensor_parallel]") {
  tensor_parallel::StepResult result =
      result_of(std::vector<tensor_parallel::RankStep>(4, rank_step()));
  const auto columns_of = [](const Row& row) {
    std::string columns;
    for (const auto& [column, cell] : row.cells()) columns += std::string(column) + " ";
    return columns;
  };
  const std::vector<Row> rows = to_rows(result);
  REQUIRE(rows.size() == 3);
  CHECK(columns_of(rows[0]) ==
        "table tp world_size system pes sip_pes forward_ns backward_ns step_ns compute_ns "
        "communication_ns exposed_ns idle_ns flops tflops_per_sip utilization_of_pes bound_ns "
        "wrong unequal checked "
        "worst_error error error_bound ");
  CHECK(columns_of(rows[1]) ==
        "table tp world_size system collective algorithm size_bytes count time_ns busbw_gbs ");
  CHECK(number_in(rows[0], "step_ns") == 30'000);
  CHECK(number_in(rows[0], "communication_ns") == 4'000);
  CHECK(number_in(rows[0], "exposed_ns") == 3'000);
  CHECK(number_in(rows[0], "idle_ns") == 30'000 - 24'000 - 3'000);
  CHECK(number_in(rows[2], "busbw_gbs") == Approx(1.5 * 4000 / 3000));
  CHECK_FALSE(number_or_null(rows[0], "wrong"));
  tensor_parallel::StepResult alone = result;
  alone.world_size = 1;
  CHECK_FALSE(number_or_null(to_rows(alone)[2], "busbw_gbs"));  // no bus is used
  result.check = tensor_parallel::StepCheck{.checked = 10, .wrong = 2};
  CHECK(number_in(to_rows(result).front(), "wrong") == 2);
  const tensor_parallel::StepRows split = tensor_parallel::split_rows(rows);
  CHECK(split.steps.size() == 1);
  CHECK(split.collectives.size() == 2);
}

TEST_CASE("the charts of steps show each of them", "[tensor_parallel][figure]") {
  tensor_parallel::StepResult first =
      result_of(std::vector<tensor_parallel::RankStep>(4, rank_step()));
  first.world_size = 1;
  tensor_parallel::StepResult second = first;
  second.world_size = 4;
  second.forward = 5 * kUs;
  second.backward = 5 * kUs;
  second.activity = {.computing = 6 * kUs, .communicating = 4 * kUs, .overlapped = 2 * kUs};
  const std::vector<Row> steps = {to_rows(first).front(), to_rows(second).front()};
  const std::string scaling =
      test::drawn(tensor_parallel::strong_scaling_chart(steps, "what"), steps);
  if (scaling.empty()) return;
  CHECK_THAT(scaling, Catch::Contains(">ideal<") && Catch::Contains("speed-up over tp 1"));
  const std::string shares = test::drawn(tensor_parallel::step_time_chart(steps, "what"), steps);
  CHECK(test::count_drawn(shares, "tp 1: 30 µs") == 1);
  CHECK(test::count_drawn(shares, "tp 4: 10 µs") == 1);
  // gnuplot writes a text in a box twice.
  CHECK(test::count_drawn(shares, "76.7") == 2);
  CHECK(test::count_drawn(shares, "40.0") == 2);
  CHECK(test::count_drawn(shares, "20.0") == 6);  // both, communication alone, and neither
}

}  // namespace kernbench::benches::step_result_test
