#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::sim {

std::string_view name_of(BufferKind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"tcm", "sram", "hbm"};
  return name_in(kNames, kind);
}

std::string_view name_of(WaitPolicy policy) {
  return policy == WaitPolicy::sleep ? "sleep" : "poll";
}

Time IpcqParams::noticed(Time began, Time there) const {
  if (there <= began) return began;
  if (wait == WaitPolicy::sleep) return there;
  const std::int64_t interval = poll_interval.count();
  const std::int64_t looks = ceil_divide((there - began).count(), interval);
  return began + looks * poll_interval;
}

}  // namespace kernbench::sim
