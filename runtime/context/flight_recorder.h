// What each rank called last: the flight recorder of a context, always on.
//
// A ring of the last 2,000 collectives and messages per rank.  An entry is copied into its place:
// nothing is allocated once a ring has been filled, and a rank that calls nothing has none.  It is
// written when a run fails (ProcessGuard and spawn() say when), as one file for all ranks.

#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tensor/shape.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"

namespace kernbench::runtime {

struct FlightEvent {
  enum class State : std::uint8_t { issued, started, completed };

  std::string_view function;  // a literal, as are all names here
  std::source_location location = {};
  int group = 0;               // its number: 0 is the default group
  std::int64_t sequence = -1;  // of a collective in its group
  int peer = -1;               // of a message; -1: any
  int tag = 0;                 // likewise
  int root = -1;               // global rank
  std::string_view reduce_op = {};
  std::string_view algorithm = {};  // by which it runs, when it has started; empty: none
  bool has_tensor = false;
  bool is_async = false;
  State state = State::issued;
  DType dtype = DType::f32;
  Shape shape = {};
  Time issued{0};
  Time started{0};    // if it is, or has been
  Time completed{0};  // if it is
};

class FlightRecorder {
 public:
  static constexpr std::size_t kCapacity = 2000;

  // Of an event of one rank: 0, 1, ...
  using Id = std::uint64_t;

  // Where records of failures go: what KERNBENCH_FLIGHT_RECORDER says.  A folder, for each failing
  // spawn(); "off": nowhere; null: into the present folder, if the failure ends the process.
  explicit FlightRecorder(const char* wanted);

  Id issue(int rank, const FlightEvent& event);
  void start(int rank, Id id, Time now);
  void complete(int rank, Id id, Time now);
  void runs_by(int rank, Id id, std::string_view algorithm);
  // Drops all events: a new run begins.
  void clear();

  // Of a rank's last events, the oldest first.
  std::vector<FlightEvent> events(int rank) const;

  // The run failed, with an error of this code.  Writes the record if a folder is wanted.
  void failed(std::string_view code, Time now);
  bool has_failed_with(std::string_view code) const { return code == failure_; }

  // Writes kb-fr-<code>.json into the folder that is wanted, else into the present one, whole or
  // not at all, and says so on standard error.  Async-signal-safe.
  void write(std::string_view code, Time now) const noexcept;

 private:
  struct Ring {
    std::vector<FlightEvent> events;
    Id count = 0;  // that were issued
  };

  FlightEvent* find(int rank, Id id);

  bool is_off_ = false;
  std::string folder_;       // empty: the present one
  std::string failure_;      // the code of the last one
  std::vector<Ring> rings_;  // by rank
};

}  // namespace kernbench::runtime
