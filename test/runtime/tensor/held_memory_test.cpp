// Tests what tensors hold of a device's memory: how much, the most at a time, and which ones.

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::held_memory_test {
namespace {

TEST_CASE("the memory of a device is counted, and the most of it", "[tensor][memory]") {
  OperatorsUnderTest dut;
  const Bytes before = dut.torch.ahbm.memory_allocated();
  {
    const Tensor x = dut.torch.zeros({1024}, {.dp = on_pes(kR)});  // 4 KiB on each of two PEs
    CHECK(dut.torch.ahbm.memory_allocated() == before + 2 * 4096);
  }
  CHECK(dut.torch.ahbm.memory_allocated() == before);
  CHECK(dut.torch.ahbm.max_memory_allocated() == before + 2 * 4096);
  dut.torch.ahbm.reset_peak_memory_stats();
  CHECK(dut.torch.ahbm.max_memory_allocated(0) == before);
  CHECK(dut.torch.ahbm.memory_allocated(1) == before);
  CHECK_THAT(error_of<CollectiveError>([&] { dut.torch.ahbm.memory_allocated(7); }),
             Says("KB-R003", "7"));
}

// This is what PyTorch's caching allocator does, which frees a block when the host gives it up.
TEST_CASE("what queued launches use is free when its last handle is gone, and nothing waits",
          "[tensor][memory][stream]") {
  OperatorsUnderTest dut;
  auto& ahbm = dut.torch.ahbm;
  const Tensor x = dut.tensor({1024}, Floats(1024, 1));
  ahbm.synchronize();
  ahbm.reset_peak_memory_stats();
  const Bytes before = ahbm.memory_allocated();
  Tensor y = x + x;
  for (int i = 0; i < 100; ++i) y = y + x;
  const Time issued = dut.torch.engine().now();
  CHECK(ahbm.memory_allocated() == before + 4096);
  CHECK(ahbm.max_memory_allocated() == before + 2 * 4096);  // the sum, and the one before it
  CHECK_THAT(ahbm.memory_summary(), Catch::Contains("at most"));
  CHECK(dut.torch.engine().now() == issued);
  ahbm.synchronize();
  CHECK(dut.torch.engine().now() > issued);
  CHECK(y.at({1023}) == 102);
  CHECK(ahbm.memory_allocated() == before + 4096);
  CHECK(ahbm.max_memory_allocated() == before + 2 * 4096);
}

TEST_CASE("activations are freed with the graph, by backward or by its last handle",
          "[tensor][memory]") {
  OperatorsUnderTest dut;
  constexpr Bytes kVector = 4096;
  constexpr Bytes kScalar = 256;  // a block
  const Tensor x = dut.tensor({1024}, Floats(1024, 1)).requires_grad_();
  const auto held = [&, before = dut.torch.ahbm.memory_allocated()] {
    dut.torch.ahbm.synchronize();  // queued kernels hold their operands
    return dut.torch.ahbm.memory_allocated() - before;
  };
  {
    const Tensor loss = exp(exp(x)).sum();
    CHECK(held() == 2 * kVector + kScalar);  // both results are needed for their gradients
  }
  CHECK(held() == 0);
  const Tensor loss = exp(exp(x)).sum();
  loss.backward();
  CHECK(held() == kVector + kScalar);  // x.grad() and the loss
}

TEST_CASE("a summary has a line for each name", "[tensor][memory]") {
  OperatorsUnderTest dut;
  const TensorOptions w{.dp = DPPolicy::on_one_pe(), .name = "w"};
  const std::vector<Tensor> tensors{dut.torch.zeros({1024}, w), dut.torch.zeros({1024}, w),
                                    dut.torch.zeros({2}, {.dp = w.dp, .name = "b"})};
  CHECK(dut.torch.ahbm.memory_summary() ==
        "sip0: 8448 B of 3221225472 B HBM are allocated, at most 8448 B were\n"
        "  8192 B: 2 times 'w'\n"
        "  256 B: 'b'\n"
        "the most, by kind:\n"
        "  8448 B: input");
  CHECK(dut.torch.ahbm.memory_summary(1) ==
        "sip1: 0 B of 3221225472 B HBM are allocated, at most 0 B were");
}

TEST_CASE("a tensor that does not fit is named, and who is in its way", "[tensor][memory]") {
  Topology topology = six_pe_topology();
  topology.cube.hbm.capacity = 2 << 20;  // 1 MiB for each PE
  OperatorsUnderTest dut(topology);
  const TensorOptions on_one_pe{.dp = DPPolicy::on_one_pe(), .name = "activation"};
  std::vector<Tensor> held;
  for (int i = 0; i < 3; ++i) held.push_back(dut.torch.zeros({64, 1024}, on_one_pe));
  const Tensor elsewhere = dut.torch.zeros({6, 1024}, {.dp = {.cube = kRow}, .name = "spread"});
  const std::string text = error([&] {
    dut.torch.zeros({128, 1024}, {.dp = on_one_pe.dp, .name = "x"});
  });
  CHECK_THAT(text, Says("KB-M010", "out of HBM on sip0.cube0.pe0: requested 524288 B",
                        "for tensor 'x' [128, 1024] f32; who holds it:",
                        "\n  786432 B: 3 times 'activation'", "\n  8192 B: 'spread'"));
}

}  // namespace
}  // namespace kernbench::test::held_memory_test
