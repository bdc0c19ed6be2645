// The guide "Will it fit": its commands print what it shows, and its code runs.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <ostream>
#include <sstream>

#include "benches/bench/inputs.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/checkpoint.h"
#include "runtime/nn/containers.h"
#include "runtime/nn/layers.h"
#include "runtime/torch/runtime_context.h"
#include "test/benches/program_under_test.h"
#include "test/support/guide.h"

namespace kernbench::test::will_it_fit_guide_test {
namespace {

namespace kb = kernbench;

const Guide kGuide = {KERNBENCH_ROOT "/benches/train/will-it-fit.md",
                      KERNBENCH_ROOT "/benches/train/will-it-fit.ko.md",
                      {KERNBENCH_ROOT "/test/benches/will_it_fit_guide_test.cpp"}};

using Layers = std::vector<std::function<kb::Tensor(const kb::Tensor& x)>>;

// guide: begin
kb::Tensor run_within(const Layers& layers, kb::Tensor x, kb::Bytes budget) {
  namespace utils = kb::nn::utils;
  const utils::LayerActivations each = utils::measure_activations(layers.front(), x);
  const std::vector<bool> kept = utils::choose_kept_layers(std::ssize(layers), each, budget);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto again = [layer = layers[i]](const auto& in) { return layer(in[0]); };
    x = kept[i] ? layers[i](x) : utils::checkpoint(again, {x});
  }
  return x;
}
// guide: end

// guide: begin
kb::Bytes count_activations(kb::RuntimeContext& torch, const Layers& layers, const kb::Tensor& x,
                            kb::Bytes budget, std::ostream& out) {
  torch.ahbm.record_memory_history();  // keeps modules' paths, as a profiled run does
  run_within(layers, x, budget).sum().backward();
  out << torch.ahbm.memory_summary() << '\n';
  return torch.ahbm.memory_stats().peak[kb::MemoryKind::activation];
}
// guide: end

TEST_CASE("the Korean guide to memory shows the same", "[guide][memory]") {
  check_translation(kGuide);
}

TEST_CASE("the code of the guide to memory runs", "[guide][memory]") {
  check_code(kGuide, 2);
  kb::RuntimeContext torch(benches::load_topology("tiny"));
  const kb::TensorOptions on_one_pe{.dp = kb::DPPolicy::on_one_pe()};
  Layers layers;
  for (int i = 0; i < 4; ++i) {
    layers.emplace_back([layer = kb::nn::Linear(torch, 64, 64, on_one_pe)](const kb::Tensor& x) {
      return kb::nn::functional::gelu(layer(x));
    });
  }
  const kb::Tensor x = torch.zeros({512, 64}, on_one_pe).requires_grad_();
  const kb::Bytes matrix = 512 * 64 * 4;
  const kb::Bytes budget = 2 * 2 * matrix + 2 * matrix;  // two layers keep two, and two keep one
  std::ostringstream out;
  const kb::Bytes most = count_activations(torch, layers, x, budget, out);
  CAPTURE(out.str());
  CHECK(most == budget - matrix);  // the first one's input is an input
  CHECK_THAT(out.str(), Catch::Contains("the most, by module and kind:"));
}

TEST_CASE("the commands in the guide to memory print what it shows", "[guide][memory]") {
  const TemporaryFolder folder;
  const std::string programs = std::filesystem::path(KERNBENCH_PROGRAM).parent_path();
  check_commands(kGuide, 5, [&](const std::vector<std::string>& words) {
    const ProgramResult result =
        run_program({"-c", fmt::format("PATH='{}':$PATH; {}", programs, fmt::join(words, " "))},
                    {.program = "/bin/sh", .folder = folder.path("")});
    return result.out + result.err;
  });
}

}  // namespace
}  // namespace kernbench::test::will_it_fit_guide_test
