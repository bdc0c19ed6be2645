// The flight recorder of a context: it keeps each rank's last calls, and is always on.
//
// Each rank has a ring of its last 2,000 collectives and messages.  Entries are copied into place:
// nothing is allocated once a ring is full, and a rank that calls nothing has no ring.  When a run
// fails, the record is written as one file for all ranks (ProcessGuard and spawn() say when).

#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/shape.h"
#include "sim_engine/base/units.h"

namespace kernbench::runtime {

struct FlightEvent {
  enum class State : std::uint8_t { issued, started, completed };

  std::string_view function;  // a literal, as are all names below
  std::source_location location = {};
  int group = 0;               // its number: 0 is the default group
  std::int64_t sequence = -1;  // of a collective: its number in the group
  int peer = -1;               // of a message: global rank; -1: any
  int tag = 0;                 // of a message
  int root = -1;               // global rank
  std::string_view reduce_op = {};
  std::string_view algorithm = {};  // set when the collective starts; empty: none
  bool has_tensor = false;
  bool is_async = false;
  State state = State::issued;
  DType dtype = DType::f32;
  Shape shape = {};
  Time issued{0};
  Time started{0};    // set once it has started
  Time completed{0};  // set once it has completed
};

class FlightRecorder {
 public:
  static constexpr std::size_t kCapacity = 2000;

  // Numbers the events of one rank: 0, 1, ...
  using Id = std::uint64_t;

  // `wanted` is the value of KERNBENCH_FLIGHT_RECORDER.  A folder receives the record of each
  // failing spawn(); "off" disables it; null writes to the current folder, if the failure ends the
  // process.
  explicit FlightRecorder(const char* wanted);

  Id issue(int rank, const FlightEvent& event);
  void start(int rank, Id id, Time now);
  void complete(int rank, Id id, Time now);
  void runs_by(int rank, Id id, std::string_view algorithm);
  // Drops all events: a new run begins.
  void clear();

  // Returns the rank's last events, the oldest first.
  std::vector<FlightEvent> events(int rank) const;

  // Notes that the run failed with an error of this code, and writes the record if a folder is
  // wanted.  The folder is made if it is missing.
  void failed(std::string_view code, Time now);
  bool has_failed_with(std::string_view code) const { return code == failure_; }

  // Writes kb-fr-<code>.json into the wanted folder, else into the current one, completely or not
  // at all, and reports that on standard error.  Async-signal-safe.
  void write(std::string_view code, Time now) const noexcept;

 private:
  struct Ring {
    std::vector<FlightEvent> events;
    Id count = 0;  // events issued so far
  };

  FlightEvent* find(int rank, Id id);

  bool is_off_ = false;
  std::string folder_;       // empty: the current folder
  std::string failure_;      // code of the last failure
  std::vector<Ring> rings_;  // by rank
};

}  // namespace kernbench::runtime
