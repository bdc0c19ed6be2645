#include "runtime/testing/machine_parts.h"

#include <array>

namespace kernbench::testing {

namespace {

void lengthen(Time& time, std::uint64_t thousandths) {
  time += Time{time.count() * static_cast<std::int64_t>(thousandths) / 1000};
}

template <class Unit>
void lower(Rate<Unit>& rate, std::uint64_t thousandths) {
  if (!rate.is_unlimited()) {
    rate.per_second = rate.per_second / static_cast<std::int64_t>(1000 + thousandths) * 1000;
  }
}

struct MachinePart {
  std::string_view name;
  void (*slow)(Topology& topology, std::uint64_t thousandths);
};

constexpr std::array<MachinePart, kMachinePartCount> kParts = {{
    {"the latency of links between devices",
     [](Topology& t, std::uint64_t by) { lengthen(t.system.sip_link.latency, by); }},
    {"the bandwidth of links between devices",
     [](Topology& t, std::uint64_t by) { lower(t.system.sip_link.bandwidth, by); }},
    {"the way from the host",
     [](Topology& t, std::uint64_t by) { lengthen(t.system.host_link.latency, by); }},
    {"the host's issue of launches",
     [](Topology& t, std::uint64_t by) { lengthen(t.system.host_issue, by); }},
    {"the latency of links between cubes",
     [](Topology& t, std::uint64_t by) { lengthen(t.sip.ucie.latency, by); }},
    {"the latency of a cube's network",
     [](Topology& t, std::uint64_t by) { lengthen(t.cube.noc.latency, by); }},
    {"the bandwidth of HBM",
     [](Topology& t, std::uint64_t by) { lower(t.cube.hbm.bandwidth, by); }},
    {"PE_DMA's setup", [](Topology& t, std::uint64_t by) { lengthen(t.pe.dma_setup, by); }},
    {"the clock of PE_MATH", [](Topology& t, std::uint64_t by) { lower(t.pe.math_clock, by); }},
}};

}  // namespace

std::string_view name_of_part(std::uint64_t part) {
  return part < kParts.size() ? kParts[part].name : std::string_view("a part that is not known");
}

void slow_down(Topology& topology, std::uint64_t part, std::uint64_t thousandths) {
  if (part < kParts.size()) kParts[part].slow(topology, thousandths);
}

}  // namespace kernbench::testing
