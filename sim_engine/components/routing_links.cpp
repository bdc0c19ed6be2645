// A link's number tells its class, its unit of energy, its name, and the link that is simulated for
// it.

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "sim_engine/components/routing.h"

namespace kernbench::sim {

bool Routing::is_hbm(LinkId link) const {
  return find_class(link) == UnitClass::hbm;
}

bool Routing::is_there(LinkId link) const {
  return find_class(link) != UnitClass::link || spec(link).costs_time();
}

UnitClass Routing::find_class(LinkId link) const {
  if (link >= core_link()) return UnitClass::link;
  const LinkId in_sip = link % per_sip_;
  if (in_sip < kIoOut) return UnitClass::host;
  if (in_sip < cubes_at_) return UnitClass::link;
  const LinkId in_cube = (in_sip - cubes_at_) % per_cube_;
  if (in_cube < kSram) return UnitClass::ucie;
  if (in_cube < kCorners) return UnitClass::sram;
  if (in_cube < hbm_at_) return UnitClass::noc;
  if (in_cube < pes_at_) return UnitClass::hbm;
  const LinkId in_pe = (in_cube - pes_at_) % kPerPe;
  return in_pe < kTcmRead ? UnitClass::noc : UnitClass::tcm;
}

std::optional<EnergyUnit> Routing::find_energy_unit(LinkId link) const {
  const UnitClass unit_class = find_class(link);
  const bool is_inner = link < core_link() && link % per_sip_ >= cubes_at_;
  const LinkId in_sip = link % per_sip_;
  switch (unit_class) {
    case UnitClass::host:
      return EnergyUnit::host_link;
    case UnitClass::link:
      if (link >= core_link() || in_sip < kSipOut) return std::nullopt;
      return EnergyUnit::sip_link;
    case UnitClass::ucie:
      return EnergyUnit::ucie;
    case UnitClass::sram:
      return EnergyUnit::sram;
    case UnitClass::hbm:
      return EnergyUnit::hbm;
    case UnitClass::tcm:
      return EnergyUnit::tcm;
    case UnitClass::noc:
      if (is_inner && (in_sip - cubes_at_) % per_cube_ < hbm_at_) return std::nullopt;
      return EnergyUnit::noc;
    default:
      return std::nullopt;
  }
}

std::string Routing::name(LinkId link) const {
  constexpr std::array<std::string_view, kPerPe> kPeLinks = {"noc.out", "noc.in", "tcm.read",
                                                             "tcm.write"};
  if (link >= core_link()) {
    const LinkId node = (link - core_link()) / kSwitchLinks;
    const std::string_view part = (link - core_link()) % kSwitchLinks == kCore ? "core" : "sums";
    return sips_.has_nodes() ? fmt::format("node{}.switch.{}", node, part)
                             : fmt::format("switch.{}", part);
  }
  constexpr std::array<std::string_view, kSipOut> kSipLinks = {".host.down", ".host.up", ".io.out",
                                                               ".io.in"};
  const LinkId in_sip = link % per_sip_;
  const std::string sip = fmt::format("sip{}", sip_of(link));
  if (in_sip < kSipOut) return fmt::format("{}{}", sip, kSipLinks.at(in_sip));
  if (in_sip < cubes_at_) {
    const int parallel = topology_.system.links_per_pair;
    const int number = static_cast<int>(in_sip - kSipOut);
    const std::string name = fmt::format("{}.link.{}", sip, sips_.name_of_link(number / parallel));
    return parallel == 1 ? name : fmt::format("{}[{}]", name, number % parallel);
  }
  const std::string cube = fmt::format("{}.cube{}", sip, (in_sip - cubes_at_) / per_cube_);
  const LinkId in_cube = (in_sip - cubes_at_) % per_cube_;
  if (in_cube < kToIo) {
    return fmt::format("{}.ucie.{}", cube, name_of(static_cast<Compass>(in_cube)));
  }
  if (in_cube < kSram) return cube + (in_cube == kToIo ? ".ucie.to_io" : ".ucie.from_io");
  if (in_cube < kCorners) return cube + ".sram";
  if (in_cube < hbm_at_) {
    const LinkId in_corners = in_cube - kCorners;
    return fmt::format("{}.{}.{}", cube, topology_.cube.corners[in_corners / kPerCorner],
                       in_corners % kPerCorner == kCornerOut ? "out" : "in");
  }
  if (in_cube < pes_at_) return fmt::format("{}.hbm{}", cube, in_cube - hbm_at_);
  const LinkId in_pes = in_cube - pes_at_;
  return fmt::format("{}.pe{}.{}", cube, in_pes / kPerPe, kPeLinks.at(in_pes % kPerPe));
}

LinkId Routing::shift(LinkId link, const Folding& folding) const {
  if (link >= core_link()) {  // of a node's switch, or of the only one
    const LinkId number = link - core_link();
    const int node = static_cast<int>(number / kSwitchLinks);
    const int first = folding.first_of(node * sips_.sips_in_node());
    return core_link() + static_cast<LinkId>(sips_.node_of(first)) * kSwitchLinks +
           number % kSwitchLinks;
  }
  const int sip = sip_of(link);
  const LinkId in_sip = link % per_sip_;
  if (in_sip < kSipOut || in_sip >= cubes_at_) return sip_link(folding.first_of(sip), in_sip);
  const auto parallel = static_cast<LinkId>(topology_.system.links_per_pair);
  const int number = static_cast<int>((in_sip - kSipOut) / parallel);
  const SipNetwork::Link first = folding.shift(SipNetwork::Link{sip, number});
  return sip_link(first.sip, kSipOut + static_cast<LinkId>(first.number) * parallel +
                                 (in_sip - kSipOut) % parallel);
}

}  // namespace kernbench::sim
