#include "runtime/testing/explored_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/simulation/call_site.h"
#include "runtime/testing/assertions.h"
#include "runtime/testing/hash.h"
#include "sim_engine/base/error.h"

namespace kernbench::testing {

namespace {

// What the names of KB_SOMETIMES have held for, by the thread that explores: the macro is given no
// context.
class SometimesOfThreads {
 public:
  using Counts = std::map<std::string, std::int64_t>;

  static SometimesOfThreads& instance() {
    static SometimesOfThreads all;
    return all;
  }
  // Returns what counted before; null: nothing is explored.
  Counts* exchange(Counts* counts) {
    const std::scoped_lock lock(mutex_);
    return std::exchange(by_thread_[std::this_thread::get_id()], counts);
  }
  void count(bool condition, std::string_view name) {
    const std::scoped_lock lock(mutex_);
    const auto found = by_thread_.find(std::this_thread::get_id());
    if (found == by_thread_.end() || found->second == nullptr) return;
    (*found->second)[std::string(name)] += condition ? 1 : 0;
  }

 private:
  std::mutex mutex_;
  std::map<std::thread::id, Counts*> by_thread_;
};

Topology topology_of(const ExploreOptions& options) {
  return options.topology ? *options.topology : ring_of(options.ranks);
}

}  // namespace

void sometimes(bool condition, std::string_view name) {
  SometimesOfThreads::instance().count(condition, name);
}

void check_positive(std::string_view option, std::int64_t value) {
  if (value >= 1) return;
  throw UsageError("KB-U031", "{} is {}; it must be at least 1", option, value);
}

ExploredRuns::ExploredRuns(ExploreOptions options, const Program& program, const ExploredTest& test)
    : options_(std::move(options)),
      program_(program),
      test_(test),
      topology_(topology_of(options_)),
      outer_sometimes_(SometimesOfThreads::instance().exchange(&report.sometimes)) {
  for (const std::string& name : options_.sometimes) report.sometimes[name] = 0;
}

ExploredRuns::~ExploredRuns() {
  SometimesOfThreads::instance().exchange(outer_sometimes_);
}

namespace {

// Takes what a program threw.  An exception that is no std::exception is that of a test framework
// which has reported it already.
void note_exception(Outcome& outcome) {
  outcome.exception = std::current_exception();
  try {
    throw;
  } catch (const Redundant&) {
    outcome.is_redundant = true;
  } catch (const Error& error) {
    outcome.code = error.code();
    outcome.error = error.what();
  } catch (const std::exception& error) {
    outcome.error = error.what();
  } catch (...) {
    outcome.code = "reported";
    outcome.error = "an assertion of the test failed, which is reported above";
  }
}

}  // namespace

Outcome ExploredRuns::run(const std::shared_ptr<RunChoices>& choices) {
  Outcome outcome{.choices = choices};
  RuntimeOptions options = options_.options;
  options.choices = choices;
  if (options.evaluation_threads == 0) options.evaluation_threads = 1;  // small runs, many of them
  try {
    const Topology topology = choices->varied(topology_);
    program_({topology, std::move(options), choices->depth(), [&] { choices->end(); }});
    for (const Observation& one : choices->observed()) {
      outcome.observed.emplace_back(one.rank, one.place, one.bits);
    }
    std::ranges::sort(outcome.observed);
  } catch (...) {
    note_exception(outcome);
  }
  const Time took{choices->size().picoseconds};
  if (outcome.is_redundant) return outcome;
  if (outcome.exception == nullptr) {
    report.least = report.runs == 0 ? took : std::min(report.least, took);
    report.most = std::max(report.most, took);
  }
  ++report.runs;
  return outcome;
}

Outcome ExploredRuns::run(const Schedule& schedule, bool keeps_text) {
  return run(std::make_shared<RunChoices>(schedule, keeps_text));
}

void ExploredRuns::run_usual() {
  usual_ = run(Schedule{}, true);
  if (usual_.exception != nullptr) std::rethrow_exception(usual_.exception);
  const Outcome again = run(Schedule{}, true);
  if (!again.is_like(usual_)) {
    throw Error(
        "KB-N061", ExitCode::values,
        "{}: two runs of the usual schedule differ; what the program does depends on more than "
        "its schedule, as on an address, a clock or what a run before has left",
        where());
  }
}

// A hash of the test and of what its usual run did, without values, so that a program can be mended
// and repeated.
std::uint32_t ExploredRuns::program_hash() const {
  std::uint64_t hash = hash_text(KERNBENCH_VERSION);
  for (const std::string& name : {test_.name, report.call, options_.backend}) {
    hash = hash_of(hash, hash_text(name));
  }
  hash = hash_of(hash, usual_.choices->size().ties);
  hash = hash_of(hash, static_cast<std::uint64_t>(topology_.system.sip_count));
  for (const Observation& one : usual_.choices->observed()) {
    for (const std::uint64_t part :
         {static_cast<std::uint64_t>(one.rank), one.place, std::uint64_t{one.elements.size()}}) {
      hash = hash_of(hash, part);
    }
  }
  return static_cast<std::uint32_t>(hash ^ hash >> 32);
}

bool ExploredRuns::replay() {
  const char* const text = std::getenv("KERNBENCH_REPLAY");
  if (text == nullptr || *text == 0) return false;
  const Replay replay = parse_replay(text);
  if (replay.program != program_hash()) {
    throw UsageError(
        "KB-U030",
        "KERNBENCH_REPLAY is of another program or version: its usual run has the "
        "hash {:08x}, and that of {} has {:08x}; run the test that the line was printed for",
        replay.program, where(), program_hash());
  }
  const Outcome outcome = run(replay.schedule, true);
  for (const Choice& choice : replay.schedule) {
    if (std::ranges::count(outcome.choices->taken(), choice) == 1) continue;
    throw UsageError("KB-U030",
                     "KERNBENCH_REPLAY: {} has no choice {}; give the line as it was printed",
                     where(), to_text(choice));
  }
  if (!outcome.is_like(usual_)) fail(replay.schedule, replay.schedule.size(), 1);
  return true;
}

void ExploredRuns::check(const Outcome& outcome) {
  if (outcome.is_like(usual_)) return;
  const std::int64_t runs = report.runs;
  const Schedule& taken = outcome.choices->taken();
  const Outcome again = outcome.code == "reported" ? outcome : run(taken);
  if (!again.is_like(outcome)) {
    throw Error(
        "KB-N061", ExitCode::values,
        "{}: two runs of one schedule differ; what the program does depends on more than its "
        "schedule, as on an address, a clock or what a run before has left\n  {}",
        where(), replay_line(taken));
  }
  // Each further run of an assertion that reports itself would report it again.
  fail(outcome.code == "reported" ? taken : shrink(taken, outcome), taken.size(), runs);
}

bool ExploredRuns::fails_like(const Schedule& schedule, const Outcome& failure, Schedule& taken) {
  const Outcome outcome = run(schedule);
  taken = outcome.choices->taken();
  return !outcome.is_like(usual_) && outcome.code == failure.code;
}

// Leaves choices out as long as the run still fails in the same way (delta debugging).
Schedule ExploredRuns::shrink(Schedule schedule, const Outcome& failure) {
  constexpr int kMostRuns = 2'000;
  std::size_t parts = 2;
  for (int runs = 0; schedule.size() > 1 && runs < kMostRuns;) {
    parts = std::min(parts, schedule.size());
    bool is_smaller = false;
    for (std::size_t part = 0; part < parts && !is_smaller; ++part, ++runs) {
      const auto begin = static_cast<std::ptrdiff_t>(part * schedule.size() / parts);
      const auto end = static_cast<std::ptrdiff_t>((part + 1) * schedule.size() / parts);
      Schedule rest = schedule;
      rest.erase(rest.begin() + begin, rest.begin() + end);
      Schedule taken;
      is_smaller = fails_like(rest, failure, taken) && taken.size() < schedule.size();
      if (is_smaller) schedule = std::move(taken);
    }
    if (!is_smaller && parts == schedule.size()) break;
    parts = is_smaller ? std::max<std::size_t>(parts - 1, 2) : 2 * parts;
  }
  return schedule;
}

namespace {

// Describes the first observation, in the order of the usual run, that differs.
std::string describe_difference(const RunChoices& usual, const RunChoices& other) {
  const auto find = [](const RunChoices& in, const Observation& like) {
    return std::ranges::find_if(in.observed(), [&](const Observation& one) {
      return one.rank == like.rank && one.place == like.place;
    });
  };
  for (const Observation& one : usual.observed()) {
    const auto there = find(other, one);
    if (there == other.observed().end()) {
      return fmt::format("rank {} has no {} there", one.rank, one.what);
    }
    if (there->bits == one.bits) continue;
    if (there->elements.size() != one.elements.size()) {
      return fmt::format("rank {}: {} has {} elements in the usual schedule, {} in this one",
                         one.rank, one.what, one.elements.size(), there->elements.size());
    }
    const auto [here, element] = std::ranges::mismatch(one.elements, there->elements);
    return fmt::format("rank {}: element {} of {} is {} in the usual schedule, {} in this one",
                       one.rank, here - one.elements.begin(), one.what, *here, *element);
  }
  for (const Observation& one : other.observed()) {
    if (find(usual, one) == usual.observed().end()) {
      return fmt::format("rank {} has {} besides", one.rank, one.what);
    }
  }
  return "the runs do not differ";
}

// Describes the first event of the run, in its order, in which a rank sees something else of an
// object than in the usual run; empty if there is none.
std::string describe_first_event(const RunChoices& usual, const RunChoices& other) {
  std::map<std::uint64_t, std::vector<const Sight*>> expected;
  for (const Sight& one : usual.seen()) expected[one.object].push_back(&one);
  std::map<std::uint64_t, std::size_t> counts;
  const auto at = [](const Sight& sight) {
    return fmt::format("at t={} {}", to_string(sight.at), sight.text);
  };
  for (const Sight& one : other.seen()) {
    const auto& like = expected[one.object];
    const std::size_t number = counts[one.object]++;
    if (number == like.size()) return at(one) + "; the usual schedule has no such event";
    if (like[number]->text != one.text) {
      return fmt::format("{}; in the usual schedule {}", at(one), at(*like[number]));
    }
  }
  return "";
}

std::string shell_quoted(std::string_view text) {
  std::string all = "\"";
  for (const char letter : text) {
    if (std::string_view("\"\\$`").find(letter) != std::string_view::npos) all += '\\';
    all += letter;
  }
  return all + '"';
}

}  // namespace

std::string ExploredRuns::where() const {
  return fmt::format("{} at {}", report.call, runtime::call_site(test_.location));
}

std::string ExploredRuns::replay_line(const Schedule& schedule) const {
  return fmt::format("KERNBENCH_REPLAY={} {}{}", to_text({program_hash(), schedule}),
                     program_invocation_name,
                     test_.name.empty() ? "" : " " + shell_quoted(test_.name));
}

void ExploredRuns::fail(const Schedule& schedule, std::size_t choices_before, std::int64_t runs) {
  const Outcome outcome = run(schedule, true);
  std::string text = where() + ": ";
  text += outcome.exception == nullptr
              ? "what the program computes depends on its schedule\n  " +
                    describe_difference(*usual_.choices, *outcome.choices)
              : "the program fails in one schedule, and not in the usual one\n  " + outcome.error;
  const std::string first = describe_first_event(*usual_.choices, *outcome.choices);
  if (!first.empty()) text += "\n  the first event that differs: " + first;
  text += fmt::format("\n  the schedule, which differs from the usual one in {} of {} choices:",
                      schedule.size(), choices_before);
  for (const std::string& line : outcome.choices->described()) text += "\n    " + line;
  text += fmt::format("\n  in run {}; to repeat it:\n{}", runs, replay_line(schedule));
  throw Error("KB-N060", ExitCode::values, text);
}

void ExploredRuns::check_sometimes() const {
  for (const auto& [name, held] : report.sometimes) {
    if (held > 0) continue;
    throw Error("KB-N062", ExitCode::numerics,
                "{}: KB_SOMETIMES \"{}\" has not held in any of {} run{}", where(), name,
                report.runs, report.runs == 1 ? "" : "s");
  }
}

}  // namespace kernbench::testing
