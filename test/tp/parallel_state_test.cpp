// Megatron's parallel state: groups, ranks and overrides.

#include "tp/parallel_state.h"

#include <catch2/catch.hpp>

#include "test/runtime/distributed/local_world.h"
#include "tp/global_memory_buffer.h"

namespace kernbench::test::parallel_state_test {
namespace {

using tp::ModelParallelOptions;

// The state that each rank of a world finds, with groups made before spawn() and by the ranks
// themselves.
void check_on_each_rank(int world_size, const ModelParallelOptions& options,
                        const std::function<void(RuntimeContext&, int)>& body) {
  LocalWorld before(world_size);
  tp::initialize_model_parallel(before.torch, options);
  before.spawn([&](int rank) { body(before.torch, rank); });
  LocalWorld inside(world_size);
  inside.spawn([&](int rank) {
    tp::initialize_model_parallel(inside.torch, options);
    body(inside.torch, rank);
  });
}

std::string refusal(int world_size, const ModelParallelOptions& options) {
  LocalWorld world(world_size);
  return error_of<CollectiveError>([&] { tp::initialize_model_parallel(world.torch, options); });
}

TEST_CASE("without initialization every getter says what is missing", "[tp][parallel_state]") {
  LocalWorld world(2);
  RuntimeContext& torch = world.torch;
  CHECK_FALSE(tp::is_initialized(torch));
  CHECK_FALSE(tp::model_parallel_is_initialized(torch));
  const auto check_refused = [&](auto getter, const char* group) {
    CHECK_THROWS_MATCHES(getter(torch), CollectiveError,
                         Says("KB-T002", fmt::format("{} is not initialized", group)));
  };
  check_refused(tp::get_tensor_model_parallel_group, "tensor model parallel group");
  check_refused(tp::get_tensor_model_parallel_world_size, "tensor model parallel group");
  check_refused(tp::get_tensor_model_parallel_src_rank, "tensor model parallel group");
  check_refused(tp::get_pipeline_model_parallel_rank, "pipeline_model parallel group");
  check_refused(tp::get_pipeline_model_parallel_next_rank, "pipeline_model parallel group");
  check_refused([](auto& t) { tp::get_data_parallel_group(t); }, "data parallel group");
  check_refused([](auto& t) { tp::get_data_parallel_rank(t, true); },
                "data parallel group with context parallel combined");
  check_refused(tp::get_context_parallel_group, "context parallel group");
  check_refused(tp::get_model_parallel_group, "model parallel group");
  check_refused(tp::get_expert_model_parallel_rank, "expert model parallel group");
  check_refused([](auto& t) { tp::is_rank_in_embedding_group(t); }, "embedding group");
  CHECK(tp::get_virtual_pipeline_model_parallel_rank(torch) == std::nullopt);
}

TEST_CASE("arguments of Megatron that have no meaning here are refused with what has",
          "[tp][parallel_state]") {
  const std::pair<ModelParallelOptions, const char*> all[] = {
      {{.pipeline_model_parallel_comm_backend = "ucc"}, "all groups of a run have one backend"},
      {{.use_sharp = true}, "there is no SHARP"},
      {{.hierarchical_context_parallel_sizes = {1, 1}}, "a context parallel group has no parts"},
      {{.hybrid_context_parallel = true}, "a context parallel group has no parts"},
      {{.num_distributed_optimizer_instances = 2}, "the whole data parallel group"},
      {{.nccl_communicator_config_path = "nccl.yaml"}, "--ccl takes a ccl.yaml"},
      {{.distributed_timeout_minutes = 0}, "at least 1"},
      {{.high_priority_stream_groups = {"dp"}}, "channels of its own"},
      {{.sharp_enabled_group = "dp"}, "there is no SHARP"},
      {{.rank_offset = 2}, "init_process_group's world_size"}};
  for (const auto& [options, text] : all) {
    CHECK_THAT(refusal(4, options), Catch::Contains("KB-T003") && Catch::Contains(text));
  }
  LocalWorld world(2);
  tp::initialize_model_parallel(
      world.torch, {.distributed_timeout_minutes = 5, .create_gloo_process_groups = false});
  CHECK(tp::get_data_parallel_world_size(world.torch) == 2);
}

TEST_CASE("sizes that do not fit the world are refused in Megatron's words",
          "[tp][parallel_state]") {
  CHECK_THAT(refusal(4, {.tensor_model_parallel_size = 8}),
             Says("KB-T003", "world_size (4) is not divisible by 8"));
  CHECK_THAT(refusal(4, {.pipeline_model_parallel_size = 8}), Says("KB-T003", "divisible by 8"));
  CHECK_THAT(refusal(4, {.tensor_model_parallel_size = 4, .pipeline_model_parallel_size = 4}),
             Says("KB-T003", "world_size (4) is not divisible by 16"));
  CHECK_THAT(refusal(4, {.context_parallel_size = 3}),
             Says("KB-T003", "world_size (4) is not divisible by 3"));
  CHECK_THAT(
      refusal(4, {.virtual_pipeline_model_parallel_size = 2}),
      Says("KB-T003",
           "pipeline-model-parallel size should be greater than 1 with interleaved schedule"));
  CHECK_THAT(refusal(4, {.tensor_model_parallel_size = 2, .expert_model_parallel_size = 4}),
             Says("KB-T003",
                  "decoder world_size (4) is not divisible by "
                  "expert_tensor_model_pipeline_parallel size (8)"));
  CHECK_THAT(refusal(4, {.tensor_model_parallel_size = 0}),
             Says("KB-T003", "tensor_model_parallel_size is 0"));
  CHECK_THAT(
      refusal(4, {.context_parallel_size = 2, .order = "tp-dp-pp"}),
      Says("KB-T003", "The size of (cp) is (2), but you haven'tspecified the order (tp-dp-pp)."));
  CHECK_THAT(
      refusal(8, {.tensor_model_parallel_size = 2,
                  .pipeline_model_parallel_size = 2,
                  .expert_tensor_parallel_size = 1,
                  .order = "tp-pp-dp"}),
      Says("KB-T003", "Pipeline parallel groups are expected to be the same for attention and MoE",
           "tp-pp-dp", "2 and 4", "pp last"));
}

TEST_CASE("torch.distributed comes first", "[tp][parallel_state]") {
  RuntimeContext torch(round_topology());
  CHECK_THROWS_MATCHES(tp::initialize_model_parallel(torch), CollectiveError,
                       Says("KB-R002",
                            "Default process group has not been initialized, please make sure to "
                            "call init_process_group."));
}

TEST_CASE("a second initialization is refused until the state is destroyed",
          "[tp][parallel_state]") {
  const Says twice("KB-T002", "data parallel group is already initialized");
  LocalWorld world(2);
  const auto initialize = [&] {
    return error_of<CollectiveError>(
        [&] { tp::initialize_model_parallel(world.torch, {.tensor_model_parallel_size = 2}); });
  };
  CHECK(initialize() == "no error");
  CHECK_THAT(initialize(), twice);
  world.spawn([&](int) { CHECK_THAT(initialize(), twice); });
  tp::destroy_model_parallel(world.torch);
  CHECK_FALSE(tp::is_initialized(world.torch));
  CHECK(initialize() == "no error");
}

TEST_CASE("16 ranks in 4 stages of 2: groups, ranks and sizes", "[tp][parallel_state]") {
  check_on_each_rank(
      16, {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 4},
      [](RuntimeContext& torch, int rank) {
        CHECK(tp::get_tensor_model_parallel_world_size(torch) == 2);
        CHECK(tp::get_tensor_model_parallel_rank(torch) == rank % 2);
        CHECK(tp::get_tensor_model_parallel_src_rank(torch) == rank / 2 * 2);
        CHECK(tp::get_pipeline_model_parallel_world_size(torch) == 4);
        CHECK(tp::get_pipeline_model_parallel_rank(torch) == rank / 4);
        CHECK(tp::get_data_parallel_world_size(torch) == 2);
        CHECK(tp::get_data_parallel_rank(torch) == rank / 2 % 2);
        CHECK(tp::get_data_parallel_src_rank(torch) == rank / 4 * 4 + rank % 2);
        CHECK(tp::get_model_parallel_group(torch).size() == 8);
        CHECK(tp::get_model_parallel_src_rank(torch) == rank % 4 / 2 * 2);
        CHECK(tp::get_context_parallel_global_ranks(torch) == std::vector<int>{rank});
        CHECK(tp::get_tensor_and_data_parallel_group(torch).ranks().front() == rank / 4 * 4);
        CHECK(tp::model_parallel_is_initialized(torch));
      });
}

TEST_CASE("a pipeline's first, last, next and previous rank", "[tp][parallel_state]") {
  for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-pp-ep-dp"}) {
    check_on_each_rank(
        8, {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 4, .order = order},
        [](RuntimeContext& torch, int rank) {
          CHECK(tp::get_pipeline_model_parallel_first_rank(torch) == rank % 2);
          CHECK(tp::get_pipeline_model_parallel_last_rank(torch) == 6 + rank % 2);
          CHECK(tp::get_pipeline_model_parallel_next_rank(torch) == (rank + 2) % 8);
          CHECK(tp::get_pipeline_model_parallel_prev_rank(torch) == (rank + 6) % 8);
          CHECK(tp::get_data_parallel_src_rank(torch) == rank);
          CHECK(tp::is_pipeline_first_stage(torch) == (rank < 2));
          CHECK(tp::is_pipeline_last_stage(torch) == (rank >= 6));
          CHECK(tp::is_rank_in_embedding_group(torch) == (rank < 2 || rank >= 6));
          CHECK(tp::is_rank_in_position_embedding_group(torch) == (rank < 2));
        });
  }
}

TEST_CASE("only the first and last stages have an embedding group", "[tp][parallel_state]") {
  check_on_each_rank(4, {.pipeline_model_parallel_size = 4}, [](RuntimeContext& torch, int rank) {
    const std::string refused = error_of<CollectiveError>([&] { tp::get_embedding_group(torch); });
    if (rank == 0 || rank == 3) {
      CHECK(tp::get_embedding_group(torch).ranks() == std::vector<int>{0, 3});
    } else {
      CHECK_THAT(refused, Says("KB-T002", "embedding group"));
    }
    if (rank == 0) {
      CHECK(tp::get_position_embedding_group(torch).ranks() == std::vector<int>{0});
    }
  });
}

TEST_CASE("context and expert parallel groups", "[tp][parallel_state]") {
  check_on_each_rank(
      8,
      {.tensor_model_parallel_size = 2,
       .context_parallel_size = 2,
       .expert_model_parallel_size = 4,
       .expert_tensor_parallel_size = 1},
      [](RuntimeContext& torch, int rank) {
        CHECK(tp::get_context_parallel_world_size(torch) == 2);
        CHECK(tp::get_context_parallel_rank(torch) == rank / 2 % 2);
        CHECK(tp::get_data_parallel_world_size(torch) == 2);
        CHECK(tp::get_data_parallel_world_size(torch, true) == 4);
        CHECK(tp::get_data_parallel_rank(torch, true) == rank / 2);
        CHECK(tp::get_data_parallel_src_rank(torch, true) == rank % 2);
        CHECK(tp::get_tensor_and_context_parallel_world_size(torch) == 4);
        CHECK(tp::get_tensor_and_context_parallel_rank(torch) == rank % 4);
        CHECK(tp::get_tensor_and_data_parallel_group(torch).size() == 4);
        CHECK(tp::get_tensor_and_data_parallel_group(torch, true).size() == 8);
        CHECK(tp::get_expert_model_parallel_world_size(torch) == 4);
        CHECK(tp::get_expert_model_parallel_rank(torch) == rank % 4);
        CHECK(tp::get_expert_tensor_parallel_world_size(torch) == 1);
        CHECK(tp::get_expert_tensor_parallel_rank(torch) == 0);
        CHECK(tp::get_expert_tensor_and_model_parallel_world_size(torch) == 4);
        CHECK(tp::get_expert_tensor_and_model_parallel_rank(torch) == rank % 4);
        CHECK(tp::get_expert_tensor_model_pipeline_parallel_group(torch).size() == 4);
        CHECK(tp::get_expert_data_parallel_world_size(torch) == 2);
        CHECK(tp::get_expert_data_parallel_rank(torch) == rank / 4);
      });
}

TEST_CASE("collectives go over the groups that were made", "[tp][parallel_state]") {
  LocalWorld world(8);
  tp::initialize_model_parallel(world.torch, {.tensor_model_parallel_size = 4});
  world.spawn([&](int rank) {
    Tensor x = world.tensor({static_cast<float>(rank)});
    world.dist.all_reduce(x, ReduceOp::sum,
                          {.group = tp::get_tensor_model_parallel_group(world.torch)});
    CHECK(x.item() == (rank < 4 ? 6.0F : 22.0F));
    Tensor y = world.tensor({static_cast<float>(rank)});
    world.dist.all_reduce(y, ReduceOp::sum, {.group = tp::get_data_parallel_group(world.torch)});
    CHECK(y.item() == static_cast<float>(2 * (rank % 4) + 4));
  });
}

TEST_CASE("every value that can be set is set, without initialization too",
          "[tp][parallel_state]") {
  LocalWorld world(2);
  RuntimeContext& torch = world.torch;
  tp::set_tensor_model_parallel_world_size(torch, 2);
  tp::set_tensor_model_parallel_rank(torch, 1);
  tp::set_pipeline_model_parallel_world_size(torch, 3);
  tp::set_pipeline_model_parallel_rank(torch, 2);
  tp::set_data_parallel_rank(torch, 4);
  tp::set_expert_model_parallel_world_size(torch, 5);
  tp::set_expert_model_parallel_rank(torch, 6);
  tp::set_expert_tensor_parallel_world_size(torch, 7);
  tp::set_expert_tensor_parallel_rank(torch, 8);
  CHECK(tp::get_tensor_model_parallel_world_size(torch) == 2);
  CHECK(tp::get_tensor_model_parallel_rank(torch) == 1);
  CHECK(tp::get_pipeline_model_parallel_world_size(torch) == 3);
  CHECK(tp::get_pipeline_model_parallel_rank(torch) == 2);
  CHECK(tp::get_data_parallel_rank(torch) == 4);
  CHECK(tp::get_expert_model_parallel_world_size(torch) == 5);
  CHECK(tp::get_expert_model_parallel_rank(torch) == 6);
  CHECK(tp::get_expert_tensor_parallel_world_size(torch) == 7);
  CHECK(tp::get_expert_tensor_parallel_rank(torch) == 8);
  CHECK(tp::is_pipeline_last_stage(torch));
  tp::destroy_model_parallel(torch);
  CHECK_THROWS_MATCHES(tp::get_pipeline_model_parallel_rank(torch), CollectiveError,
                       Says("KB-T002", "pipeline_model parallel group"));
}

TEST_CASE("stages of an interleaved schedule", "[tp][parallel_state]") {
  check_on_each_rank(4,
                     {.pipeline_model_parallel_size = 4, .virtual_pipeline_model_parallel_size = 2},
                     [](RuntimeContext& torch, int rank) {
                       CHECK(tp::get_virtual_pipeline_model_parallel_world_size(torch) == 2);
                       CHECK(tp::get_virtual_pipeline_model_parallel_rank(torch) == 0);
                       CHECK(tp::is_pipeline_first_stage(torch, false) == (rank == 0));
                       CHECK_FALSE(tp::is_pipeline_last_stage(torch, false));
                       CHECK(tp::is_pipeline_last_stage(torch, false, 1) == (rank == 3));
                       tp::set_virtual_pipeline_model_parallel_rank(torch, 1);
                       CHECK_FALSE(tp::is_pipeline_first_stage(torch, false));
                       CHECK(tp::is_pipeline_first_stage(torch) == (rank == 0));
                       CHECK(tp::is_pipeline_last_stage(torch, false) == (rank == 3));
                       CHECK(tp::is_rank_in_embedding_group(torch, false) == (rank == 3));
                       CHECK(tp::is_rank_in_embedding_group(torch, false, 0) == (rank == 0));
                     });
}

TEST_CASE("ranks that mean different groups are told at once", "[tp][parallel_state]") {
  LocalWorld world(4);
  CHECK_THROWS_MATCHES(world.spawn([&](int rank) {
    tp::initialize_model_parallel(
        world.torch, {.tensor_model_parallel_size = rank == 2 ? 4 : 2, .order = "tp-dp-pp"});
  }),
                       CollectiveMismatchError,
                       Says("KB-C001", "Rank 0", "tensor_model_parallel_size=2", "rank 2",
                            "tensor_model_parallel_size=4"));
}

TEST_CASE("a rank beyond the world is in no group", "[tp][parallel_state]") {
  LocalWorld world(2);
  tp::initialize_model_parallel(world.torch);
  world.torch.multiprocessing.spawn(
      [&](int rank) { CHECK(tp::is_initialized(world.torch) == (rank < 2)); }, {}, 3);
}

TEST_CASE("the memory buffer gives the same memory again for as many elements",
          "[tp][parallel_state]") {
  LocalWorld world(2);
  RuntimeContext& torch = world.torch;
  CHECK_THROWS_MATCHES(tp::get_global_memory_buffer(torch), CollectiveError,
                       Says("KB-T002", "global memory buffer is not initialized"));
  tp::initialize_model_parallel(torch, {.tensor_model_parallel_size = 2});
  world.spawn([&](int rank) {
    tp::GlobalMemoryBuffer& buffer = tp::get_global_memory_buffer(torch);
    const auto address = [&](const Shape& shape, DType dtype, const char* name) {
      const Tensor tensor = buffer.get_tensor(torch, shape, dtype, name);
      CHECK(tensor.shape() == shape);
      CHECK(tensor.dtype() == dtype);
      CHECK(tensor.device() == rank);
      return tensor.shards().front().address;
    };
    const Bytes first = address({4, 2}, DType::f32, "mpu");
    CHECK(address({8}, DType::f32, "mpu") == first);
    CHECK(address({4, 2}, DType::f16, "mpu") != first);
    CHECK(address({4, 2}, DType::f32, "other") != first);
    CHECK(buffer.get_tensor(torch, {3}, DType::f32, "mpu").numel() == 3);
  });
}

TEST_CASE("a kernel may not ask for the parallel state", "[tp][parallel_state]") {
  LocalWorld world(2);
  tp::initialize_model_parallel(world.torch);
  const Tensor x = world.zeros({1});
  CHECK_THROWS_MATCHES(world.torch.launch(
                           "curious",
                           [&](tl::Context&, const tl::Pointer&) {
                             tp::get_tensor_model_parallel_rank(world.torch);
                           },
                           x),
                       CollectiveError, Says("KB-R012", "'curious'"));
}

}  // namespace
}  // namespace kernbench::test::parallel_state_test
