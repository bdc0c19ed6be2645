#include "runtime/tensor/tensor.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "runtime/simulation/simulation.h"
#include "runtime/tensor/host_read.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/components/hbm_allocator.h"
#include "sim_engine/components/routing.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::tensor_test {
namespace {

using Floats = std::vector<float>;

Tensor numbers(const Shape& shape) {
  Floats elements;
  for (std::int64_t i = 0; i < shape.numel(); ++i) elements.push_back(static_cast<float>(i + 1));
  return RuntimeContext::tensor(elements, shape);
}

TEST_CASE("zeros, ones, full and empty have their elements at once", "[tensor]") {
  RuntimeContext torch(small_topology());
  CHECK(torch.zeros({3}).to_vector() == Floats{0, 0, 0});
  CHECK(torch.ones({1, 2}).to_vector() == Floats{1, 1});
  CHECK(torch.full({2}, 2.5).to_vector() == Floats{2.5F, 2.5F});
  CHECK(torch.full({1}, 2049, {.dtype = DType::f16}).item() == 2048);  // rounded to even
  CHECK(torch.full({1}, 65504, {.dtype = DType::f16}).item() == 65504);
  CHECK(torch.full({1}, -HUGE_VAL, {.dtype = DType::f16}).item() == -HUGE_VALF);
  CHECK_THROWS_MATCHES(torch.full({1}, -65505, {.dtype = DType::f16}), DeviceError,
                       Says("KB-M021", "value cannot be converted to type Half without overflow",
                            "-65505", "65504"));
  CHECK_THROWS_MATCHES(torch.full({1}, 1e39), DeviceError, Says("KB-M021"));
  for (const float element : torch.empty({3}).to_vector()) CHECK(std::isnan(element));
  CHECK(torch.engine().now() == Time{0});
}

TEST_CASE("a tensor knows its shape, type, name, device and placement", "[tensor]") {
  RuntimeContext torch(small_topology());
  torch.ahbm.set_device(1);
  const DPPolicy dp{.cube = Shard::row_wise};
  const Tensor x = torch.zeros({4, 6}, {.dtype = DType::bf16, .dp = dp, .name = "x"});
  CHECK(x.shape() == Shape{4, 6});
  CHECK(x.numel() == 24);
  CHECK(x.dtype() == DType::bf16);
  CHECK(x.name() == "x");
  CHECK(x.device() == 1);
  CHECK(x.dp() == dp);
  CHECK_FALSE(x.is_host());
  REQUIRE(x.shards().size() == 4);
  CHECK(x.shards()[3].sip == 1);
  CHECK(torch.zeros({1}).name() == "tensor1");  // the second tensor of this context
  CHECK(numbers({1}).is_host());
}

TEST_CASE("copy_ brings every element to its place, however the tensor is cut", "[tensor]") {
  const Shard cube =
      GENERATE(Shard::replicate, Shard::row_wise, Shard::column_wise, Shard::partial);
  const Shard pe = GENERATE(Shard::replicate, Shard::row_wise, Shard::column_wise, Shard::partial);
  RuntimeContext torch(small_topology());
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{5}, Shape{3, 5}, Shape{2, 3, 5}, Shape{0}, Shape{3, 0, 2}}) {
    Tensor x = torch.zeros(shape, {.dp = {.cube = cube, .pe = pe}});
    CHECK(x.copy_(numbers(shape)).to_vector() == numbers(shape).to_vector());
    CHECK(torch.full(shape, 3, {.dp = {.cube = cube, .pe = pe}}).to_vector() ==
          Floats(static_cast<std::size_t>(shape.numel()), 3.0F));
  }
}

TEST_CASE("shards hold rows and columns as the placement says", "[tensor]") {
  RuntimeContext torch(small_topology());
  Tensor x = torch.zeros({2, 3}, {.dp = {.cube = Shard::row_wise, .pe = Shard::column_wise}});
  x.copy_(numbers({2, 3}));
  CHECK(x.shard_to_vector(0) == Floats{1, 2});
  CHECK(x.shard_to_vector(1) == Floats{3});
  CHECK(x.shard_to_vector(2) == Floats{4, 5});
  CHECK(x.shard_to_vector(3) == Floats{6});
}

TEST_CASE("a partial tensor is the sum of its holders, and copy_ gives it to the first",
          "[tensor]") {
  RuntimeContext torch(small_topology());
  Tensor x = torch.zeros({2}, {.dp = {.cube = Shard::partial, .pe = Shard::partial}});
  x.copy_(numbers({2}));
  CHECK(x.shard_to_vector(0) == Floats{1, 2});
  CHECK(x.shard_to_vector(3) == Floats{0, 0});
  x.copy_shard_(3, RuntimeContext::tensor({10, 20}, {2}));
  CHECK(x.shard_to_vector(3) == Floats{10, 20});
  CHECK(x.to_vector() == Floats{11, 22});
}

TEST_CASE("copy_ rounds to the type of its target", "[tensor]") {
  RuntimeContext torch(small_topology());
  Tensor x = torch.zeros({2}, {.dtype = DType::bf16});
  x.copy_(RuntimeContext::tensor({257, 259}, {2}));
  CHECK(x.to_vector() == Floats{256, 260});  // ties to even
}

TEST_CASE("copy_ takes the host link, the way to the HBM and the bytes at the slowest link",
          "[tensor][timing]") {
  RuntimeContext torch(small_topology());
  Tensor x = torch.zeros({250}, {.dp = DPPolicy::on_one_pe()});
  x.copy_(numbers({250}));
  // Host link 200 ns, UCIe 5 ns, HBM 50 ns; 1000 B at 10 GB/s.
  CHECK(torch.engine().now() == Time{255'000 + 100'000});
}

TEST_CASE("parts of a tensor share the host link", "[tensor][timing]") {
  RuntimeContext torch(small_topology());
  Tensor x = torch.zeros({250}, {.dp = {.pe = Shard::column_wise, .num_cubes = 1}});
  x.copy_(numbers({250}));
  CHECK(torch.engine().now() == Time{255'000 + 2 * 50'000});
}

TEST_CASE(
    "of the copies of a tensor one crosses the host link, and the others leave the IO chiplet",
    "[tensor][timing]") {
  Topology topology = small_topology();
  RuntimeContext torch(topology);
  Tensor x = torch.zeros({250}, {.dp = {.num_cubes = 1}});
  x.copy_(numbers({250}));
  // From there: UCIe 5 ns, HBM 50 ns; 1000 B at the slower of them.
  const Time bytes = transfer_time(1000, sim::Routing::hbm_slice(topology).bandwidth);
  CHECK(torch.engine().now() == Time{255'000 + 100'000} + Time{55'000} + bytes);
  CHECK(x.shard_to_vector(1) == x.shard_to_vector(0));
}

TEST_CASE("a device tensor is copied to another device, and to a host tensor", "[tensor]") {
  RuntimeContext torch(small_topology());
  Tensor x = torch.zeros({2, 2}, {.dp = {.cube = Shard::row_wise}});
  x.copy_(numbers({2, 2}));
  torch.ahbm.set_device(1);
  Tensor y = torch.zeros({2, 2}, {.dp = {.pe = Shard::column_wise}});
  y.copy_(x);
  CHECK(y.to_vector() == Floats{1, 2, 3, 4});
  Tensor host = RuntimeContext::tensor({0, 0, 0, 0}, {2, 2});
  host.copy_(y);
  CHECK(host.to_vector() == Floats{1, 2, 3, 4});
}

TEST_CASE("a copy's records are those of the PEs that it was for, by their numbers", "[tensor]") {
  RuntimeContext torch(small_topology());
  torch.ahbm.set_device(1);
  torch.zeros({2, 2}, {.dp = {.cube = Shard::row_wise, .pe = Shard::column_wise}})
      .copy_(numbers({2, 2}));
  std::set<std::uint32_t> units;
  for (const sim::OpRecord& record : torch.engine().op_log()) units.insert(record.unit);
  CHECK(units == std::set<std::uint32_t>{4, 5, 6, 7});
}

TEST_CASE("an element by its index is the one of the whole tensor, however it is placed",
          "[tensor]") {
  RuntimeContext torch(small_topology());
  const std::vector<Shard> kinds = {Shard::replicate, Shard::row_wise, Shard::column_wise,
                                    Shard::partial};
  for (const Shard cube : kinds) {
    for (const Shard pe : kinds) {
      Tensor x = torch.empty({3, 5}, {.dp = {.cube = cube, .pe = pe}});
      for (std::size_t i = 0; i < x.shards().size(); ++i) {
        const Shape& shape = x.shards()[i].shape;
        std::vector<float> part;
        for (std::int64_t k = 0; k < shape.numel(); ++k) {
          part.push_back(static_cast<float>(100 * i) + static_cast<float>(k));
        }
        x.copy_shard_(i, RuntimeContext::tensor(part, shape));
      }
      const std::vector<float> all = x.to_vector();
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        CAPTURE(to_string(x.dp()), i);
        CHECK(x.at({i / 5, i % 5}) == all[static_cast<std::size_t>(i)]);
      }
    }
  }
}

TEST_CASE("item, at and to_vector of another type read the values", "[tensor]") {
  RuntimeContext torch(small_topology());
  Tensor x = torch.zeros({2, 3}, {.dp = {.cube = Shard::column_wise}});
  x.copy_(numbers({2, 3}));
  CHECK(x.at({1, 2}) == 6);
  CHECK(x.at({0, 1}) == 2);
  CHECK(x.to_vector<int>() == std::vector<int>{1, 2, 3, 4, 5, 6});
  CHECK(x.to_vector<double>()[5] == 6.0);
  CHECK(torch.full({1, 1}, 7).item<int>() == 7);
  CHECK(torch.full({}, 8).item() == 8);
  CHECK(torch.full({}, 8).at({}) == 8);
}

TEST_CASE("an element of a host tensor is read without the others", "[tensor]") {
  const Tensor x = numbers({1 << 20});  // a copy of all for each would take minutes
  bool is_each = true;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    is_each = is_each && x.at({i}) == static_cast<float>(i + 1);
  }
  CHECK(is_each);
}

TEST_CASE("numbers become integers on the host as on a device", "[tensor]") {
  using Integers = std::vector<std::int64_t>;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const Tensor x = RuntimeContext::tensor({-1.5F, 2, 0, NAN, 1e30F, -1e30F}, {6});
  CHECK(runtime::read_integers(x, runtime::HostRead::indices) ==
        Integers{-1, 2, 0, 0, kMost, -kMost - 1});
  const auto copied = [&](DType dtype) {
    Tensor y(runtime::make_host_storage({6}, Integers(6, 0), dtype));
    return y.copy_(x).to_vector<std::int64_t>();
  };
  constexpr std::int64_t kMost32 = std::numeric_limits<std::int32_t>::max();
  CHECK(copied(DType::i64) == Integers{-1, 2, 0, 0, kMost, -kMost - 1});
  CHECK(copied(DType::i32) == Integers{-1, 2, 0, 0, kMost32, -kMost32 - 1});
  CHECK(copied(DType::boolean) == Integers{1, 1, 0, 1, 1, 1});
}

TEST_CASE("a tensor prints its elements, and of a large one the edges", "[tensor]") {
  RuntimeContext torch(small_topology());
  Tensor x = torch.zeros({2, 2}, {.dtype = DType::f16});
  x.copy_(RuntimeContext::tensor({1, 2, 3.5, -4}, {2, 2}));
  CHECK(fmt::format("{}", x) == "tensor([[1, 2], [3.5, -4]], dtype=f16)");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(to_string(RuntimeContext::tensor({nan, -nan}, {2})) == "tensor([nan, nan], dtype=f32)");
  CHECK(fmt::format("{}", numbers({})) == "tensor(1, dtype=f32)");
  CHECK(fmt::format("{}", numbers({0})) == "tensor([], dtype=f32)");
  CHECK(fmt::format("{}", numbers({2, 0})) == "tensor([[], []], dtype=f32)");
  CHECK(fmt::format("{}", numbers({1001})) == "tensor([1, 2, 3, ..., 999, 1000, 1001], dtype=f32)");
  CHECK(fmt::format("{}", numbers({501, 2})) ==
        "tensor([[1, 2], [3, 4], [5, 6], ..., [997, 998], [999, 1000], [1001, 1002]], dtype=f32)");
  CHECK(fmt::format("{}", Tensor()) == "tensor(undefined)");
}

TEST_CASE("from_blob copies what it is given", "[tensor]") {
  Floats elements{1, 2, 3};
  const Tensor x = RuntimeContext::from_blob(elements.data(), {3});
  elements[0] = 9;
  CHECK(x.to_vector() == Floats{1, 2, 3});
}

TEST_CASE("misuse of a tensor says what is wrong", "[tensor][error]") {
  RuntimeContext torch(small_topology());
  Tensor x = torch.zeros({2, 3}, {.name = "x"});
  CHECK_THROWS_MATCHES(x.copy_(numbers({6})), DeviceError,
                       Says("KB-M015",
                            "The size of tensor a (3) must match the size of tensor b (6) at "
                            "non-singleton dimension 1",
                            "'host tensor'", "[6]", "'x'", "[2, 3]"));
  CHECK_THROWS_MATCHES(x.copy_shard_(0, numbers({3, 2})), DeviceError,
                       Says("KB-M015", "'host tensor'", "[3, 2]", "'x'", "[2, 3]"));
  CHECK_THROWS_MATCHES(x.copy_shard_(4, numbers({2, 3})), DeviceError,
                       Says("KB-M017", "copy_shard_", "'x'", "0 to 3, not 4"));
  CHECK_THROWS_MATCHES(x.shard_to_vector(9), DeviceError,
                       Says("KB-M017", "shard_to_vector", "'x'", "0 to 3, not 9"));
  CHECK_THROWS_MATCHES(RuntimeContext::tensor({1, 2}, {3}), DeviceError,
                       Says("KB-M015", "[3]", "size 2"));
  CHECK_THROWS_MATCHES(
      x.item(), DeviceError,
      Says("KB-M016", "only one element tensors can be converted to Python scalars",
           "a Tensor with 6 elements cannot be converted to Scalar"));
  CHECK_THROWS_MATCHES(x.at({2, 0}), DeviceError, Says("KB-M017", "[2, 0]", "'x'", "[2, 3]"));
  CHECK_THROWS_MATCHES(x.at({0, -4}), DeviceError, Says("KB-M017", "[0, -4]", "'x'", "[2, 3]"));
  CHECK_THROWS_MATCHES(x.at({0, 0, 0}), DeviceError, Says("KB-M017", "[0, 0, 0]", "'x'", "[2, 3]"));
  CHECK_THROWS_MATCHES(x.at({1}), DeviceError, Says("KB-M017", "'x' [2, 3]", "2 indices, not 1"));
  CHECK_THROWS_MATCHES(Tensor().shape(), DeviceError, Says("KB-M001", "not defined"));
  CHECK_THROWS_MATCHES(Tensor().to_vector(), DeviceError, Says("KB-M001", "not defined"));
  CHECK_THROWS_MATCHES(x.copy_(Tensor()), DeviceError, Says("KB-M001", "not defined"));
}

TEST_CASE("a host tensor has no shards to read or write", "[tensor][error]") {
  Tensor host = numbers({2});
  CHECK_THROWS_MATCHES(host.shard_to_vector(0), DeviceError,
                       Says("KB-M017", "shard_to_vector", "'host tensor'"));
  CHECK_THROWS_MATCHES(host.copy_shard_(0, numbers({2})), DeviceError,
                       Says("KB-M017", "copy_shard_", "'host tensor'"));
}

TEST_CASE("a context without data has no values to read", "[tensor][error]") {
  RuntimeContext torch(small_topology(), {.data = false});
  const Tensor x = torch.zeros({2}, {.name = "x"});
  const Says expected("KB-M018", "'x'", "data = false");
  CHECK_THROWS_MATCHES(x.to_vector(), DeviceError, expected);
  CHECK_THROWS_MATCHES(x.at({0}), DeviceError, expected);
  CHECK_THROWS_MATCHES(x.shard_to_vector(0), DeviceError, expected);
  CHECK_THROWS_MATCHES(to_string(x), DeviceError, expected);
}

TEST_CASE("memory is given back with the last handle", "[tensor][lifetime]") {
  RuntimeContext torch(small_topology());
  const sim::HbmAllocator& allocator = simulation_of(torch).allocator(0);
  Tensor copy;
  {
    const Tensor x = torch.zeros({64});  // 256 B on each of 4 PEs
    CHECK(allocator.allocated() == 4 * 256);
    copy = x;
  }
  CHECK(allocator.allocated() == 4 * 256);
  copy = Tensor();
  CHECK(allocator.allocated() == 0);
}

TEST_CASE("a tensor that does not fit takes nothing, and the context works on",
          "[tensor][lifetime]") {
  Topology topology = small_topology();
  topology.cube.hbm.capacity = 1 << 20;  // 512 KiB for each PE
  RuntimeContext torch(topology);
  const Tensor last = torch.zeros({64}, {.dp = {.cube = Shard::row_wise, .pe = Shard::row_wise}});
  const Bytes before = simulation_of(torch).allocator(0).allocated();
  CHECK_THROWS_MATCHES(
      torch.zeros({131'073}), DeviceError,
      Says("KB-M010", "HBM on sip0.cube0.pe0", "524292 B", "524032 B", "524288 B"));
  // The first three PEs have room for what the last one has not.
  Tensor most = torch.zeros({131'008}, {.dp = DPPolicy::on_one_pe()});
  CHECK_THROWS_AS(torch.zeros({131'008}, {.dp = DPPolicy::on_one_pe()}), DeviceError);
  most = Tensor();
  CHECK(simulation_of(torch).allocator(0).allocated() == before);
  CHECK(torch.zeros({131'008}).numel() == 131'008);
}

// The tensor lies on 2 cubes and their 2 PEs, and each holds all of it: 4 KiB.
TEST_CASE("the copies of what is copied in share the host's memory", "[tensor]") {
  RuntimeContext torch(small_topology());
  const auto grown_by = [&](Shard cube, Shard pe) {
    const sim::MemoryStore& memory = simulation_of(torch).machine().memory();
    Tensor x = torch.empty({32, 32}, {.dp = {.cube = cube, .pe = pe}});
    const Bytes before = memory.live_bytes();
    x.copy_(numbers({32, 32}));
    CHECK(x.to_vector() == numbers({32, 32}).to_vector());
    return memory.live_bytes() - before;
  };
  const Bytes of_one = grown_by(Shard::row_wise, Shard::column_wise);
  CHECK(of_one >= 4096);
  CHECK(grown_by(Shard::replicate, Shard::replicate) <= of_one);
  CHECK(grown_by(Shard::replicate, Shard::row_wise) <= of_one);
  // Partial: the first holder has it, the others share zeros.
  CHECK(grown_by(Shard::partial, Shard::partial) < 3 * of_one);
}

TEST_CASE("a tensor outlives its context and can still be read", "[tensor][lifetime]") {
  Tensor x;
  {
    RuntimeContext torch(small_topology());
    x = torch.full({2}, 5, {.dp = {.cube = Shard::row_wise}});
  }
  CHECK(x.to_vector() == Floats{5, 5});
  CHECK(fmt::format("{}", x) == "tensor([5, 5], dtype=f32)");
}

TEST_CASE("an empty shape reads and copies as nothing", "[tensor]") {
  RuntimeContext torch(small_topology());
  Tensor x = torch.zeros({0, 4}, {.dp = {.cube = Shard::row_wise}});
  CHECK(x.copy_(numbers({0, 4})).to_vector().empty());
}

}  // namespace
}  // namespace kernbench::test::tensor_test
