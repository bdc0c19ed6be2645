#include "sim_engine/components/machine_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/values/data_executor.h"
#include "sim_engine/values/element_format.h"
#include "sim_engine/values/transcendental.h"

namespace kernbench::sim {

namespace {

using Kind = Fault::Kind;

constexpr Wide kWholeShare = Share::kWhole;

Time scaled(Time time, std::int64_t millionths) {
  return Time{
      static_cast<std::int64_t>((Wide{time.count()} * millionths + kWholeShare - 1) / kWholeShare)};
}

// Mixes 64 bits (splitmix64 of Steele, Lea and Flood, 2014).
std::uint64_t mixed(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// A normal number of mean 0 and variance 1, by Box and Muller's method: the same bits on every
// host.
float draw_normal(std::uint64_t seed) {
  constexpr float kTwoPi = 6.2831853F;
  constexpr float kUnit = 1.0F / (1 << 24);
  const std::uint64_t bits = mixed(seed);
  float radius = (static_cast<float>(bits >> 40) + 1) * kUnit;  // above 0
  float angle = kTwoPi * kUnit * static_cast<float>(bits & 0xffffff);
  log_elements(&radius, &radius, 1);
  radius *= -2;
  sqrt_elements(&radius, &radius, 1);
  cos_elements(&angle, &angle, 1);
  return radius * angle;
}

// In millionths.
std::int64_t draw_factor(const Fault& fault, std::int64_t sip, std::int64_t kernel) {
  const std::uint64_t rank = mixed(fault.seed) ^ static_cast<std::uint64_t>(sip);
  const float z = draw_normal(mixed(rank) ^ static_cast<std::uint64_t>(kernel));
  float deviation = z * static_cast<float>(fault.sigma.millionths) / Share::kWhole;
  if (fault.noise == Fault::Noise::lognormal) {
    exp_elements(&deviation, &deviation, 1);
    deviation -= 1;
  }
  return std::max<std::int64_t>(Share::kWhole + std::lround(deviation * Share::kWhole), 0);
}

// The name without "[2]" and without ".link".
std::string short_name(std::string name) {
  name = name.substr(0, name.find('['));
  const std::size_t link = name.find(".link.");
  return link == std::string::npos ? name : name.erase(link, std::string_view(".link").size());
}

bool is_meant(const std::string& given, const std::string& name) {
  return given == name || given == name.substr(0, name.find('[')) || given == short_name(name);
}

// The stretch of the least share among those that overlap this time; null if none does.
const SlowStretch* find_least(const std::vector<SlowStretch>& stretches, Time start, Time end) {
  const SlowStretch* least = nullptr;
  for (const SlowStretch& stretch : stretches) {
    const bool overlaps = start < stretch.to && (start >= stretch.from || end > stretch.from);
    if (overlaps && (least == nullptr || stretch.share.millionths < least->share.millionths)) {
      least = &stretch;
    }
  }
  return least;
}

}  // namespace

Time slowed_time(Time start, Time alone, const std::vector<SlowStretch>& stretches) {
  Wide left = alone.count() * kWholeShare;
  Time now = start;
  while (true) {
    Wide share = kWholeShare;
    Time next = Time::max();
    for (const SlowStretch& stretch : stretches) {
      if (stretch.share.millionths == 0) continue;
      if (stretch.from > now) next = std::min(next, stretch.from);
      if (stretch.from > now || stretch.to <= now) continue;
      share = std::min<Wide>(share, stretch.share.millionths);
      next = std::min(next, stretch.to);
    }
    const Wide done = (next - now).count() * share;
    if (left <= done) {
      return now - start + Time{static_cast<std::int64_t>((left + share - 1) / share)};
    }
    left -= done;
    now = next;
  }
}

std::unique_ptr<MachineFaults> MachineFaults::make(const Topology& topology,
                                                   const Routing& routing) {
  if (topology.faults.empty()) return nullptr;
  std::unique_ptr<MachineFaults> faults(new MachineFaults(topology));
  const int pes = topology.system.sip_count * topology.cube_count() * topology.pe_count();
  faults->pes_.resize(static_cast<std::size_t>(pes));
  for (std::size_t i = 0; i < topology.faults.size(); ++i) faults->add(i, routing);
  return faults;
}

void check_faults(const Topology& topology) {
  if (!topology.faults.empty()) MachineFaults::make(topology, Routing(topology));
}

void MachineFaults::add(std::size_t number, const Routing& routing) {
  const Fault& given = fault(number);
  effects_.push_back({.fault = given.text, .is_flip = given.kind == Kind::flip});
  switch (given.kind) {
    case Kind::bandwidth:
    case Kind::dead:
      return add_link(number, routing);
    case Kind::clock:
      return add_pes(number);
    case Kind::noise:
      has_noise_ = true;
      if (given.rank != Fault::kAllRanks) check_rank(number);
      return;
    default:
      check_rank(number);
      ranks_.try_emplace(given.rank);
  }
}

void MachineFaults::refuse(const Fault& fault, std::string_view what, const std::string& name,
                           const std::vector<std::string>& names) const {
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string_view near = nearest(name, candidates);
  const auto like = std::ranges::max_element(candidates, {}, [&](std::string_view candidate) {
    return std::ranges::mismatch(candidate, name).in1 - candidate.begin();
  });
  throw ConfigError("KB-Y051", "fault '{}': topology '{}' has no {} {}; {}", shown(fault.text),
                    topology_.name, what, in_quotes(name),
                    near.empty() ? fmt::format("there is '{}'", *like)
                                 : fmt::format("did you mean '{}'?", near));
}

void MachineFaults::add_link(std::size_t number, const Routing& routing) {
  const Fault& given = fault(number);
  std::vector<std::string> names;
  bool is_found = false;
  for (LinkId link = 0; link < routing.link_count(); ++link) {
    if (!routing.is_there(link)) continue;
    const std::string name = routing.name(link);
    names.push_back(name);
    if (name != given.link) names.push_back(short_name(name));
    if (!is_meant(given.link, name)) continue;
    const Share share = given.kind == Kind::dead ? Share{0} : given.share;
    links_[link].push_back({given.from, given.to, share, number});
    is_found = true;
  }
  if (!is_found && !given.may_lack_part) refuse(given, "link", given.link, names);
}

void MachineFaults::add_pes(std::size_t number) {
  const Fault& given = fault(number);
  if (given.pe.empty()) check_rank(number);
  const std::string part = given.pe.empty() ? fmt::format("sip{}", given.rank) : given.pe;
  std::vector<std::string> names;
  bool is_found = false;
  for (int sip = 0; sip < topology_.system.sip_count; ++sip) {
    for (int cube = 0; cube < topology_.cube_count(); ++cube) {
      for (int pe = 0; pe < topology_.pe_count(); ++pe) {
        const PeLocation at{sip, cube, pe};
        const std::string name = to_string(at);
        names.push_back(name);
        if (name != part && !name.starts_with(part + '.')) continue;
        state_of(at).stretches.push_back({given.from, given.to, given.share, number});
        is_found = true;
      }
    }
  }
  if (!is_found && !given.may_lack_part) refuse(given, "PE", part, names);
}

// Ranks are SIPs.
void MachineFaults::check_rank(std::size_t number) const {
  const Fault& given = fault(number);
  const int count = topology_.system.sip_count;
  if (given.rank < count || given.may_lack_part) return;
  throw ConfigError("KB-Y051", "fault '{}': topology '{}' has no rank {}; its ranks are 0 to {}",
                    shown(given.text), topology_.name, given.rank, count - 1);
}

void MachineFaults::note(std::size_t number, Time now, Time added, std::string detail) {
  FaultEffect& effect = effects_[number];
  if (effect.count++ == 0) {
    effect.first = now;
    effect.detail = std::move(detail);
  }
  effect.added += added;
}

Time MachineFaults::occupied_time(LinkId link, Time start, Time alone) const {
  return slowed_time(start, alone, links_.at(link));
}

bool MachineFaults::pass(LinkId link, const Path& path, Bytes bytes, Time start, Time alone) {
  const Time occupied = occupied_time(link, start, alone);
  const SlowStretch* const least = find_least(links_.at(link), start, start + occupied);
  if (least == nullptr) return false;
  const bool is_dead = least->share.millionths == 0;
  if (is_dead) {
    note(least->fault, start, Time{0},
         fmt::format("{} B from sip{} to sip{} are lost", bytes, path.from_sip, path.to_sip));
  } else if (occupied > alone) {
    note(least->fault, start, occupied - alone, "");
  }
  return is_dead;
}

Time MachineFaults::computing_time(const PeLocation& pe, bool is_of_collective, Time start,
                                   Time alone) {
  const PeState& state = state_of(pe);
  Time time = alone;
  for (const Noise& noise : state.noises) {
    if (is_of_collective) break;
    const Time without = std::exchange(time, scaled(time, noise.factor));
    note(noise.fault, start, time - without, "");
  }
  const Time slowed = slowed_time(start, time, state.stretches);
  if (slowed > time) {
    note(find_least(state.stretches, start, start + slowed)->fault, start, slowed - time, "");
  }
  return slowed;
}

void MachineFaults::begin_kernel(const PeLocation& pe) {
  if (!has_noise_) return;
  PeState& state = state_of(pe);
  ++state.kernels;
  state.noises.clear();
  for (std::size_t i = 0; i < topology_.faults.size(); ++i) {
    const Fault& given = fault(i);
    const bool is_of_rank = given.rank == Fault::kAllRanks || given.rank == pe.sip;
    if (given.kind != Kind::noise || !is_of_rank) continue;
    state.noises.push_back({draw_factor(given, pe.sip, state.kernels), i});
  }
}

Time MachineFaults::start_delay(int rank) {
  Time delay{0};
  for (std::size_t i = 0; i < topology_.faults.size(); ++i) {
    if (fault(i).kind != Kind::start || fault(i).rank != rank) continue;
    delay += fault(i).from;
    note(i, Time{0}, fault(i).from, "");
  }
  return delay;
}

std::optional<Time> MachineFaults::find_death(int rank) const {
  std::optional<Time> death;
  for (const Fault& given : topology_.faults) {
    if (given.kind != Kind::dies || given.rank != rank) continue;
    death = std::min(death.value_or(Time::max()), given.from);
  }
  return death;
}

std::optional<Time> MachineFaults::find_detection(int rank) const {
  std::optional<Time> detection;
  for (const Fault& given : topology_.faults) {
    const bool is_known = given.kind == Kind::dies && given.detected < Time::max();
    if (!is_known || given.rank != rank) continue;
    detection = std::min(detection.value_or(Time::max()), given.from + given.detected);
  }
  return detection;
}

void MachineFaults::note_deaths(Time now) {
  for (std::size_t i = 0; i < topology_.faults.size(); ++i) {
    const bool is_new = effects_[i].count == 0 && fault(i).from <= now;
    if (fault(i).kind != Kind::dies || !is_new) continue;
    note(i, fault(i).from, Time{0},
         fmt::format("rank {} does nothing from then on", fault(i).rank));
  }
}

bool MachineFaults::deliver(const PeLocation& from, const PeLocation& to, IpcqMessage& message,
                            Time now, MemoryStore& memory) {
  const auto found = ranks_.find(from.sip);
  if (from.sip == to.sip || found == ranks_.end()) return true;
  RankState& rank = found->second;
  const std::int64_t of_all = ++rank.messages;
  std::int64_t collective = 0;
  std::int64_t of_collective = 0;
  if (message.operation.is_collective) {
    const auto next = std::ssize(rank.collectives) + 1;
    collective = rank.collectives.try_emplace(message.operation.number, next).first->second;
    of_collective = ++rank.messages_of[collective];
  }
  for (std::size_t i = 0; i < topology_.faults.size(); ++i) {
    const Fault& given = fault(i);
    const bool is_of_rank = given.rank == from.sip && given.message > 0;
    const bool is_this = given.collective == 0
                             ? given.message == of_all
                             : given.collective == collective && given.message == of_collective;
    if (!is_of_rank || !is_this) continue;
    if (given.kind == Kind::drop) {
      note(i, now, Time{0},
           fmt::format("{} B from {} to {} are lost", message.bytes, to_string(from),
                       to_string(to)));
      return false;
    }
    message.value = flip(i, message.value, now, memory,
                         fmt::format("from {} to {}", to_string(from), to_string(to)));
  }
  return true;
}

Value MachineFaults::stored(const PeLocation& pe, const Value& value, Time now,
                            MemoryStore& memory) {
  const auto found = ranks_.find(pe.sip);
  if (found == ranks_.end()) return value;
  const std::int64_t number = ++found->second.results;
  Value result = value;
  for (std::size_t i = 0; i < topology_.faults.size(); ++i) {
    const Fault& given = fault(i);
    if (given.rank != pe.sip || given.result != number) continue;
    result = flip(i, result, now, memory, fmt::format("that {} stores", to_string(pe)));
  }
  return result;
}

namespace {

template <class Number>
Value flipped_element(MemoryStore& memory, const Value& element, int bit) {
  std::array<Number, 1> number{};
  DataExecutor(memory, 1).read(element, number);
  std::array<std::byte, 8> bytes{};
  encode(element.dtype(), std::span<const Number>(number), bytes.data());
  bytes[static_cast<std::size_t>(bit / 8)] ^= std::byte{1} << (bit % 8);
  decode(element.dtype(), bytes.data(), std::span<Number>(number));
  return memory.literal(element.dtype(), std::span<const Number>(number));
}

}  // namespace

// The element is computed now, since no operation of the device's flips a bit.
Value MachineFaults::flip(std::size_t number, const Value& value, Time now, MemoryStore& memory,
                          const std::string& where) {
  const auto& [bit, element] = std::pair(fault(number).bit, fault(number).element);
  const std::int64_t count = value.element_count();
  const auto bits = 8 * size_of(value.dtype());
  FaultEffect& effect = effects_[number];
  if (element >= count || bit >= bits || !memory.has_data()) {
    effect.detail = !memory.has_data()
                        ? "the run computes no values"
                        : fmt::format("{} elements of {} bits {}", count, bits, where);
    return value;
  }
  const Value old = memory.slice(value, element, 1);
  std::vector<Value> parts;
  if (element > 0) parts.push_back(memory.slice(value, 0, element));
  parts.push_back(is_integral(value.dtype()) ? flipped_element<std::int64_t>(memory, old, bit)
                                             : flipped_element<float>(memory, old, bit));
  if (element + 1 < count) parts.push_back(memory.slice(value, element + 1, count - element - 1));
  note(number, now, Time{0},
       fmt::format("in {} elements of {} {}", count, name_of(value.dtype()), where));
  return memory.concat(parts);
}

}  // namespace kernbench::sim
