// Programs that run on both backends, at several sizes and topologies, to meet what is under way
// (ADR-0151).

#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "runtime/distributed/local_backend.h"
#include "runtime/torch/run_ranks.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::under_way {

// The context of the ranks, and the size of their tensors.
struct Ranks {
  RuntimeContext torch;
  const int size = torch.topology().system.sip_count;
  const std::int64_t n;
  distributed::DistributedContext& dist = torch.distributed;

  Ranks(const Topology& topology, const std::string& backend, std::int64_t elements)
      : torch(topology), n(elements) {
    dist.init_process_group(backend);
  }

  Tensor full(double value) const { return torch.full({n}, value, {.dp = DPPolicy::on_one_pe()}); }
  Tensor host(float value) const {
    return RuntimeContext::tensor(std::vector<float>(static_cast<std::size_t>(n), value), {n});
  }
  // Stores 9 in the first element.
  void store_nine(const Tensor& x) {
    torch.launch(
        "store_nine",
        [](tl::Context& tl, tl::Pointer p) { tl.store(p, tl.full({1}, 9, DType::f32)); }, x);
  }
};

// The first element, and the last, which arrives last.
inline int first_of(const Tensor& x) {
  return static_cast<int>(x.at({0}));
}
inline int last_of(const Tensor& x) {
  return static_cast<int>(x.at({x.numel() - 1}));
}

// Runs `program` on each rank of `ranks` devices, in a row and, if there are four, on a torus.
inline void everywhere(int ranks, const std::function<void(Ranks&, int)>& program) {
  std::vector<Topology> topologies = {round_topology(SipTopology::ring_1d, ranks),
                                      link_topology(SipTopology::ring_1d, ranks)};
  if (ranks == 4) topologies.push_back(round_topology(SipTopology::torus_2d, 2, 2, 2));
  for (const Topology& topology : topologies) {
    for (const std::string backend : {"local", "ahbm"}) {
      for (const std::int64_t n : {1, 7, 4'096, 65'536, 100'000}) {
        CAPTURE(topology.name, backend, n);
        Ranks world(topology, backend, n);
        run_on_devices(world.torch, ranks, [&](int rank) { program(world, rank); });
      }
    }
  }
}

}  // namespace kernbench::test::under_way
