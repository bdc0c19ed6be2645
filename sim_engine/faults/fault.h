// What goes wrong in a machine, as a user writes it: KEY=VALUE words, in any order.
//
//   link=sip0.link.east bandwidth=x0.25 from=10us to=1ms   a link has a quarter of its bandwidth
//   link=sip0.link.east dead=10us to=1ms                   it loses what is on it
//   pe=sip0.cube1 clock=x0.8 from=10us to=1ms              PE_GEMM and PE_MATH of these PEs
//   rank=3 clock=x0.8                                      those of all PEs of the rank's SIP
//   rank=3 compute=lognormal sigma=0.1 seed=7              each of its launches, at random
//   rank=3 start=+50us                                     its worker begins later
//   rank=3 dies=20us                                       its worker does nothing from then on
//   rank=3 dies=20us detected=+100us                       and 100 us later the others know of it
//   rank=3 drop=2 collective=5                             a message is lost
//   rank=3 flip=14 element=17 message=2 collective=5       a bit of one is flipped
//   rank=3 flip=14 element=17 result=2                     of what its kernels store
//
// Times are simulated ones; without `from` a fault is there from the beginning, without `to` for
// good.  Messages and results count from 1: the messages that leave the rank's SIP for another, in
// the order in which they arrive, of its so-manieth collective if one is named; and the tiles that
// its kernels store, without those of collectives.  Elements count from 0, and bits from the least
// significant one.  A fault of noise without a rank is of all;
// several of one rank multiply.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench {

struct Fault {
  enum class Kind : std::uint8_t { bandwidth, dead, clock, noise, start, dies, drop, flip };
  static constexpr int kAllRanks = -1;

  // The form of noise: with z normal, of mean 0 and variance 1, a launch takes 1 + sigma z of its
  // time, at least none, or e^(sigma z).
  enum class Noise : std::uint8_t { normal, lognormal };

  Kind kind = Kind::bandwidth;
  std::string text = {};  // as it is written, with one space between words
  std::string link = {};
  std::string pe = {};  // "sip0", "sip0.cube1" or "sip0.cube1.pe2"
  int rank = kAllRanks;
  Share share = {};  // of the bandwidth or of the clock that is left
  Time from{0};      // of dead, start and dies, their own time
  Time to = Time::max();
  Time detected = Time::max();  // how long after a death the other ranks know of it; max: never
  Noise noise = Noise::normal;
  Share sigma = {};
  std::uint64_t seed = 0;
  int bit = 0;
  std::int64_t element = 0;
  std::int64_t message = 0;     // 0: it is of results
  std::int64_t result = 0;      // 0: it is of messages
  std::int64_t collective = 0;  // 0: messages of all are counted
  // The machine may lack the part, since it is smaller than the one that the user described.
  bool may_lack_part = false;

  friend bool operator==(const Fault&, const Fault&) = default;
};

struct ParsedFault {
  Fault fault = {};
  std::string wrong = {};  // what is wrong, and what would be right; empty: nothing
};

ParsedFault parse_fault(std::string_view text);

// Lets faults stay on a machine that is a part of theirs.
void let_parts_be_lacking(std::vector<Fault>& faults);

// What a fault has done in a run.
struct FaultEffect {
  std::string fault = {};   // its text
  std::int64_t count = 0;   // messages, operations, flips, ...; 0: nothing
  Time added{0};            // by which what it slowed took longer, in sum
  Time first{0};            // when it did something first
  std::string detail = {};  // of the first time: "1024 B from sip0 to sip1"
  bool is_flip = false;

  friend bool operator==(const FaultEffect&, const FaultEffect&) = default;
};

// Adds effects of other runs to those of the same faults.
void add_effects(std::vector<FaultEffect>& sum, const std::vector<FaultEffect>& more);

// Adds the effects whose faults have none.
void add_missing_effects(std::vector<FaultEffect>& sum, const std::vector<FaultEffect>& more);

// "link=sip0.link.east bandwidth=x0.25: 14 times, the first at 10 us, 30.2 us in sum"
std::string describe(const FaultEffect& effect);

}  // namespace kernbench
