// The choices of one run, and what is compared of it.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/fiber/fiber.h"
#include "runtime/simulation/schedule_choices.h"
#include "runtime/testing/explore.h"
#include "runtime/testing/schedule.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::testing {

// SplitMix64.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t drawn = state_ += 0x9e3779b97f4a7c15;
    drawn = (drawn ^ drawn >> 30) * 0xbf58476d1ce4e5b9;
    drawn = (drawn ^ drawn >> 27) * 0x94d049bb133111eb;
    return drawn ^ drawn >> 31;
  }
  std::uint64_t below(std::uint64_t count) { return count == 0 ? 0 : next() % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }

 private:
  std::uint64_t state_;
};

// What a rank has had at one place.  Ranks, places and numbers name it in every schedule.
struct Observation {
  int rank = 0;
  std::uint64_t place = 0;  // a hash of what it is and its number
  std::uint64_t bits = 0;   // a hash of the elements
  std::string what = {};    // these two are kept for reports alone
  std::vector<std::string> elements = {};
};

// The numbers of choices in the usual run, of which a drawn one knows them.
struct RunSize {
  std::uint64_t ties = 0;
  std::int64_t picoseconds = 0;
};

// What a rank has seen of an object that ranks share.
struct Sight {
  std::uint64_t object = 0;
  Time at{0};
  std::string text = {};
};

class RunChoices : public runtime::ScheduleChoices {
 public:
  // Takes a schedule's choices, and the usual ones elsewhere.
  RunChoices(const Schedule& schedule, bool keeps_text);
  // Draws all choices of the kinds of `options.vary`, or of some of these kinds.
  RunChoices(const ExploreOptions& options, const RunSize& usual, std::uint64_t seed);

  // Return the machine and the depth that were chosen before the run.
  Topology varied(Topology topology) const;
  int depth() const;  // of queues; 0: as usual

  // Evaluates what was observed.  REQUIRES: the simulation has not ended
  void end();

  const Schedule& taken() const { return taken_; }
  // A line for each choice of taken(), if text is kept.
  const std::vector<std::string>& described() const { return described_; }
  const std::vector<Observation>& observed() const { return observed_; }
  // In the order of the run, if text is kept.
  const std::vector<Sight>& seen() const { return seen_; }
  const RunSize& size() const { return size_; }
  std::uint64_t match_count() const { return matches_; }

  void begins(runtime::Simulation& simulation) override;
  std::optional<std::uint64_t> link_seed() const override;
  Time start_of(int rank) override;
  Time delay_of_call(int rank) override;
  bool defers_matches() const override;
  std::size_t choose_match(std::span<const int> senders) override;
  void touches(std::uint64_t, Touch) override {}
  void sees(std::uint64_t object, runtime::FunctionRef<std::string()> what) override;
  void observes(int rank, std::string_view what, std::uint64_t number,
                const sim::Value& value) override;
  void observes(int rank, std::string_view what, std::span<const float> elements) override;
  std::size_t choose(std::span<const Due> due) override;

 protected:
  // Records that the choice was made so; 0 is not recorded.
  void take(ChoiceKind kind, std::uint64_t number, std::uint64_t value);
  Time now() const;
  // Returns the value that the schedule has; 0 if none.
  std::uint64_t find(ChoiceKind kind, std::uint64_t number) const;
  void describe_tie(std::span<const Due> due, std::size_t chosen);

  bool keeps_text_ = false;
  std::uint64_t ties_ = 0;
  std::uint64_t matches_ = 0;

 private:
  void draw_kinds(const ExploreOptions& options, const RunSize& usual);
  void draw_machine(const ExploreOptions& options);
  void give(ChoiceKind kind, std::uint64_t number, std::uint64_t value);
  Observation& add(int rank, std::string_view what, std::uint64_t number);
  std::size_t draw_tie(std::span<const Due> due);
  std::uint64_t& priority_of(const Due& due);

  runtime::Simulation* simulation_ = nullptr;
  std::map<std::pair<ChoiceKind, std::uint64_t>, std::uint64_t> given_;
  std::optional<Draws> draws_;  // nullopt: it takes what is given
  struct Drawn {
    bool ties = false;
    bool by_priority = false;  // a rank goes on as long as no rank of a higher priority can
    bool matches = false;
    std::uint64_t delay_one_in = 0;  // call; 0: none
    std::uint64_t longest_delay = 0;
    std::vector<std::uint64_t> change_at = {};  // ties at which a priority changes
  };
  Drawn drawn_;
  std::map<std::uint64_t, std::uint64_t> priorities_;
  std::map<int, std::uint64_t> calls_;
  std::map<std::pair<int, std::string>, std::uint64_t> shown_;
  Schedule taken_;
  std::vector<std::string> described_;
  std::vector<Observation> observed_;
  std::vector<Sight> seen_;
  struct Pending {
    std::size_t at;  // in observed_
    sim::Value value;
  };
  std::vector<Pending> pending_;
  RunSize size_;
};

}  // namespace kernbench::testing
