// Tests what launch() refuses, and what a PE does when kernels meet on it.

#include <catch2/catch.hpp>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/processing_element.h"
#include "test/support/small_topology.h"

namespace kernbench::test::launch_misuse_test {

namespace {

void nothing(tl::Context&, tl::Pointer) {}

template <class Action>
std::string code_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a launch refuses tensors that are not on its device", "[launch][errors]") {
  RuntimeContext torch(round_topology());
  RuntimeContext other(round_topology());
  const Tensor own = torch.ones({4});
  const Tensor foreign = other.ones({4});
  const Tensor host = RuntimeContext::tensor({1, 2, 3, 4}, {4});
  const auto two = [](tl::Context&, tl::Pointer, tl::Pointer) {};
  CHECK(code_of([&] { torch.launch("k", nothing, foreign); }) == "KB-M013");
  CHECK(code_of([&] { torch.launch("k", two, own, foreign); }) == "KB-M013");
  CHECK(code_of([&] { torch.launch("k", nothing, host); }) == "KB-M019");
  CHECK(code_of([&] { torch.launch("k", nothing, Tensor()); }) == "KB-M001");
  CHECK(code_of([&] { torch.launch("k", nothing, own); }) == "no error");
}

TEST_CASE("a PE runs one kernel at a time, in the order in which they reach it", "[launch]") {
  RuntimeContext torch(round_topology());
  torch.multiprocessing.spawn(
      [&](int) {  // no set_device(): both ranks use device 0
        Tensor x = torch.ones({1000}, {.dp = DPPolicy::on_one_pe()});
        torch.launch(
            "copy",
            [](tl::Context& tl, tl::Pointer p) { tl.store(p, tl.load(p, {1000}, DType::f32)); }, x);
      },
      std::tuple{}, 2);
  const auto& results = torch.engine().results();
  REQUIRE(results.size() == 2);
  CHECK(results[0].pe == results[1].pe);
  CHECK(results[1].start >= results[0].end);
  CHECK(results[1].end - results[1].start == results[0].end - results[0].start);
}

TEST_CASE("a kernel that fails gives its scratch back", "[launch][errors]") {
  RuntimeContext torch(round_topology());
  const Tensor x = torch.ones({64}, {.dp = DPPolicy::on_one_pe()});
  const auto fails = [](tl::Context& tl, tl::Pointer p) {
    const tl::Tensor loaded = tl.load(p, {64}, DType::f32);
    throw std::runtime_error("no");
  };
  for (int i = 0; i < 3; ++i) {
    CHECK(code_of([&] {
            torch.launch("fails", fails, x);
            torch.ahbm.synchronize();
          }) == "KB-K001");
    CHECK(simulation_of(torch).machine().pe({0, 0, 0}).scratch_in_use() == 0);
  }
}

TEST_CASE("a value of one PE is refused on another", "[tl][errors]") {
  RuntimeContext torch(round_topology());
  const Tensor x = torch.ones({64}, {.dp = {.pe = Shard::column_wise}});
  std::vector<tl::Tensor> kept;
  const auto leaks = [&](tl::Context& tl, tl::Pointer p) {
    const tl::Tensor own = tl.load(p, {32}, DType::f32);
    if (tl.program_id() == 0) {
      kept.push_back(own);
    } else {
      tl.store(p, kept.front());
    }
  };
  CHECK(code_of([&] { torch.launch("leaks", leaks, x); }) == "KB-K023");
  kept.clear();
}

}  // namespace kernbench::test::launch_misuse_test
