// The ranks of a bench that begin together, and the time and the link bytes that they take.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/torch/profiler.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches::train {

// Runs Rank(torch, input, rank).run() on each of input.ranks ranks, and returns what they return as
// `ranks`, with the `time` from the last one's begin to the last one's end and the `link_bytes`
// between SIPs.  The making of a Rank is not timed.  Profiles speak of this part of the run, and
// energy is counted of it alone.
template <class Measured, class Rank, class Input>
Measured run_timed_ranks(RuntimeContext& torch, const Input& input, std::string_view name) {
  Measured measured;
  measured.ranks.resize(static_cast<std::size_t>(input.ranks));
  Time begin{0};
  torch.distributed.init_process_group("ahbm");
  const auto link_bytes = [&] { return torch.engine().energy().of(EnergyUnit::sip_link).amount; };
  std::int64_t bytes_before = 0;
  run_on_devices(torch, input.ranks, [&](int rank) {
    Rank own(torch, input, rank);
    torch.ahbm.synchronize();
    torch.distributed.barrier();
    begin = torch.engine().now();
    bytes_before = link_bytes();
    measured.ranks[static_cast<std::size_t>(rank)] = own.run();
    measured.time = std::max(measured.time, torch.engine().now());
  });
  measured.link_bytes = link_bytes() - bytes_before;
  profiler::timed(torch, name, begin, measured.time);
  measured.time -= begin;
  torch.distributed.destroy_process_group();
  return measured;
}

}  // namespace kernbench::benches::train
