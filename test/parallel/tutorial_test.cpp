// The program of "Several ranks" in training-a-model.md: each of its lines stands here.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/optim/optimizer.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::tutorial_test {
namespace {

namespace kb = kernbench;

struct ToyModelImpl : kb::nn::Module {
  explicit ToyModelImpl(const kb::RuntimeContext& torch)
      : net1(register_module("net1", kb::nn::Linear(torch, 10, 10))),
        net2(register_module("net2", kb::nn::Linear(torch, 10, 5))) {}
  kb::Tensor forward(const kb::Tensor& x) const { return net2(relu(net1(x))); }
  kb::nn::Linear net1, net2;
};
KERNBENCH_MODULE(ToyModel);

void demo_basic(int rank, kb::RuntimeContext& torch) {
  torch.ahbm.set_device(rank);
  torch.manual_seed(rank);
  ToyModel model(torch);
  kb::nn::parallel::DistributedDataParallel ddp_model(model);
  kb::optim::SGD optimizer(ddp_model->parameters(), 0.001);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const kb::Tensor outputs = ddp_model(torch.randn({20, 10}));
    const kb::Tensor labels = torch.randn({20, 5});
    kb::nn::functional::mse_loss(outputs, labels).backward();
    optimizer.step();
  }
  if (rank == 0) fmt::print("{}", to_string(ddp_model->last_step()));
}

TEST_CASE("the program of the page on training runs, and has these lines", "[ddp]") {
  const std::filesystem::path root = KERNBENCH_ROOT;
  const auto to_text = [](const std::filesystem::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  const std::string own = to_text(root / "test/parallel/tutorial_test.cpp");
  const std::string page = to_text(root / "training-a-model.md");
  const std::size_t begin = page.find("struct ToyModelImpl");
  REQUIRE(begin != std::string::npos);
  std::istringstream shown(page.substr(begin, page.find("```", begin) - begin));
  for (std::string line; std::getline(shown, line);) {
    CAPTURE(line);
    CHECK(own.find(line) != std::string::npos);
  }
  DataParallelWorld world(4);
  world.torch.multiprocessing.spawn(demo_basic, std::forward_as_tuple(world.torch), 4);
}

}  // namespace
}  // namespace kernbench::test::tutorial_test
