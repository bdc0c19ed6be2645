// explore() and exhaustive(): what they find, and how they say it.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>

#include "runtime/testing/hash.h"
#include "test/support/error_text.h"
#include "test/support/sanitized.h"
#include "test/testing/planted_bugs.h"

namespace kernbench::test::explore_test {
namespace {

using testing::exhaustive;
using testing::explore;
using testing::ExploreReport;
using testing::Vary;
using testing::World;

// What a failed exploration says.
std::string failure_of(const testing::ExploreOptions& options, const testing::WorldBody& body) {
  try {
    explore(options, body);
    return "";
  } catch (const Error& error) {
    return error.code() + " " + error.what();
  }
}

int runs_in(const std::string& text) {
  const std::size_t at = text.find("in run ");
  return at == text.npos ? -1 : std::stoi(text.substr(at + 7));
}

std::string schedule_in(const std::string& text) {
  const std::string begin = "KERNBENCH_REPLAY=";
  const std::size_t at = text.find(begin) + begin.size();
  return text.substr(at, text.find(' ', at) - at);
}

std::string difference_in(const std::string& text) {
  const std::size_t begin = text.find('\n') + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

// KERNBENCH_REPLAY as long as it lives.
class ReplaySet {
 public:
  explicit ReplaySet(const std::string& schedule) {
    ::setenv("KERNBENCH_REPLAY", schedule.c_str(), 1);
  }
  ~ReplaySet() { ::unsetenv("KERNBENCH_REPLAY"); }
  ReplaySet(const ReplaySet&) = delete;
  ReplaySet& operator=(const ReplaySet&) = delete;
};

TEST_CASE("each of twelve planted bugs is found in 20 runs, and its line repeats it") {
  for (const planted_bugs::PlantedBug& bug : planted_bugs::all_bugs()) {
    CAPTURE(bug.name);
    testing::ExploreOptions options{.backend = std::string(bug.backend), .runs = 1};
    CHECK(failure_of(options, bug.body) == "");  // the usual order does not show it
    options.runs = 1000;
    int most = 0;
    for (options.seed = 1; options.seed <= 20; ++options.seed) {
      const std::string text = failure_of(options, bug.body);
      CAPTURE(text);
      REQUIRE_THAT(text, Catch::StartsWith("KB-N060 "));
      most = std::max(most, runs_in(text));
      const ReplaySet replay(schedule_in(text));
      const std::string again = failure_of(options, bug.body);
      CHECK(difference_in(again) == difference_in(text));
      CHECK(schedule_in(again) == schedule_in(text));
    }
    CHECK(most <= 20);
  }
}

TEST_CASE("testing.md shows what a failure says, and names the planted bugs") {
  const std::string text = failure_of({.ranks = 3, .runs = 2000}, [](World& world) {
    world.run([&](int rank) {
      const Tensor x = world.torch.full({1}, rank);
      if (rank != 0) return world.torch.distributed.send(x, 0);
      const Tensor y = world.torch.zeros({1});
      world.torch.distributed.recv(x);  // from any rank: this is the mistake
      world.torch.distributed.recv(y);
      world.observe("difference", x - y);
    });
  });
  const std::string shown = std::regex_replace(
      text.substr(text.find("\n  rank 0")), std::regex("explore_test.cpp:\\d+"), "my_test.cpp:10");
  const std::string replay = "KERNBENCH_REPLAY=" + schedule_in(text) + " ";
  for (const std::string_view name : {"testing.md", "testing.ko.md"}) {
    std::ifstream file(fmt::format("{}/{}", KERNBENCH_ROOT, name));
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    CAPTURE(name, text);
    std::istringstream lines(shown.substr(0, shown.rfind('\n')));
    for (std::string line; std::getline(lines, line);) CHECK(page.find(line) != page.npos);
    CHECK(page.find(replay) != page.npos);
    for (const planted_bugs::PlantedBug& bug : planted_bugs::all_bugs()) {
      CHECK(page.find(fmt::format("| {} |", bug.name)) != page.npos);
    }
  }
}

// What is right in every schedule.
void sum_by_messages(World& world) {
  world.run([&](int rank) {
    const Tensor x = world.torch.full({16}, rank);
    world.torch.distributed.all_reduce(x);
    const Tensor y = world.torch.full({4}, rank);
    if (rank != 0) return world.torch.distributed.send(y, 0);
    float sum = 0;
    for (int i = 1; i < world.size(); ++i) {
      world.torch.distributed.recv(y);
      sum += y.at({0});
    }
    KB_SOMETIMES(y.at({0}) == 1, "rank 1 comes last");
    testing::assert_equal(world.torch.full({1}, sum), std::vector<float>{6});
  });
}

TEST_CASE("100,000 runs of four ranks on local, 1,000 on devices agree bit for bit") {
  const int runs = kIsSanitized ? 2'000 : 100'000;
  ExploreReport report = explore({.runs = runs, .seed = 7}, sum_by_messages);
  CHECK(report.runs == runs);
  CHECK(report.sometimes.at("rank 1 comes last") > runs / 8);
  report = explore({.backend = "ahbm", .runs = runs / 100, .seed = 7}, sum_by_messages);
  CHECK(report.runs == runs / 100);
  CHECK(report.most > report.least);
}

TEST_CASE("equal seeds explore equally") {
  const auto bug = planted_bugs::all_bugs()[4];
  const std::string text = failure_of({.seed = 3}, bug.body);
  CHECK(failure_of({.seed = 3}, bug.body) == text);
}

TEST_CASE("a failure is shrunk to the choices that it needs, and says which") {
  const auto bug = planted_bugs::all_bugs()[1];
  const std::string text = failure_of({.vary = Vary::matches}, bug.body);
  CHECK_THAT(text, Catch::Contains("rank 0: element 0 of result #0 is -1 (0xbf800000) in the usual "
                                   "schedule, 1 (0x3f800000) in this one"));
  CHECK_THAT(text, Catch::Contains("match 0 at t=0 ns: a receive from any rank gets rank 2's "
                                   "message, not rank 1's"));
  CHECK_THAT(text, Catch::Contains("the first event that differs: at t=0 ns rank 0's recv from any "
                                   "rank (tag 0) at planted_bugs.cpp:") &&
                       Catch::Contains(" gets rank 2's message; in the usual schedule at t=0 ns "
                                       "rank 0's recv from any rank"));
  CHECK_THAT(schedule_in(text), Catch::Contains(":a0=1,m0=1:"));
}

TEST_CASE("exhaustive finds what needs one schedule, and its line repeats it") {
  const auto bug = planted_bugs::all_bugs()[4];  // a receive that starves
  const auto text_of = [&] {
    try {
      exhaustive({}, bug.body);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const std::string text = text_of();
  CHECK_THAT(text, Catch::Contains("KB-D001"));
  CHECK(runs_in(text) < 10);
  const ReplaySet replay(schedule_in(text));
  CHECK(schedule_in(text_of()) == schedule_in(text));
}

TEST_CASE("elements of the host are observed, too") {
  const auto receives = [](World& world) {
    world.run([&](int rank) {
      const Tensor x = world.torch.full({1}, rank);
      if (rank > 0) return world.torch.distributed.send(x, 0);
      std::vector<float> order;
      for (int i = 1; i < world.size(); ++i) {
        world.torch.distributed.recv(x);
        order.push_back(x.to_vector()[0]);
      }
      world.observe("order", world.torch.tensor(order, Shape{std::ssize(order)}));
    });
  };
  CHECK_THAT(failure_of({}, receives), Catch::StartsWith("KB-N060 "));
}

TEST_CASE("what never holds fails the test") {
  const auto text = [](const testing::ExploreOptions& options) {
    return failure_of(options, [](World& world) {
      world.run([](int rank) { KB_SOMETIMES(rank == 4, "rank 4"); });
    });
  };
  CHECK_THAT(text({.runs = 10}), Catch::StartsWith("KB-N062 ") &&
                                     Catch::Contains("\"rank 4\" has not held in any of 10 runs"));
  const std::string missing = failure_of({.runs = 2, .sometimes = {"a way"}}, [](World&) {});
  CHECK_THAT(missing, Catch::Contains("\"a way\""));
}

// As a line would be printed whose text before the checksum is changed.
std::string changed_line(const std::string& line, const std::string& from, const std::string& to) {
  std::string text = line.substr(0, line.rfind(':'));
  text.replace(text.find(from), from.size(), to);
  const std::uint64_t hash = testing::hash_text(text);
  return fmt::format("{}:{:04x}", text, hash & 0xffff);
}

TEST_CASE("a line of another program, of another version, or none, is refused") {
  const auto bug = planted_bugs::all_bugs()[1];
  const std::string line = schedule_in(failure_of({.vary = Vary::matches}, bug.body));
  const auto refusal = [&](const std::string& text, const testing::WorldBody& body) {
    const ReplaySet replay(text);
    return failure_of({}, body);
  };
  CHECK_THAT(refusal(line, sum_by_messages),
             Says("KB-U030", "KERNBENCH_REPLAY", "of another program"));
  CHECK_THAT(refusal("KBS1:01234567:m0=1", bug.body),
             Says("KB-U030", "KERNBENCH_REPLAY", "another version"));
  CHECK_THAT(refusal("x" + line, bug.body),
             Says("KB-U030", "KERNBENCH_REPLAY", "is no part of a schedule"));
  for (std::size_t length = line.size() - 1; length > 5; --length) {
    CHECK_THAT(refusal(line.substr(0, length), bug.body),
               Says("KB-U030", "KERNBENCH_REPLAY", "checksum"));
  }
  CHECK_THAT(refusal(changed_line(line, "m0=1", "m7777=3"), bug.body),
             Says("KB-U030", "KERNBENCH_REPLAY", "has no choice m7777=3"));
  CHECK_THAT(refusal(changed_line(line, "m0=1", "z=2"), bug.body),
             Says("KB-U030", "KERNBENCH_REPLAY", "'z=2' is no part of a schedule"));
  CHECK(changed_line(line, "m0", "m0") == line);
}

TEST_CASE("a line is of one test, and of what it observes") {
  const auto body_with = [](std::int64_t elements) {
    return [elements](World& world) {
      world.run([&](int rank) {
        const Tensor x = world.torch.full({elements}, rank);
        if (rank > 0) return world.torch.distributed.send(x, 0);
        for (int i = 1; i < world.size(); ++i) world.torch.distributed.recv(x);
        world.observe("last", x);
      });
    };
  };
  const std::string line = schedule_in(failure_of({}, body_with(4)));
  const ReplaySet replay(line);
  CHECK_THAT(failure_of({}, body_with(4)), Catch::StartsWith("KB-N060 "));
  CHECK_THAT(failure_of({}, body_with(5)), Catch::StartsWith("KB-U030 "));
  CHECK_THAT(failure_of({.ranks = 5}, body_with(4)), Catch::StartsWith("KB-U030 "));
  CHECK_THROWS_AS(exhaustive({}, body_with(4)), UsageError);
}

TEST_CASE("a program that depends on more than its schedule is found") {
  int calls = 0;
  const std::string text = failure_of({.runs = 5}, [&](World& world) {
    ++calls;
    world.run([&](int) { world.observe("calls", world.torch.full({1}, calls)); });
  });
  CHECK_THAT(text, Catch::StartsWith("KB-N061 "));
}

TEST_CASE("what fails in the usual schedule is thrown as it is") {
  CHECK_THROWS_AS(explore({.ranks = 2},
                          [](World& world) {
                            world.run([&](int rank) {
                              const Tensor x = world.torch.zeros({1});
                              world.torch.distributed.send(x, 1 - rank);
                              world.torch.distributed.recv(x, 1 - rank);
                            });
                          }),
                  DeadlockError);
}

TEST_CASE("options that mean nothing are refused") {
  CHECK_THAT(failure_of({.runs = 0}, [](World&) {}), Catch::StartsWith("KB-U031 "));
  CHECK_THAT(failure_of({.depth = 0}, [](World&) {}), Catch::StartsWith("KB-U031 "));
  for (const int vary : {0, 32, 64, 255}) {
    CHECK_THAT(failure_of({.vary = static_cast<Vary>(vary)}, [](World&) {}),
               Catch::StartsWith("KB-U031 ") && Catch::Contains("vary"));
  }
  CHECK_THROWS_AS(testing::minimum_depth({.deepest = 0}, [](World&) {}), UsageError);
}

TEST_CASE("the least depth of queues is that with which nothing waits for ever") {
  for (const std::string_view algorithm : {"ring_allreduce", "tree_allreduce"}) {
    CHECK(testing::minimum_depth(algorithm, 4) == 1);
  }
  // Each rank sends three messages before it receives one.
  CHECK(testing::minimum_depth({}, planted_bugs::send_before_receive) == 3);
  CHECK(testing::minimum_depth({.deepest = 2}, planted_bugs::send_before_receive) == std::nullopt);
}

}  // namespace
}  // namespace kernbench::test::explore_test
