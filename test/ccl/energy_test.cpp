// The energy of what a program times: its work, times what each piece takes.

#include "runtime/profiler/energy.h"

#include <catch2/catch.hpp>

#include "ccl/core/config.h"
#include "runtime/torch/profiler.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/ccl/ring_with_array.h"

namespace kernbench::test::energy_test {
namespace {

Topology with_energy(Topology topology) {
  topology.energy[EnergyUnit::gemm_f32] = 700;
  topology.energy[EnergyUnit::sip_link] = 11;
  return topology;
}

void multiply_until_done(RuntimeContext& torch, const Tensor& x, std::int64_t n) {
  torch.launch("multiply", multiply, x, n);
  torch.ahbm.synchronize();
}

// An all_reduce of `count` f32 on each of 4 ranks of a ring, of the algorithm `ring_allreduce`.
runtime::EnergyUse energy_of_all_reduce(const Topology& topology, std::int64_t count) {
  RuntimeContext torch(topology,
                       {.ccl = ccl::Config().with_algorithm("ring_allreduce"), .energy = true});
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, 4, [&](int) {
    const Tensor x = torch.zeros({count}, {.dp = DPPolicy::on_one_pe()});
    torch.distributed.all_reduce(x);
  });
  torch.distributed.destroy_process_group();
  return torch.engine().energy();
}

TEST_CASE("the energy is of what is timed: each FLOP of it, and no other", "[ccl][energy]") {
  RuntimeContext torch(with_energy(ring_with_array(2)), {.energy = true});
  const Tensor x = torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
  multiply_until_done(torch, x, 512);
  CHECK(torch.engine().energy().of(EnergyUnit::gemm_f32).amount == 2LL * 512 * 512 * 512);
  for (const std::int64_t n : {64, 128}) {
    const Time begin = torch.engine().now();
    multiply_until_done(torch, x, n);
    profiler::timed(torch, "product", begin, torch.engine().now());
    multiply_until_done(torch, x, 256);  // begins at the instant at which the part ends
  }
  const runtime::EnergyUse energy = torch.engine().energy();
  const std::int64_t flops = 2 * (64 * 64 * 64 + 128 * 128 * 128);
  CHECK(energy.of(EnergyUnit::gemm_f32).amount == flops);
  CHECK(energy.femtojoules() == Wide{flops} * 700);
  CHECK(energy.time == time_of_product(64) + time_of_product(128));
  CHECK(energy.watts() == Approx(static_cast<double>(flops) * 700e-15 /
                                 (static_cast<double>(energy.time.count()) * 1e-12)));
  CHECK_FALSE(energy.of(EnergyUnit::hbm).is_counted);
}

// Each of 4 ranks sends 2 (4 - 1) chunks of a quarter, each over one link.
TEST_CASE("the energy of links is that of the bytes of an all_reduce, however fast they are",
          "[ccl][energy]") {
  const Topology topology = with_energy(ring_with_array(4));
  const runtime::EnergyUse energy = energy_of_all_reduce(topology, 4096);
  const std::int64_t bytes = 4 * 2 * 3 * (4096 * 4 / 4);
  CHECK(energy.of(EnergyUnit::sip_link).amount == bytes);
  CHECK(energy.of(EnergyUnit::sip_link) == runtime::UnitEnergy{true, bytes, Wide{bytes} * 11});
  Topology twice = topology;
  twice.energy[EnergyUnit::sip_link] = 22;
  CHECK(energy_of_all_reduce(twice, 4096).femtojoules() == 2 * energy.femtojoules());
  Topology fast = topology;
  fast.system.sip_link.bandwidth = Bandwidth{2 * topology.system.sip_link.bandwidth.per_second};
  const runtime::EnergyUse faster = energy_of_all_reduce(fast, 4096);
  CHECK(faster.units == energy.units);
  CHECK(faster.time < energy.time);
}

TEST_CASE("a run that does not ask counts nothing", "[ccl][energy]") {
  RuntimeContext torch(with_energy(ring_with_array(2)));
  const Tensor x = torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
  multiply_until_done(torch, x, 64);
  CHECK(torch.engine().energy() == runtime::EnergyUse{});
}

}  // namespace
}  // namespace kernbench::test::energy_test
