// A training step over ranks: right where the layers are, and told to be wrong where they are not.

#include "benches/tensor_parallel/training_step.h"

#include <catch2/catch.hpp>

#include "benches/bench/inputs.h"
#include "benches/tensor_parallel/gpt_block.h"
#include "benches/tensor_parallel/step_check.h"
#include "runtime/functional/functional.h"
#include "runtime/torch/run_ranks.h"
#include "test/benches/tensor_parallel/oracle/dense_step.h"
#include "tp/parallel_state.h"

namespace kernbench::benches::training_step_test {

namespace {

constexpr tensor_parallel::MlpSize kMlp{.tokens = 12, .hidden = 8, .ffn = 24};

tensor_parallel::StepInput mlp_input(int pes, bool sequence_parallel) {
  return {.tokens = kMlp.tokens,
          .hidden = kMlp.hidden,
          .pes = pes,
          .sequence_parallel = sequence_parallel};
}

tensor_parallel::ParallelMlpOptions mlp_options(const tensor_parallel::StepInput& input) {
  return {.hidden = kMlp.hidden,
          .ffn = kMlp.ffn,
          .activation = tensor_parallel::Activation::relu,
          .sequence_parallel = input.sequence_parallel,
          .dtype = input.dtype,
          .pes = input.pes};
}

Topology ring(int ranks) {
  return in_ring(load_topology("default"), ranks);
}

tensor_parallel::StepCheck check_mlp(int ranks, const tensor_parallel::StepInput& input,
                                     const tensor_parallel::BuildModel& build) {
  const tensor_parallel::DenseModel model = tensor_parallel::integer_mlp(kMlp, 1);
  RuntimeContext torch(ring(ranks));
  const std::vector<tensor_parallel::RankStep> steps =
      tensor_parallel::run_training_step(torch, input, build, &model);
  return tensor_parallel::check_step(steps, input, tensor_parallel::dense_mlp_step(model));
}

tensor_parallel::RankModel right_mlp(RuntimeContext& torch,
                                     const tensor_parallel::StepInput& input) {
  const auto mlp = std::make_shared<tensor_parallel::ParallelMlp>(torch, mlp_options(input));
  return {[mlp](const Tensor& x) { return mlp->forward(x); }, mlp->parameters()};
}

}  // namespace

TEST_CASE("an MLP that ranks and PEs share is the dense one, exactly", "[tensor_parallel]") {
  for (const int ranks : {1, 2, 3}) {
    for (const int pes : {1, 4}) {
      for (const bool sequence_parallel : {false, true}) {
        const tensor_parallel::StepInput input = mlp_input(pes, sequence_parallel);
        const tensor_parallel::StepCheck check =
            check_mlp(ranks, input, [&](RuntimeContext& torch) { return right_mlp(torch, input); });
        CAPTURE(ranks, pes, sequence_parallel);
        CHECK(check.wrong == 0);
        CHECK(check.unequal == 0);
        // y, dx and the gradients of weights and biases, with their copies.
        const int copies = sequence_parallel ? 1 : ranks;
        CHECK(check.checked == copies * 2 * 12 * 8 + 2 * 8 * 24 + 24 + ranks * 8);
      }
    }
  }
}

TEST_CASE("a bias that every rank adds before the sum is found", "[tensor_parallel]") {
  const tensor_parallel::StepInput input = mlp_input(1, false);
  const tensor_parallel::StepCheck check = check_mlp(2, input, [&](RuntimeContext& torch) {
    tensor_parallel::RankModel model = right_mlp(torch, input);
    const tp::Parameter bias = model.parameters[3];
    model.forward = [right = model.forward, bias](const Tensor& x) { return right(x) + bias; };
    return model;
  });
  CHECK(check.wrong > 0);
  CHECK(check.unequal == 0);  // they agree, in what is wrong
}

TEST_CASE("a sum over ranks that is left out is found, and that ranks differ",
          "[tensor_parallel]") {
  const tensor_parallel::StepInput input = mlp_input(1, false);
  const tensor_parallel::StepCheck check = check_mlp(2, input, [&](RuntimeContext& torch) {
    const auto up = std::make_shared<tp::ColumnParallelLinear>(
        torch,
        tp::ColumnParallelLinearOptions{.in_features = kMlp.hidden, .out_features = kMlp.ffn});
    tensor_parallel::RankModel model = right_mlp(torch, input);
    model.parameters[0] = up->weight;
    model.parameters[1] = up->bias;
    const tp::Parameter down = model.parameters[2];
    const tp::Parameter bias = model.parameters[3];
    model.forward = [up, down, bias](const Tensor& x) {
      return matmul(relu(up->forward(x)), down) + bias;
    };
    return model;
  });
  CHECK(check.wrong > 0);
  CHECK(check.unequal > 0);
}

TEST_CASE("with sequence parallelism a bias' gradient that is not summed is found",
          "[tensor_parallel]") {
  const tensor_parallel::StepInput input = mlp_input(1, true);
  const tensor_parallel::StepCheck check = check_mlp(2, input, [&](RuntimeContext& torch) {
    tensor_parallel::RankModel model = right_mlp(torch, input);
    CHECK(model.parameters[3].sequence_parallel);
    model.parameters[3].sequence_parallel = false;
    return model;
  });
  CHECK(check.wrong > 0);
  CHECK(check.unequal > 0);
}

namespace {

constexpr tensor_parallel::GptSize kGpt{.sequence = 24, .hidden = 48, .heads = 6, .layers = 2};

tensor_parallel::StepCheck check_gpt(
    int ranks, const tensor_parallel::StepInput& input,
    const std::function<void(tensor_parallel::RankModel&)>& change =
        [](tensor_parallel::RankModel&) {}) {
  const tensor_parallel::DenseModel model = tensor_parallel::random_gpt(kGpt, 1);
  RuntimeContext torch(ring(ranks));
  const auto build = [&](RuntimeContext& own) {
    const tensor_parallel::GptBlockOptions options{.hidden = kGpt.hidden,
                                                   .heads = kGpt.heads,
                                                   .sequence_parallel = input.sequence_parallel,
                                                   .dtype = input.dtype,
                                                   .pes = input.pes};
    const auto first = std::make_shared<tensor_parallel::GptBlock>(own, options);
    const auto second = std::make_shared<tensor_parallel::GptBlock>(own, options);
    tensor_parallel::RankModel rank{
        [first, second](const Tensor& x) { return second->forward(first->forward(x)); },
        first->parameters()};
    for (const tp::Parameter& parameter : second->parameters()) {
      rank.parameters.push_back(parameter);
    }
    change(rank);
    return rank;
  };
  const std::vector<tensor_parallel::RankStep> steps =
      tensor_parallel::run_training_step(torch, input, build, &model);
  const tensor_parallel::GptDevices devices{.dtype = input.dtype,
                                            .ranks = ranks,
                                            .pes = input.pes,
                                            .sequence_parallel = input.sequence_parallel};
  return tensor_parallel::check_step(steps, input,
                                     tensor_parallel::dense_gpt_step(model, kGpt, devices, 1));
}

tensor_parallel::StepInput gpt_input(DType dtype, int pes, bool sequence_parallel) {
  return {.tokens = kGpt.sequence,
          .hidden = kGpt.hidden,
          .dtype = dtype,
          .pes = pes,
          .sequence_parallel = sequence_parallel};
}

}  // namespace

TEST_CASE("blocks of GPT that ranks and PEs share are the dense ones, within the bound",
          "[tensor_parallel]") {
  for (const DType dtype : kDTypes) {
    for (const int ranks : {1, 2, 3}) {
      for (const bool sequence_parallel : {false, true}) {
        const tensor_parallel::StepCheck check =
            check_gpt(ranks, gpt_input(dtype, ranks == 3 ? 1 : 3, sequence_parallel));
        CAPTURE(name_of(dtype), ranks, sequence_parallel);
        CHECK(check.wrong == 0);
        CHECK(check.unequal == 0);
        CHECK(check.worst > 0.05);  // the bound is of the size of the errors
        CHECK(check.worst < 0.7);
        if (dtype == DType::f16) CHECK(check.bound < 0.1);
      }
    }
  }
}

TEST_CASE("a gradient of a layer norm that is not summed over ranks is beyond the bound",
          "[tensor_parallel]") {
  const tensor_parallel::StepCheck check =
      check_gpt(2, gpt_input(DType::f16, 1, true), [](tensor_parallel::RankModel& model) {
        CHECK(model.parameters[6].sequence_parallel);
        model.parameters[6].sequence_parallel = false;
      });
  CHECK(check.wrong > 0);
  CHECK(check.unequal > 0);
}

TEST_CASE("a layer norm without its bias is beyond the bound", "[tensor_parallel]") {
  const tensor_parallel::StepCheck check =
      check_gpt(2, gpt_input(DType::f16, 1, false), [](tensor_parallel::RankModel& model) {
        model.forward = [right = model.forward, bias = model.parameters[1]](const Tensor& x) {
          Tensor(bias).copy_(RuntimeContext::tensor(std::vector<float>(48), {48}));
          return right(x);
        };
      });
  CHECK(check.wrong > 0);
  CHECK(check.unequal == 0);
}

TEST_CASE("all ranks of a step begin at once, and its collectives are those of the layers",
          "[tensor_parallel]") {
  const tensor_parallel::StepInput input = mlp_input(2, true);
  Topology topology = ring(3);
  topology.system.host_issue = Time{1'000};  // as small as the products
  RuntimeContext torch(topology, {.data = false});
  const std::vector<tensor_parallel::RankStep> steps = tensor_parallel::run_training_step(
      torch, input, [&](RuntimeContext& own) { return right_mlp(own, input); }, nullptr);
  REQUIRE(steps.size() == 3);
  for (const tensor_parallel::RankStep& step : steps) {
    CHECK(step.began < step.forward_ended);
    CHECK(step.forward_ended < step.ended);
    CHECK(step.activity.busy() <= step.step());
    CHECK(step.activity.computing > Time{0});
    CHECK(step.activity.overlapped > Time{0});
    std::vector<std::string> forward;
    std::vector<std::string> backward;
    for (const runtime::FlightEvent& event : step.collectives) {
      const bool is_forward = forward.size() < step.forward_collectives;
      (is_forward ? forward : backward).emplace_back(event.function);
    }
    CHECK(forward == std::vector<std::string>{"all_gather_into_tensor", "reduce_scatter_tensor"});
    // The backward pass gathers dy, gathers x once more and reduces dx beside it, then reduces the
    // bias' gradient.
    CHECK(backward == std::vector<std::string>{"all_gather_into_tensor", "all_gather_into_tensor",
                                               "reduce_scatter_tensor", "all_reduce"});
  }
}

TEST_CASE("a rank's part of a parameter is as its attributes say", "[tensor_parallel]") {
  RuntimeContext torch(ring(2), {.data = false});
  torch.distributed.init_process_group("ahbm");
  tp::initialize_model_parallel(torch, {.tensor_model_parallel_size = 2});
  std::vector<tp::Parameter> parameters;
  run_on_devices(torch, 2, [&](int rank) {
    if (rank == 0) parameters = right_mlp(torch, mlp_input(1, false)).parameters;
    if (rank == 1) right_mlp(torch, mlp_input(1, false));
  });
  const auto is = [](const tensor_parallel::Part& part, const tensor_parallel::Part& wanted) {
    return part.row == wanted.row && part.rows == wanted.rows && part.column == wanted.column &&
           part.columns == wanted.columns;
  };
  CHECK(is(tensor_parallel::find_part(parameters[0], 8, 24, 1, 2), {0, 8, 12, 12}));
  CHECK(is(tensor_parallel::find_part(parameters[1], 1, 24, 1, 2), {0, 1, 12, 12}));
  CHECK(is(tensor_parallel::find_part(parameters[2], 24, 8, 1, 2), {12, 12, 0, 8}));
  CHECK(is(tensor_parallel::find_part(parameters[3], 1, 8, 1, 2), {0, 1, 0, 8}));
  CHECK(is(tensor_parallel::part_of_tokens(mlp_input(1, true), 1, 2), {6, 6, 0, 8}));
  CHECK(is(tensor_parallel::part_of_tokens(mlp_input(1, false), 1, 2), {0, 12, 0, 8}));
}

}  // namespace kernbench::benches::training_step_test
