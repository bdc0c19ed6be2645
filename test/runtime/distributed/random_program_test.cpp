// Random programs: legal ones compute what a plain reference does, illegal ones end with the right
// exit code, and none hangs.

#include "test/runtime/distributed/random_program.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "test/runtime/distributed/local_world.h"
#include "test/runtime/distributed/program_outcome.h"
#include "test/support/sanitized.h"

namespace kernbench::test::random_program_test {
namespace {

constexpr int kProgramsPerSize = kIsSanitized ? 100 : 2'000;  // of five sizes
constexpr int kPrograms = 5 * kProgramsPerSize;

// One collective of a rank changed; false if it is in none with others.
bool spoil_collective(std::mt19937& random, const RandomProgram& program, int rank,
                      std::vector<Step>& steps) {
  std::vector<std::size_t> shared;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool has_others = program.groups[steps[i].group].size() > 1;
    if (has_others && program.takes_part(steps[i], rank)) shared.push_back(i);
  }
  if (shared.empty()) return false;
  const std::size_t at = shared[random() % shared.size()];
  Step& step = steps[at];
  const std::vector<int>& members = program.groups[step.group];
  switch (random() % 4) {
    case 0:  // another operation
      step.kind = step.kind == Step::Kind::barrier ? Step::Kind::all_reduce : Step::Kind::barrier;
      break;
    case 1:  // left out
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 2:  // another size
      if (step.kind == Step::Kind::barrier) step.kind = Step::Kind::reduce;
      step.count += 1;
      break;
    default: {  // another root
      step.kind = step.kind == Step::Kind::broadcast ? Step::Kind::reduce : Step::Kind::broadcast;
      const auto root = std::ranges::find(members, step.root) - members.begin();
      step.root = members[static_cast<std::size_t>(root + 1) % members.size()];
    }
  }
  return true;
}

// One message left out; false if there is none that the rank takes part in.
bool spoil_message(const RandomProgram& program, int rank, std::vector<Step>& steps) {
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.kind != Step::Kind::message || (step.root != rank && step.peer != rank)) continue;
    steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

struct End {
  std::string code;  // "" if it ends well
  ExitCode exit_code = ExitCode::ok;
  std::string text;
};

// Returns how the program ends if `culprit` runs other steps.
End end_of(const RandomProgram& program, int culprit, const std::vector<Step>& spoiled) {
  LocalWorld world(program.ranks);
  try {
    world.spawn([&](int rank) {
      run_rank(world.torch, program, rank == culprit ? spoiled : program.steps, rank);
    });
  } catch (const Error& error) {
    return {std::string(error.code()), error.exit_code(), error.what()};
  }
  return {};
}

// All that the model says of it in ten orders of the ranks.
std::set<std::string> possible_ends(std::mt19937& random, const RandomProgram& program, int culprit,
                                    const std::vector<Step>& spoiled) {
  std::vector<std::vector<Step>> steps(static_cast<std::size_t>(program.ranks), program.steps);
  steps[static_cast<std::size_t>(culprit)] = spoiled;
  std::set<std::string> ends;
  for (int i = 0; i < 10; ++i) ends.insert(outcome_of(random, program, steps));
  return ends;
}

TEST_CASE("random legal programs compute what a plain reference does", "[distributed][random]") {
  int wrong = 0;
  for (int ranks = 2; ranks <= 6; ++ranks) {
    LocalWorld world(ranks);
    for (int i = 0; i < kProgramsPerSize && wrong == 0; ++i) {
      std::mt19937 random(static_cast<std::uint32_t>(1'000'000 * ranks + i));
      const RandomProgram program = make_program(random, ranks, {});
      INFO("program " << i << " of " << ranks << " ranks");
      std::vector<History> histories(static_cast<std::size_t>(ranks));
      world.spawn([&](int rank) {
        histories[static_cast<std::size_t>(rank)] =
            run_rank(world.torch, program, program.steps, rank);
      });
      for (int rank = 0; rank < ranks; ++rank) {
        const bool equal =
            histories[static_cast<std::size_t>(rank)] == expected_history(program, rank);
        if (!equal) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

// An illegal program, and what it may end with.
struct IllegalProgram {
  RandomProgram program;
  int culprit = 0;
  std::vector<Step> spoiled;
  std::set<std::string> ends;
};

IllegalProgram make_illegal(std::mt19937& random, int ranks, bool has_messages, bool has_async) {
  const ProgramOptions options{
      .has_groups = !has_messages, .has_messages = has_messages, .has_async = has_async};
  IllegalProgram illegal;
  illegal.culprit = static_cast<int>(random() % static_cast<std::uint32_t>(ranks));
  for (bool is_spoiled = false; !is_spoiled;) {
    illegal.program = make_program(random, ranks, options);
    illegal.spoiled = illegal.program.steps;
    is_spoiled = has_messages
                     ? spoil_message(illegal.program, illegal.culprit, illegal.spoiled)
                     : spoil_collective(random, illegal.program, illegal.culprit, illegal.spoiled);
  }
  // The other side of a message waits for ever.
  illegal.ends = has_messages
                     ? std::set<std::string>{"KB-D001"}
                     : possible_ends(random, illegal.program, illegal.culprit, illegal.spoiled);
  return illegal;
}

TEST_CASE("random illegal programs end with the right code", "[distributed][random]") {
  std::map<std::string, int> ends;
  int ambiguous = 0;
  bool is_right = true;
  for (int ranks = 2; ranks <= 6; ++ranks) {
    for (int i = 0; i < kProgramsPerSize && is_right; ++i) {
      std::mt19937 random(static_cast<std::uint32_t>(2'000'000 * ranks + i));
      const IllegalProgram illegal = make_illegal(random, ranks, i % 3 == 0, i % 2 == 0);
      const End end = end_of(illegal.program, illegal.culprit, illegal.spoiled);
      CAPTURE(i, ranks, illegal.culprit, illegal.ends, end.text);
      const ExitCode exit_code =
          end.code == "KB-D001" ? ExitCode::deadlock : ExitCode::collective_misuse;
      is_right = illegal.ends.contains(end.code) && end.exit_code == exit_code;
      CHECK(is_right);
      ambiguous += illegal.ends.size() > 1;
      ++ends[end.code];
    }
  }
  CHECK(ends.size() == 3);
  CHECK(ends["KB-C001"] * 10 > kPrograms * 3);
  CHECK(ends["KB-C002"] * 100 > kPrograms * (kIsSanitized ? 1 : 3));
  CHECK(ends["KB-D001"] * 3 > kPrograms);  // those with messages, and crossed groups
  CHECK(ambiguous < 100);
}

}  // namespace
}  // namespace kernbench::test::random_program_test
