// Tests what the memory of a device is for: the kinds of tensors, now and at the peak, and the
// modules that have them.

#include <map>

#include "runtime/nn/containers.h"
#include "runtime/nn/layers.h"
#include "runtime/optim/optimizer.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/torch/internals.h"
#include "sim_engine/components/hbm_allocator.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::memory_kinds_test {
namespace {

namespace F = nn::functional;

constexpr Bytes kMatrix = 64 * 64 * 4;
constexpr Bytes kScalar = 256;  // a block
const TensorOptions kOnOnePe{.dp = DPPolicy::on_one_pe()};

MemoryByKind kinds(std::initializer_list<std::pair<MemoryKind, Bytes>> all) {
  MemoryByKind made;
  for (const auto& [kind, bytes] : all) made[kind] = bytes;
  return made;
}

TEST_CASE("a tensor is of the strongest kind that it has had", "[tensor][memory]") {
  using enum MemoryKind;
  OperatorsUnderTest dut;
  const auto held = [&] { return dut.torch.ahbm.memory_stats().current; };
  const nn::Linear linear(dut.torch, nn::LinearOptions(64, 64).bias(false), kOnOnePe);
  const Tensor x = dut.torch.ones({64, 64}, kOnOnePe);
  CHECK(held() == kinds({{parameter, kMatrix}, {input, kMatrix}}));
  optim::AdamW optimizer({linear->weight}, 0.1);
  {
    const Tensor loss = F::gelu(linear(x)).sum();
    dut.torch.ahbm.synchronize();
    CHECK(held() == kinds({{parameter, kMatrix},
                           {input, kMatrix},
                           {activation, kMatrix},  // what gelu was given
                           {temporary, kScalar}}));
    loss.backward();
  }
  dut.torch.ahbm.synchronize();
  CHECK(held() == kinds({{parameter, kMatrix}, {input, kMatrix}, {gradient, kMatrix}}));
  optimizer.step();
  dut.torch.ahbm.synchronize();
  CHECK(held() == kinds({{parameter, kMatrix},
                         {input, kMatrix},
                         {gradient, kMatrix},
                         {optimizer_state, 2 * kMatrix}}));
  CHECK(held().sum() == dut.torch.ahbm.memory_allocated());
  linear->to(DType::f16);
  CHECK(held()[parameter] == kMatrix / 2);
}

TEST_CASE("the peak is told by the kinds that tensors have later", "[tensor][memory]") {
  using enum MemoryKind;
  OperatorsUnderTest dut;
  const Tensor x = dut.torch.ones({64, 64}, kOnOnePe).requires_grad_();
  dut.torch.ahbm.reset_peak_memory_stats();
  {
    const Tensor y = exp(x);  // which keeps its result
    CHECK(dut.torch.ahbm.memory_stats().peak == kinds({{input, kMatrix}, {activation, kMatrix}}));
  }
  dut.torch.ahbm.synchronize();  // the queued kernel has the graph
  Tensor y = x.detach() * 2;     // as large as that
  y = Tensor();
  dut.torch.ahbm.synchronize();
  CHECK(dut.torch.ahbm.memory_stats().peak == kinds({{input, kMatrix}, {activation, kMatrix}}));
  CHECK(dut.torch.ahbm.memory_stats().current == kinds({{input, kMatrix}}));
  dut.torch.ahbm.reset_peak_memory_stats();
  CHECK(dut.torch.ahbm.memory_stats().peak == kinds({{input, kMatrix}}));
}

TEST_CASE("a tensor for which queued launches give up memory is no part of an earlier peak",
          "[tensor][memory]") {
  using enum MemoryKind;
  constexpr Bytes kKiB = 1024;
  Topology topology = six_pe_topology();
  topology.cube.hbm.capacity = 128 * kKiB;  // 64 KiB for each PE
  RuntimeContext torch(topology, {.launch_blocking = false});
  const TensorOptions on_two{.dp = on_pes(kRow)};
  simulation_of(torch).allocator(0).allocate(0, 1, 16 * kKiB);  // the second PE has less room
  const Tensor x = torch.ones({96, 128}, on_two).requires_grad_();
  torch.ahbm.synchronize();
  { const Tensor y = exp(x); }  // the queued kernel has its graph, and 24 KiB on each PE
  // There is room for the first block before the kernel has ended, and for the second behind it.
  const Tensor z = torch.empty({48, 128}, on_two);
  runtime::mark_memory(z, parameter);
  const MemoryByKind peak =
      kinds({{temporary, 16 * kKiB}, {input, 48 * kKiB}, {activation, 48 * kKiB}});
  CHECK(torch.ahbm.memory_stats().current ==
        kinds({{temporary, 16 * kKiB}, {input, 48 * kKiB}, {parameter, 24 * kKiB}}));
  CHECK(torch.ahbm.memory_stats().peak == peak);
  // The first block of this one would take more than that, and the second is refused.
  CHECK_THAT(error([&] { torch.empty({112, 128}, on_two); }), Says("KB-M010", "cube0.pe1"));
  CHECK(torch.ahbm.memory_stats().peak == peak);
  CHECK(torch.ahbm.max_memory_allocated() == peak.sum());
}

TEST_CASE("what only a backward pass makes is a detail of it", "[tensor][memory]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.torch.ones({64, 64}, kOnOnePe).requires_grad_();
  const Tensor loss = exp(exp(exp(x))).sum();
  dut.torch.ahbm.synchronize();
  dut.torch.ahbm.reset_peak_memory_stats();
  loss.backward();
  CHECK(dut.torch.ahbm.memory_stats().peak[MemoryKind::autograd_detail] > 0);
  CHECK(dut.torch.ahbm.memory_stats().peak[MemoryKind::temporary] == kScalar);
}

TEST_CASE("the tensors at the peak are known by module, if a history is kept", "[tensor][memory]") {
  OperatorsUnderTest dut;
  auto& ahbm = dut.torch.ahbm;
  CHECK_THAT(error_of<CollectiveError>([&] { ahbm.peak_memory_snapshot(); }),
             Says("KB-A032", "record_memory_history"));
  const bool is_made_before = GENERATE(false, true);  // the history begins behind the model
  if (!is_made_before) ahbm.record_memory_history();
  const nn::Sequential net(nn::Linear(dut.torch, nn::LinearOptions(64, 64).bias(false), kOnOnePe),
                           nn::GELU(),
                           nn::Linear(dut.torch, nn::LinearOptions(64, 64).bias(false), kOnOnePe));
  const Tensor x = dut.torch.ones({64, 64}, kOnOnePe);
  if (is_made_before) ahbm.record_memory_history();
  optim::AdamW optimizer(net->parameters(), 0.1);
  for (int i = 0; i < 2; ++i) {
    optimizer.zero_grad();
    net(x).sum().backward();
    optimizer.step();
    ahbm.synchronize();
  }
  std::map<std::string, MemoryByKind> modules;
  MemoryByKind all;
  for (const ahbm::MemoryBlock& block : ahbm.peak_memory_snapshot().blocks) {
    modules[block.module][block.kind] += block.bytes;
    all[block.kind] += block.bytes;
  }
  CHECK(all == ahbm.memory_stats().peak);
  CHECK(all.sum() == ahbm.max_memory_allocated());
  for (const char* path : {"0", "2"}) {
    INFO(path);
    CHECK(modules[path][MemoryKind::parameter] == kMatrix);
    CHECK(modules[path][MemoryKind::optimizer_state] == 2 * kMatrix);
  }
  CHECK_THAT(ahbm.memory_summary(),
             Catch::Contains("the most, by module and kind:\n  32768 B: 0 optimizer_state\n"));
}

}  // namespace
}  // namespace kernbench::test::memory_kinds_test
