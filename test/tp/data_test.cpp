// One rank reads the data, its tensor parallel group gets them.

#include <catch2/catch.hpp>

#include "test/runtime/distributed/local_world.h"
#include "tp/mappings.h"
#include "tp/parallel_state.h"

namespace kernbench::test::data_test {
namespace {

// All elements `value`.
Tensor filled(const Shape& shape, float value) {
  return RuntimeContext::tensor(std::vector<float>(static_cast<std::size_t>(shape.numel()), value),
                                shape);
}

TEST_CASE("every rank gets what the first of its group has", "[tp][data]") {
  LocalWorld world(8);
  tp::initialize_model_parallel(
      world.torch, {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 4});
  const std::vector<std::string> keys = {"1", "2", "5"};
  world.spawn([&](int rank) {
    tp::TensorDict data;
    for (const std::string& key : keys) {
      data[key] = filled({8, 8}, std::stof(key) + static_cast<float>(10 * rank));
    }
    data["unwanted"] = filled({3}, 0);
    const tp::TensorDict got = tp::broadcast_data(world.torch, keys, data, DType::f32);
    CHECK(got.size() == 3);
    for (const std::string& key : keys) {
      const float expected = std::stof(key) + static_cast<float>(10 * (rank / 2 * 2));
      CHECK(got.at(key).shape() == Shape{8, 8});
      CHECK(got.at(key).device() == rank);
      CHECK(got.at(key).to_vector() == std::vector<float>(64, expected));
    }
  });
}

TEST_CASE("shapes may differ, have up to 8 dimensions, and be empty", "[tp][data]") {
  LocalWorld world(2);
  tp::initialize_model_parallel(world.torch, {.tensor_model_parallel_size = 2});
  const std::vector<std::string> keys = {"a", "empty", "b", "scalar", "long"};
  world.spawn([&](int rank) {
    tp::TensorDict data;
    if (rank == 0) {
      data["a"] = filled({2, 1, 2, 1, 2, 1, 2, 1}, 1);
      data["empty"] = filled({3, 0, 2}, 2);
      data["b"] = RuntimeContext::tensor({1, 2, 3, 4, 5, 6}, {2, 3});
      data["scalar"] = filled({}, 7);
      data["long"] = filled({5000}, 9);
    }
    const tp::TensorDict got = tp::broadcast_data(world.torch, keys, data, DType::f16);
    CHECK(got.at("a").shape() == Shape{2, 1, 2, 1, 2, 1, 2, 1});
    CHECK(got.at("empty").shape() == Shape{3, 0, 2});
    CHECK(got.at("b").to_vector() == std::vector<float>{1, 2, 3, 4, 5, 6});
    CHECK(got.at("scalar").item() == 7);
    CHECK(got.at("long").to_vector() == std::vector<float>(5000, 9));
    CHECK(got.at("long").dtype() == DType::f16);
  });
}

// Megatron takes the sizes over the default group even if another one is given.
TEST_CASE("a group that is given carries shapes and elements alike", "[tp][data]") {
  LocalWorld world(4);
  tp::initialize_model_parallel(world.torch, {.tensor_model_parallel_size = 2});
  const std::vector<std::string> keys = {"x"};
  world.spawn([&](int rank) {
    const tp::TensorDict data = {{"x", filled({rank + 1}, static_cast<float>(rank))}};
    const tp::TensorDict got = tp::broadcast_data(world.torch, keys, data, DType::f32,
                                                  tp::get_data_parallel_group(world.torch));
    CHECK(got.at("x").to_vector() ==
          std::vector<float>(static_cast<std::size_t>(rank % 2 + 1), static_cast<float>(rank % 2)));
  });
}

TEST_CASE("data that are missing or of another type are named", "[tp][data]") {
  LocalWorld world(1);
  tp::initialize_model_parallel(world.torch);
  const auto refusal = [&](const tp::TensorDict& data) {
    const std::vector<std::string> keys = {"x"};
    return error_of<CollectiveError>(
        [&] { tp::broadcast_data(world.torch, keys, data, DType::f16); });
  };
  CHECK_THAT(refusal({}), Says("KB-T005", "'x'"));
  CHECK_THAT(refusal({{"x", world.zeros({1}, DType::f32)}}), Says("KB-T005", "x", "f32", "f16"));
  CHECK(refusal({{"x", world.zeros({1}, DType::f16)}}) == "no error");
}

}  // namespace
}  // namespace kernbench::test::data_test
