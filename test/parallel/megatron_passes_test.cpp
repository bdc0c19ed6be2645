// Passes of Megatron's DistributedDataParallel that exceptions leave, or that have other gradients
// than the first one.

#include <fmt/format.h>

#include <optional>
#include <stdexcept>

#include "test/parallel/data_parallel_world.h"
#include "tp/distributed_data_parallel.h"
#include "tp/parallel_state.h"
#include "tp/param_and_grad_buffer.h"

namespace kernbench::test::megatron_passes_test {
namespace {

using Catch::Contains;

// Three weights, of which each pass uses some; a gradient may be refused.
struct BranchesImpl : nn::Module {
  explicit BranchesImpl(const RuntimeContext& torch) {
    for (const char* const name : {"a", "b", "c"}) {
      weights.push_back(register_parameter(
          name, torch.zeros({4, 4}, {.dp = DPPolicy::on_one_pe(), .name = name})));
    }
  }
  Tensor forward(const Tensor& x, const std::vector<std::size_t>& used) const {
    Tensor y = x;
    for (const std::size_t i : used) y = matmul(y, weights[i]);
    return y;
  }
  std::vector<Tensor> weights;
};
KERNBENCH_MODULE(Branches);

constexpr tp::DistributedDataParallelConfig kOverlapping{
    .overlap_grad_reduce = true, .use_distributed_optimizer = true, .bucket_size = 1'000'000};

struct Model {
  explicit Model(DataParallelWorld& world)
      : branches(world.torch),
        x(world.tensor({1, 2, 3, 4}, {1, 4})),
        ddp((tp::initialize_model_parallel(world.torch), world.torch), kOverlapping, branches) {
    fill_parameters(world.torch, *branches);
  }
  void pass(const std::vector<std::size_t>& used) { ddp(x, used).sum().backward(); }

  Branches branches;
  Tensor x;
  tp::DistributedDataParallel<Branches> ddp;
};

TEST_CASE("a bucket without a gradient of the first batch is not sent, and named", "[ddp]") {
  // As many gradients as in the first batch, but not the same: sent with the third, it would lack
  // the last one.
  const auto [used, count] =
      GENERATE(table<std::vector<std::size_t>, int>({{{0, 2}, 2}, {{0}, 1}}));
  DataParallelWorld world(2);
  CHECK_THAT(
      world.refusal([&](int) {
        Model model(world);
        model.pass({0, 1});
        tp::finalize_model_grads(model.ddp);
        model.ddp->zero_grad_buffer();
        model.pass(used);
        tp::finalize_model_grads(model.ddp);
      }),
      Contains(fmt::format("[KB-T008] Communication call has not been issued for this bucket "
                           "({}/2 params have grad available) (rank 0: 'b')",
                           count)));
}

TEST_CASE("a batch is sent once, and finished before the next one", "[ddp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int) {
    Model model(world);
    model.pass({0, 1});
    tp::finalize_model_grads(model.ddp);
    model.pass({0, 1});
    model.ddp->start_grad_sync();
  }),
             Contains("[KB-T008] Should not have multiple communication calls outstanding at once: "
                      "finish_grad_sync() comes before the next backward pass (rank 0: 'c')"));
  DataParallelWorld other(2);
  CHECK_THAT(other.refusal([&](int) {
    Model model(other);
    model.pass({0, 1});
    tp::finalize_model_grads(model.ddp);
    model.pass({0, 1});
    model.pass({0, 1});
  }),
             Contains("rank 0: [KB-G003] kernel 'add_to_bucket' uses tensor 'bucket', which "
                      "reduce_scatter_tensor#"));
}

// Gradients of the second batch, after a pass that throws behind some gradients, or all.
Floats gradients(bool blocks, std::optional<std::size_t> throws_before) {
  DataParallelWorld world(2, "ahbm", {.launch_blocking = blocks});
  Floats all;
  world.spawn([&](int rank) {
    Model model(world);
    model.pass({0, 1, 2});
    tp::finalize_model_grads(model.ddp);
    model.ddp->zero_grad_buffer();
    if (throws_before) {
      Tensor y = model.x.clone().requires_grad_();
      for (std::size_t i = 0; i < 3; ++i) {
        if (i == *throws_before) {
          y = y * 1;
          y.register_hook([](const Tensor&) -> Tensor { throw std::runtime_error("no"); });
        }
        y = matmul(y, model.branches->weights[i]);
      }
      CHECK_THROWS_WITH(y.sum().backward(), "no");
      model.ddp->zero_grad_buffer();
    }
    model.pass({0, 1, 2});
    tp::finalize_model_grads(model.ddp);
    if (rank == 0) all = model.ddp->buckets().front()->grad_shard().to_vector();
  });
  return all;
}

TEST_CASE("a pass that an exception has left does not count in the next one", "[ddp]") {
  const bool blocks = GENERATE(true, false);
  const std::size_t before = GENERATE(0, 1, 2);
  CAPTURE(blocks, before);
  const Floats expected = gradients(blocks, std::nullopt);
  CHECK(expected != Floats(expected.size(), 0));
  CHECK(gradients(blocks, before) == expected);
}

}  // namespace
}  // namespace kernbench::test::megatron_passes_test
