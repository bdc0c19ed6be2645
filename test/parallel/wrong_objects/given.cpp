#include "test/parallel/wrong_objects/given.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "runtime/autograd/autograd.h"

namespace kernbench::test::wrong_objects {

namespace {

const TensorOptions kOnePe{.dp = DPPolicy::on_one_pe()};

std::vector<Kind> right_tensors(RuntimeContext& torch) {
  const Tensor x = torch.tensor({1, 2, 3, 4, 5, 6}, {2, 3}, kOnePe);
  const Tensor w = torch.tensor({1, -1, 2, -2, 3, -3}, {2, 3}, kOnePe).requires_grad_();
  return {{"{2, 3}", x},
          {"another {2, 3}", torch.ones({2, 3}, kOnePe)},
          {"a leaf", w},
          {"computed", w * 2},
          {"{3, 2}", torch.ones({3, 2}, kOnePe)},
          {"{3}", torch.ones({3}, kOnePe)},
          {"i64 {2}", torch.zeros({2}, {.dtype = DType::i64, .dp = DPPolicy::on_one_pe()})},
          {"a mask", x > 2},
          {"a number", torch.ones({}, kOnePe)},
          {"{1, 2, 4, 4}", torch.ones({1, 2, 4, 4}, kOnePe)}};
}

std::vector<Kind> wrong_tensors(RuntimeContext& torch,
                                const std::vector<const Elsewhere*>& elsewhere) {
  const auto of = [&](DType dtype) {
    return torch.ones({2, 3}, {.dtype = dtype, .dp = DPPolicy::on_one_pe()});
  };
  const Tensor x = torch.ones({4, 3}, kOnePe);
  const int own = torch.ahbm.current_device();
  std::vector<Kind> kinds = {
      {"undefined", Tensor()},
      {"host", RuntimeContext::tensor({1, 2, 3, 4, 5, 6}, {2, 3})},
      {"host of i64", RuntimeContext::tensor(std::vector<std::int64_t>{1, 2}, {2})},
      {"f16", of(DType::f16)},
      {"bf16", of(DType::bf16)},
      {"i32", of(DType::i32)},
      {"i64 out of range", torch.full({2, 3}, 77, {.dtype = DType::i64, .dp = kOnePe.dp})},
      {"{0, 3}", torch.zeros({0, 3}, kOnePe)},
      {"a view of nothing", torch.zeros({0, 4}, kOnePe).narrow(1, 2, 1)},
      {"an empty row", x.narrow(0, 4, 0)},
      {"transposed", x.t()},
      {"columns", x.narrow(1, 1, 2)},
      {"repeated", torch.ones({1, 3}, kOnePe).expand({2, 3})},
      {"on all PEs", torch.ones({2, 3})},
      {"by rows", torch.ones({2, 3}, {.dp = {.pe = Shard::row_wise, .num_cubes = 1}})},
      {"by columns", torch.ones({2, 4}, {.dp = {.pe = Shard::column_wise, .num_cubes = 1}})},
      {"a row apart", torch.ones({2, 3}, {.dp = {.pe = Shard::row_wise, .num_cubes = 1}})[1]},
      {"partial", torch.ones({2, 3}, {.dp = {.pe = Shard::partial, .num_cubes = 1}})},
      {"of six dimensions", torch.ones({1, 2, 1, 3, 1, 1}, kOnePe)},
      {"not a number", torch.full({2, 3}, std::nan(""), kOnePe)},
  };
  torch.ahbm.set_device(1 - own);
  kinds.push_back({"of another device", torch.ones({2, 3}, kOnePe)});
  torch.ahbm.set_device(own);
  for (const Elsewhere* each : elsewhere) {
    kinds.push_back({"of another context", each->tensor});
    kinds.push_back({"a leaf of another context", each->leaf});
  }
  return kinds;
}

}  // namespace

Pool make_pool(RuntimeContext& torch, const std::vector<const Elsewhere*>& elsewhere) {
  Pool pool;
  pool.tensors = right_tensors(torch);
  for (Kind& kind : wrong_tensors(torch, elsewhere)) pool.tensors.push_back(std::move(kind));
  pool.streams = {torch.ahbm.Stream(), torch.ahbm.default_stream(), torch.ahbm.Stream(0)};
  ahbm::Stream moved = torch.ahbm.Stream();
  const ahbm::Stream to = std::move(moved);
  pool.streams.push_back(moved);
  pool.events = {torch.ahbm.Event(), torch.ahbm.Event({.enable_timing = true})};
  pool.events.back().record();
  pool.groups = {{}, {}, distributed::ProcessGroup::non_member()};
  pool.linears = {nullptr, nn::Linear(torch, 3, 2, kOnePe), nn::Linear(torch, 3, 2)};
  for (const Elsewhere* each : elsewhere) {
    pool.streams.push_back(each->stream);
    pool.events.push_back(each->event);
    pool.groups.push_back(each->group);
    pool.linears.push_back(each->linear);
  }
  return pool;
}

const Tensor& Given::tensor() {
  constexpr std::size_t kRight = 10;
  const std::size_t index = random_.below(flag() ? kRight : pool_.tensors.size());
  drawn_ += fmt::format("{}{}", drawn_.empty() ? "" : "; ", pool_.tensors[index].name);
  return pool_.tensors[index].tensor;
}

std::vector<Tensor> Given::tensors() {
  std::vector<Tensor> tensors;
  for (std::size_t count = random_.below(4); count > 0; --count) tensors.push_back(tensor());
  return tensors;
}

double Given::number() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return random_.pick(std::vector{1.0, 0.5, 2.0, 0.0, -1.0, 1e30, kInfinity, std::nan("")});
}

void look_at(const Tensor& result) {
  if (!result.defined() || result.is_host()) return;
  (void)to_string(result);
}

}  // namespace kernbench::test::wrong_objects
