// KERNBENCH_LOG: one line per event on standard error, for those parts that one asks for.

#pragma once

#include <cstdint>
#include <string_view>

#include "sim_engine/base/units.h"

namespace kernbench::runtime {

enum class LogTopic : std::uint8_t {
  distributed,  // collectives and messages: issued, started, completed
  ccl,          // which algorithm a collective runs
  fiber,        // ranks and kernels: begins, waits, ends
  launch,       // kernels on PEs
};

class Log {
 public:
  // What KERNBENCH_LOG says: names of topics, with commas between, or all; null: none.
  // Throws UsageError KB-U013 for another name.
  explicit Log(const char* wanted);

  bool is_on(LogTopic topic) const { return (topics_ >> static_cast<unsigned>(topic) & 1) != 0; }

  // "kernbench: 255.4 ns: distributed: rank 1: all_reduce#0 at ddp.cpp:41 issued"
  static void print(LogTopic topic, Time now, std::string_view who, std::string_view what);

 private:
  unsigned topics_ = 0;  // bit by bit
};

}  // namespace kernbench::runtime
