// Names that a user of torch types, and what they give.

#include "runtime/distributed/local_backend.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::names_test {
namespace {

using Strides = std::vector<std::int64_t>;

TEST_CASE("a tensor tells its strides and bytes", "[names]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.torch.zeros({2, 3, 4}, {.dtype = DType::f16});
  CHECK(x.stride() == Strides{12, 4, 1});
  CHECK(x.stride(-2) == 4);
  CHECK(x.element_size() == 2);
  CHECK(x.nbytes() == 48);
  CHECK(x.transpose(0, 2).stride() == Strides{1, 4, 12});
  CHECK(x.slice(2, 0, 4, 2).stride() == Strides{12, 4, 2});
  CHECK(x[1].stride() == Strides{4, 1});
  CHECK(dut.torch.zeros({}).stride().empty());
  CHECK(RuntimeContext::tensor({1, 2}).stride(0) == 1);
  CHECK(dut.torch.zeros({4, 6}, {.dp = on_pes(kColumn)}).stride() == Strides{6, 1});
  CHECK_THAT(error([&] { x.stride(3); }), Says("KB-F001", "Dimension out of range"));
}

TEST_CASE("a computed tensor tells what made it", "[names]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.torch.ones({2}).requires_grad_();
  CHECK_FALSE(x.grad_fn().has_value());
  CHECK((x + 1).grad_fn() == "<AddBackward0>");
  CHECK((x * x).grad_fn() == "<MulBackward0>");
  CHECK((x * 2).grad_fn() == "<MulBackward0>");
  CHECK(x.sum().grad_fn() == "<SumBackward0>");
  CHECK(amax(x, 0, true).grad_fn() == "<AmaxBackward0>");
  CHECK(log_softmax(x, 0).grad_fn() == "<LogSoftmaxBackward0>");
  CHECK_FALSE((x + 1).detach().grad_fn().has_value());
}

TEST_CASE("tensors of no type have the default one", "[names]") {
  OperatorsUnderTest dut;
  RuntimeContext& torch = dut.torch;
  CHECK(torch.get_default_dtype() == DType::f32);
  torch.set_default_dtype(DType::bf16);
  CHECK(torch.get_default_dtype() == DType::bf16);
  CHECK(torch.zeros({2}).dtype() == DType::bf16);
  CHECK(torch.rand({2}).dtype() == DType::bf16);
  CHECK(torch.tensor({1, 2}, {2}, {}).dtype() == DType::bf16);
  CHECK(torch.arange(0, 1, 0.25).dtype() == DType::bf16);
  CHECK(torch.arange(4).dtype() == DType::i64);
  CHECK(torch.ones({2}, {.dtype = DType::f16}).dtype() == DType::f16);
  CHECK_THAT(error([&] { torch.set_default_dtype(DType::i64); }),
             Says("KB-F002", "only floating-point types are supported as the default type"));
}

TEST_CASE("a rank has a default type of its own", "[names]") {
  OperatorsUnderTest dut;
  RuntimeContext& torch = dut.torch;
  torch.set_default_dtype(DType::f16);
  distributed::register_local_backend();
  torch.distributed.init_process_group("local");
  torch.multiprocessing.spawn(
      [&](int rank) {
        torch.ahbm.set_device(rank);
        if (rank == 1) torch.set_default_dtype(DType::bf16);
        torch.distributed.barrier();
        CHECK(torch.zeros({1}).dtype() == (rank == 1 ? DType::bf16 : DType::f16));
      },
      std::tuple{}, 2);
  CHECK(torch.get_default_dtype() == DType::f16);
}

TEST_CASE("a generator goes on from a state that was kept", "[names]") {
  OperatorsUnderTest dut;
  RuntimeContext& torch = dut.torch;
  torch.manual_seed(7);
  torch.rand({3});
  const Tensor state = torch.get_rng_state();
  CHECK(state.dtype() == DType::u8);
  CHECK(state.shape() == Shape{16});
  const Floats next = torch.rand({3}).to_vector();
  const Floats then = torch.randn({3}).to_vector();
  CHECK(torch.rand({3}).to_vector() != next);
  torch.set_rng_state(state);
  CHECK(torch.rand({3}).to_vector() == next);
  CHECK(torch.randn({3}).to_vector() == then);
  CHECK_THAT(error([&] {
               torch.set_rng_state(RuntimeContext::tensor({1, 2}));
             }),
             Says("KB-F002", "RNG state must be a torch.ByteTensor"));
  CHECK_THAT(error([&] { torch.set_rng_state(Tensor()); }), Says("KB-F002"));
  const std::vector<std::uint8_t> few{1, 2, 3};
  CHECK_THAT(error([&] { torch.set_rng_state(torch.tensor(few, {3})); }),
             Says("KB-M015", "RNG state is wrong size"));
}

TEST_CASE("torch.ahbm answers what torch.cuda is asked", "[names]") {
  OperatorsUnderTest dut;
  RuntimeContext& torch = dut.torch;
  CHECK(torch.ahbm.is_available());
  CHECK(torch.ahbm.get_device_name() == "ahbm SIP 0");
  CHECK(torch.ahbm.get_device_name(1) == "ahbm SIP 1");
  const auto [free, total] = torch.ahbm.mem_get_info();
  const Tensor x = torch.zeros({1024}, {.dp = DPPolicy::on_one_pe()});
  torch.ahbm.empty_cache();
  CHECK(torch.ahbm.mem_get_info() == std::pair(free - x.nbytes(), total));
  const ahbm::DeviceProperties properties = torch.ahbm.get_device_properties(1);
  CHECK(properties.name == "ahbm SIP 1");
  CHECK(properties.total_memory == total);
  CHECK(properties.multi_processor_count == 6);
  CHECK_THAT(error_of<CollectiveError>([&] { torch.ahbm.get_device_name(9); }),
             Says("KB-R003", "invalid device ordinal 9"));
  CHECK(x.to(torch.device("ahbm", 1)).device() == 1);
  CHECK(x.to(torch.device("ahbm:1")).device() == 1);
  CHECK(x.to(torch.device("cpu")).is_host());
  CHECK_THAT(error([&] { torch.device("cuda", 1); }), Says("KB-M024", "cuda:1"));
}

}  // namespace
}  // namespace kernbench::test::names_test
