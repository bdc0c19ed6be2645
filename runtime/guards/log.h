// KERNBENCH_LOG: prints one line per event on standard error, for the selected topics.

#pragma once

#include <cstdint>
#include <string_view>

#include "sim_engine/base/units.h"

namespace kernbench::runtime {

enum class LogTopic : std::uint8_t {
  distributed,  // collectives and messages: issued, started, completed
  ccl,          // the algorithm that a collective runs
  fiber,        // ranks and kernels: begins, waits, ends
  launch,       // kernels on PEs
};

class Log {
 public:
  // `wanted` is the value of KERNBENCH_LOG: topic names separated by commas, or "all"; null
  // selects none.
  // Throws UsageError KB-U013 for another name.
  explicit Log(const char* wanted);

  bool is_on(LogTopic topic) const { return (topics_ >> static_cast<unsigned>(topic) & 1) != 0; }

  // "kernbench: 255.4 ns: distributed: rank 1: all_reduce#0 at ddp.cpp:41 issued"
  static void print(LogTopic topic, Time now, std::string_view who, std::string_view what);

 private:
  unsigned topics_ = 0;  // one bit per topic
};

}  // namespace kernbench::runtime
