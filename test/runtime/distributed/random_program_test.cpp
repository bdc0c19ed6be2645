// Random programs: legal ones compute what a plain reference does, illegal ones end with the right
// exit code, and none hangs.

#include "test/runtime/distributed/random_program.h"

#include <catch2/catch.hpp>

#include "test/runtime/distributed/local_world.h"

namespace kernbench::test {
namespace {

constexpr int kProgramsPerSize = 2'000;  // five sizes: 10,000

// One collective of a rank changed so that the program is illegal.
void spoil_collective(std::mt19937& random, const RandomProgram& program,
                      std::vector<Step>& steps) {
  const std::size_t at = random() % steps.size();
  Step& step = steps[at];
  switch (random() % 4) {
    case 0:  // another operation
      step.kind = step.kind == Step::Kind::barrier ? Step::Kind::all_reduce : Step::Kind::barrier;
      return;
    case 1:  // left out
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    case 2:  // another size
      if (step.kind == Step::Kind::barrier) step.kind = Step::Kind::reduce;
      step.count += 1;
      return;
    default:  // another root
      step.kind = step.kind == Step::Kind::broadcast ? Step::Kind::reduce : Step::Kind::broadcast;
      step.root = (step.root + 1) % program.ranks;
      return;
  }
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

// What the program ends with if `culprit` runs other steps.
ExitCode end_of(const RandomProgram& program, int culprit, const std::vector<Step>& spoiled,
                std::string& text) {
  LocalWorld world(program.ranks);
  try {
    world.spawn([&](int rank) {
      run_rank(world.torch, program, rank == culprit ? spoiled : program.steps, rank);
    });
  } catch (const Error& error) {
    text = error.what();
    return error.exit_code();
  }
  return ExitCode::ok;
}

TEST_CASE("10,000 random legal programs compute what a plain reference does",
          "[distributed][random]") {
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

TEST_CASE("10,000 random illegal programs end with the right code", "[distributed][random]") {
  bool is_right = true;
  int with_messages = 0;
  for (int ranks = 2; ranks <= 6; ++ranks) {
    for (int i = 0; i < kProgramsPerSize && is_right; ++i) {
      std::mt19937 random(static_cast<std::uint32_t>(2'000'000 * ranks + i));
      const bool has_messages = i % 3 == 0;
      const int culprit = static_cast<int>(random() % static_cast<std::uint32_t>(ranks));
      const ProgramOptions options{
          .has_groups = false, .has_messages = has_messages, .has_async = i % 2 == 0};
      RandomProgram program = make_program(random, ranks, options);
      std::vector<Step> spoiled = program.steps;
      ExitCode expected = ExitCode::collective_misuse;
      if (has_messages) {
        while (!spoil_message(program, culprit, spoiled)) {  // until there is one to leave out
          program = make_program(random, ranks, options);
          spoiled = program.steps;
        }
        expected = ExitCode::deadlock;  // the other side of it waits for ever
        ++with_messages;
      } else {
        spoil_collective(random, program, spoiled);
      }
      std::string text;
      const ExitCode got = end_of(program, culprit, spoiled, text);
      INFO("program " << i << " of " << ranks << " ranks: " << text);
      is_right = got == expected;
      CHECK(is_right);
    }
  }
  CHECK(with_messages == 5 * 667);
}

}  // namespace
}  // namespace kernbench::test
