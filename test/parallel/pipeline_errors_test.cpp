// Tests what pipelines refuse, and that schedules that would hang are found before they run.

#include <string>
#include <string_view>

#include "runtime/pipelining/schedule_check.h"
#include "test/parallel/pipeline_world.h"

namespace kernbench::test::pipeline_errors_test {
namespace {

using pipelining::ActionLists;
using pipelining::PipelineSize;
using pipelining::PipelineStage;

std::string refusal_of(std::string_view csv, int microbatches = 1) {
  return error_of<Error>([&] { check_schedule(pipelining::parse_actions(csv), microbatches); });
}

TEST_CASE("the text of actions is torch's", "[pipelining]") {
  const std::string csv =
      "0F0,0SEND_F0,0RECV_B0,0B0\n"
      "1RECV_F0,1F0,1B0,1SEND_B0\n";
  CHECK(to_csv(pipelining::parse_actions(csv)) == csv);
  CHECK(to_csv(pipelining::parse_actions(" 0F0 ,, 0B0,\r\n\r\n\n")) == "0F0,0B0\n");
  CHECK(to_csv(add_messages(pipelining::parse_actions("0F0,0B0\n1F0,1B0"))) ==
        "0RECV_B0,0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
}

TEST_CASE("what is no action is refused in torch's words", "[pipelining][errors]") {
  for (const std::string text : {"F0", "0X0", "0F", "0F0x", "0", "-1F0", "99999999999F0"}) {
    CHECK(refusal_of("0F0,0B0\n1F0," + text) ==
          "[KB-C024] row 2, cell 2: Invalid action string: " + text +
              ", should be formatted as [stage][action type][(microbatch)] e.g. 2F0");
  }
}

TEST_CASE("actions of a stage as a whole have no micro-batch, overlapped ones come in turns",
          "[pipelining]") {
  const std::string csv = "0UNSHARD,0F0,0RESHARD,0I0,0W0,0REDUCE_GRAD\n";
  CHECK(to_csv(pipelining::parse_actions(csv)) == csv);
  CHECK(refusal_of(csv) == "no error");
  CHECK(to_csv(pipelining::parse_actions("0F0,( 0F1 ; 0B0 )OVERLAP_F_B,0B1")) ==
        "0F0,0F1,0B0,0B1\n");
  for (const std::string text : {"0UNSHARD1", "(0F1;0B0)", "(0F1;0B0)OVERLAP", "(0F1", "(0F1;)B"}) {
    CHECK(refusal_of(text).find("Invalid action string: " + text) != std::string::npos);
  }
}

TEST_CASE("lists that lack an action are refused", "[pipelining][errors]") {
  CHECK(refusal_of("0F0") ==
        "[KB-C024] there is no 0B0: each of the 1 stages runs F and B, or I and W, of each of the "
        "1 micro-batches once");
  CHECK(refusal_of("0F0,0W0").find("there is no 0I0") != std::string::npos);
  CHECK(refusal_of("0F0,0I0").find("there is no 0W0") != std::string::npos);
  CHECK(refusal_of("0F0,0B0,0I0,0W0") == "[KB-C024] there are 0B0 and 0I0: B is both I and W");
  CHECK(refusal_of("0F0,0F0,0B0") == "[KB-C024] 0F0 is there twice, on ranks 0 and 0");
  CHECK(refusal_of("0F0,0F1,0B0") == "[KB-C024] rank 0: 0F1 is of micro-batch 1, but there are 1");
  CHECK(refusal_of("0UNSHARD,0F0,0B0\n0UNSHARD,1F0,1B0") ==
        "[KB-C024] 0UNSHARD is there twice, on ranks 0 and 1");
  CHECK(refusal_of("0F0\n0B0") == "[KB-C024] rank 1: 0B0 is of stage 0, which is on rank 0");
  CHECK(refusal_of("0F0,0B0\n\n1F0,1B0") == "[KB-C024] rank 1 has no action");
  CHECK(refusal_of("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0") ==
        "[KB-C024] rank 0: 0SEND_F0 has no 1RECV_F0 on rank 1");
  CHECK(refusal_of("0F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0") ==
        "[KB-C024] rank 1: there is no 1RECV_F0, which 1F0 needs");
  CHECK(refusal_of("0F0,0SEND_B0,0B0") == "[KB-C024] rank 0: 0SEND_B0 has no other rank");
}

TEST_CASE("ranks that would hang are named with what they wait for", "[pipelining][errors]") {
  CHECK(refusal_of("0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n"
                   "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1",
                   2) ==
        "[KB-D005] the pipeline schedule would hang:\n"
        "  rank 0: 0B0 waits for 1SEND_B0, which is behind 1F1 on rank 1\n"
        "  rank 1: 1F1 waits for 0SEND_F1, which is behind 0B0 on rank 0");
  CHECK(refusal_of("0F0,0W0,0I0") ==
        "[KB-D005] the pipeline schedule would hang:\n"
        "  rank 0: 0W0 waits for 0I0, which is behind 0W0 on rank 0");
  CHECK(refusal_of("0F0,0I0,0REDUCE_GRAD,0W0") ==
        "[KB-D005] the pipeline schedule would hang:\n"
        "  rank 0: 0REDUCE_GRAD waits for 0W0, which is behind 0REDUCE_GRAD on rank 0");
  CHECK(refusal_of("0B0,0F0") ==
        "[KB-D005] the pipeline schedule would hang:\n"
        "  rank 0: 0B0 waits for 0F0, which is behind 0B0 on rank 0");
  // Rank 2 waits as well, but is not part of the circle.
  const ActionLists lists =
      add_messages(pipelining::parse_actions("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n2F0,2B0,2F1,2B1"));
  CHECK(refusal_of(to_csv(lists), 2) ==
        "[KB-D005] the pipeline schedule would hang:\n"
        "  rank 0: 0B0 waits for 1SEND_B0, which is behind 1F1 on rank 1\n"
        "  rank 1: 1F1 waits for 0SEND_F1, which is behind 0B0 on rank 0");
}

TEST_CASE("a stage or a loss without a tensor is named", "[pipelining][errors]") {
  const auto refusal = [](const auto& forward, const auto& loss) {
    DataParallelWorld world(1);
    return world.refusal([&](int) {
      const PipelineStage stage(world.torch, forward, 0, 1);
      const Tensor x = world.tensor(Floats(4, 1), {2, 2});
      pipelining::ScheduleGPipe(stage, 2, loss).step(x, {.target = x});
    });
  };
  const auto same = [](const Tensor& x) { return x; };
  const auto nothing = [](const Tensor&) { return Tensor(); };
  const auto sum = [](const Tensor& y, const Tensor&) { return y.sum(); };
  const auto no_loss = [](const Tensor&, const Tensor&) { return Tensor(); };
  CHECK_THAT(refusal(nothing, sum), Says("KB-C024", "Stage 0 forward outputs", "no tensor"));
  CHECK_THAT(refusal(same, no_loss),
             Says("KB-C024", "loss_fn returned no tensor for micro-batch 0"));
}

TEST_CASE("numbers that do not fit a schedule are refused in torch's words",
          "[pipelining][errors]") {
  const auto text = [](auto schedule, const PipelineSize& size) {
    return error_of<Error>([&] { schedule(size); });
  };
  CHECK(text(pipelining::one_f_one_b, {.stages = 4, .ranks = 2, .microbatches = 4}) ==
        "[KB-C024] Single stage schedule requires exactly 1 stage per rank, but got 2 stages per "
        "rank.");
  CHECK(text(pipelining::interleaved, {.stages = 4, .ranks = 4, .microbatches = 4}) ==
        "[KB-C024] Multi-stage schedule requires at least 2 stages per rank, but got 1 stages per "
        "rank.");
  CHECK(text(pipelining::looped_bfs, {.stages = 5, .ranks = 2, .microbatches = 4}) ==
        "[KB-C024] num_stages (5) must be evenly divisible by the number of ranks (2)");
  CHECK(text(pipelining::interleaved, {.stages = 4, .ranks = 2, .microbatches = 5}) ==
        "[KB-C024] Interleaved 1F1B requires the number of microbatches to be a multiple of the "
        "number of rounds (2), but got 5.");
  CHECK(text(pipelining::gpipe, {.stages = 1, .ranks = 1, .microbatches = 0}) ==
        "[KB-C024] Number of microbatches (0) must be at least 1");
}

Tensor first_of_both(const Tensor& y, const Tensor&) {
  return y.sum();
}

// Returns the text of the first rank that refuses its stage or its step.
std::string refusal_of_step(int index, int count, const Shape& batch,
                            const pipelining::PipelineStageOptions& options = {}) {
  DataParallelWorld world(2);
  const std::string text = world.refusal([&](int rank) {
    const nn::Linear layer(world.torch, 4, 4, kOnOnePe);
    const PipelineStage stage(world.torch, layer, rank == 0 ? 0 : index, count, options);
    pipelining::Schedule1F1B schedule(stage, 4, first_of_both);
    const Tensor x = world.torch.zeros(batch, kOnOnePe);
    schedule.step(x, {.target = x});
  });
  const std::size_t begin = text.find("[KB-C024]");
  return begin == std::string::npos ? text : text.substr(begin, text.find('\n', begin) - begin);
}

TEST_CASE("stages and batches that do not fit are refused", "[pipelining][errors]") {
  CHECK(refusal_of_step(2, 2, {8, 4}) == "[KB-C024] Stage index 2 is out of range of 2");
  CHECK(refusal_of_step(0, 1, {8, 4}) ==
        "[KB-C024] Pipeline group size 2 cannot be larger than number of stages 1");
  CHECK(refusal_of_step(0, 2, {8, 4}) ==
        "[KB-C024] rank 1 has stages [0], but in the schedule it has [1]");
  CHECK(refusal_of_step(1, 2, {6, 4}) ==
        "[KB-C024] step: the input of shape [6, 4] is not divisible into 4 micro-batches");
  DataParallelWorld world(1);
  const Tensor other = world.torch.zeros({3, 4}, kOnOnePe);
  CHECK(error_of<Error>([&] {
          const PipelineStage stage(world.torch, nn::Linear(world.torch, 4, 4, kOnOnePe), 0, 1);
          pipelining::Schedule1F1B(stage, 1, first_of_both).step();
        }) == "[KB-C024] step: rank 0 gives no input");
  CHECK(error_of<Error>([&] {
          const PipelineStage stage(world.torch, nn::Linear(world.torch, 4, 4, kOnOnePe), 0, 1);
          pipelining::Schedule1F1B(stage, 2, first_of_both).step({other}, {other, other});
        }) == "[KB-C024] Expecting 2 arg_mbs but got 1");
}

TEST_CASE("a stage whose output is not what it said is refused in torch's words",
          "[pipelining][errors]") {
  DataParallelWorld world(2);
  const std::string text = world.refusal([&](int rank) {
    const Tensor wide = world.torch.zeros({2, 5}, kOnOnePe);
    const PipelineStage stage(world.torch, nn::Linear(world.torch, 4, 4, kOnOnePe), rank, 2,
                              {.output_args = wide});
    const Tensor x = world.torch.zeros({8, 4}, kOnOnePe);
    pipelining::Schedule1F1B(stage, 4, first_of_both).step(x, {.target = x});
  });
  CHECK(text.find("Stage 0 forward outputs has a shape mismatch: expected [2, 5] actual [2, 4]") !=
        std::string::npos);
}

}  // namespace
}  // namespace kernbench::test::pipeline_errors_test
