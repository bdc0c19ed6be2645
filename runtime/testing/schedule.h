// A schedule: the choices of a run that differ from the usual ones, as text KBS2.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kernbench::testing {

enum class ChoiceKind : std::uint8_t {
  tie,         // which of the events that are due; by the number of such choices so far
  aside,       // 1: receives from any rank are put aside, until nothing else can go on
  match,       // which of the senders such a receive gets; by the number of such choices so far
  start,       // how late a rank begins, in ps; by rank
  call,        // how much longer a call takes, in ps; by rank and number, as call_number()
  machine,     // how much slower a part of the machine is, in thousandths; by the part
  link_order,  // a seed of the order of what reaches a link at once
  depth,       // the depth of queues
};

struct Choice {
  ChoiceKind kind = ChoiceKind::tie;
  std::uint64_t number = 0;
  std::uint64_t value = 0;  // 0: as usual

  friend bool operator==(const Choice&, const Choice&) = default;
};

std::string to_text(const Choice& choice);  // "t4=2"

// In the order of the run.
using Schedule = std::vector<Choice>;

constexpr std::uint64_t call_number(int rank, std::uint64_t number) {
  return static_cast<std::uint64_t>(rank) << 32 | number;
}

constexpr std::uint64_t rank_of_call(std::uint64_t number) {
  return number >> 32;
}
constexpr std::uint64_t number_of_call(std::uint64_t number) {
  return number & 0xffffffff;
}

// A value of KERNBENCH_REPLAY: "KBS2:9f86d081:t4=2,s1=5000:1b2c", whose end is a checksum.
struct Replay {
  std::uint32_t program = 0;  // a hash of the usual run
  Schedule schedule = {};
};
std::string to_text(const Replay& replay);
// Throws UsageError KB-U030.
Replay parse_replay(std::string_view text);

// "rank 1 begins 5 ns later"; without the names of what a tie or match was between.
std::string describe(const Choice& choice);

}  // namespace kernbench::testing
