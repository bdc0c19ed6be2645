// What explores the schedules of a program is asked wherever any order is legal, and told what it
// needs to compare runs (runtime/testing/explore.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/fiber/function_ref.h"
#include "sim_engine/base/units.h"
#include "sim_engine/core/event_queue.h"
#include "sim_engine/values/value.h"

namespace kernbench::runtime {

class Simulation;

class ScheduleChoices : public sim::TieChooser {
 public:
  virtual ~ScheduleChoices() = default;

  // The run begins; the simulation outlives the choices that it asks for.
  virtual void begins(Simulation& simulation) = 0;
  // The seed of what the machine decides by order (Engine::tie_seed()); nullopt: as usual.
  virtual std::optional<std::uint64_t> link_seed() const = 0;
  // How much later than usual a rank begins, and how long its next call takes besides.
  virtual Time start_of(int rank) = 0;
  virtual Time delay_of_call(int rank) = 0;

  // True if a receive from any rank gets its message only when nothing else can go on; then
  // choose_match() says which of the senders it gets, of one or more ranks, ascending.
  virtual bool defers_matches() const = 0;
  virtual std::size_t choose_match(std::span<const int> senders) = 0;

  // The event that runs touches what ranks share.  Only orders of such events can matter.
  enum class Touch : std::uint8_t {
    gives,  // something is added: the order of two that give changes nothing
    takes,  // one of the things that were given is chosen
    reads,
    writes,
  };
  virtual void touches(std::uint64_t object, Touch how) = 0;

  // A rank sees something of an object that other schedules may show differently; what() says it.
  virtual void sees(std::uint64_t object, FunctionRef<std::string()> what) = 0;

  // A rank has a value, or elements, that must not depend on the schedule.  A rank's values of one
  // name have numbers that no schedule changes; its elements of one name are numbered as they come.
  virtual void observes(int rank, std::string_view what, std::uint64_t number,
                        const sim::Value& value) = 0;
  virtual void observes(int rank, std::string_view what, std::span<const float> elements) = 0;
};

// What ranks share is named by its kind and up to two numbers, which no schedule changes.
constexpr std::uint64_t shared_object(std::uint64_t kind, std::uint64_t first,
                                      std::uint64_t second = 0) {
  return (kind * 0x9e3779b97f4a7c15 ^ first) * 0xbf58476d1ce4e5b9 ^ second * 0x94d049bb133111eb;
}

}  // namespace kernbench::runtime
