// The time of a training step of a language model, by the way in which ranks share it.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "benches/bench/bench.h"
#include "benches/ddp/measured_step.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::stragglers {

enum class Sharing : std::uint8_t { ddp, zero1, fsdp2, tp };
inline constexpr std::array kSharings = {Sharing::ddp, Sharing::zero1, Sharing::fsdp2, Sharing::tp};
std::string_view name_of(Sharing sharing);

struct SchemeInput {
  Sharing sharing = Sharing::ddp;
  ddp::StepInput model = {};  // of tp: its size, type and ranks
  int tp_pes = 1;             // of each SIP, for tp
};

// The time from the first rank's begin to the last one's end.  The machine has as many SIPs as
// there are ranks.
Time step_time(PointContext& point, const SchemeInput& input, const Topology& topology);

}  // namespace kernbench::benches::stragglers
