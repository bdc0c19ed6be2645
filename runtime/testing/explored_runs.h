// The runs of one exploration: what they are compared with, and what is said of one that differs.

#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/testing/explore.h"
#include "runtime/testing/run_choices.h"

namespace kernbench::testing {

// What RunChoices throw to end a run that differs from an earlier one in order alone.
struct Redundant {};

// How a run ended.
struct Outcome {
  std::shared_ptr<const RunChoices> choices;
  std::exception_ptr exception = nullptr;
  std::string code = {};   // of that, if it is an Error
  std::string error = {};  // its text
  bool is_redundant = false;
  // Rank, place and bits of what was observed, sorted.
  std::vector<std::tuple<int, std::uint64_t, std::uint64_t>> observed = {};

  // True if both ended in the same way: with the same values, or with errors of one kind.
  bool is_like(const Outcome& other) const {
    return code == other.code && error.empty() == other.error.empty() && observed == other.observed;
  }
};

inline constexpr std::string_view kExhaustive = "exhaustive()";

class ExploredRuns {
 public:
  // Conditions of KB_SOMETIMES are counted as long as this lives.
  ExploredRuns(ExploreOptions options, const Program& program, const ExploredTest& test);
  ~ExploredRuns();
  ExploredRuns(const ExploredRuns&) = delete;
  ExploredRuns& operator=(const ExploredRuns&) = delete;

  // Runs the usual schedule, twice.  Throws what it throws, and KB-N061.
  void run_usual();
  const Outcome& usual() const { return usual_; }
  Outcome run(const std::shared_ptr<RunChoices>& choices);
  Outcome run(const Schedule& schedule, bool keeps_text = false);
  // Runs what KERNBENCH_REPLAY says; false if it is not set.
  bool replay();

  // Throws if the run did not end as the usual one.
  void check(const Outcome& outcome);
  // Throws KB-N062 if a name has never held.
  void check_sometimes() const;

  ExploreReport report;

 private:
  std::uint32_t program_hash() const;
  Schedule shrink(Schedule schedule, const Outcome& failure);
  bool fails_like(const Schedule& schedule, const Outcome& failure, Schedule& taken);
  [[noreturn]] void fail(const Schedule& schedule, std::size_t choices_before, std::int64_t runs);
  std::string where() const;  // "explore() at test.cpp:12"
  std::string replay_line(const Schedule& schedule) const;

  const ExploreOptions options_;
  const Program& program_;
  const ExploredTest& test_;
  const Topology topology_;
  Outcome usual_;
  std::map<std::string, std::int64_t>* const outer_sometimes_;
};

}  // namespace kernbench::testing
