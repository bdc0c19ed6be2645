// 10,000 random programs, each on `local`, on `ahbm` and on a sequential model that shares no code
// with them: the model's values, or a refusal exactly where the model says so.
//
// KERNBENCH_RANDOM_PROGRAMS=<count> runs so many, KERNBENCH_RANDOM_SEED=<seed> one alone, which it
// prints.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "test/ccl/differential/program_runner.h"
#include "test/support/sanitized.h"
#include "test/support/small_topology.h"

namespace kernbench::test::differential {
namespace {

#if defined(__OPTIMIZE__)
constexpr std::uint32_t kPrograms = kIsSanitized ? 500 : 10'000;
#else
constexpr std::uint32_t kPrograms = 2'000;
#endif

// Machines of a given number of ranks: with one PE each, and with several PEs over which tensors
// are cut or copied.
struct Setting {
  Topology topology;
  DPPolicy dp;
};

std::vector<Setting> settings_of(int ranks) {
  std::vector<Setting> settings = {
      {round_topology(SipTopology::ring_1d, ranks), DPPolicy::on_one_pe()},
      {round_topology(SipTopology::ring_1d, ranks), {.pe = Shard::column_wise}}};
  if (ranks == 4) {
    settings.push_back({round_topology(SipTopology::torus_2d, 2, 2, 2),
                        {.cube = Shard::column_wise, .pe = Shard::replicate}});
  }
  return settings;
}

// Runs one program on both backends and says how it differs from the model; "": it does not.
class Differential {
 public:
  std::string run(std::uint32_t seed, bool prints = false) {
    const Program program = make_program(seed);
    if (prints) fmt::print("{}", to_string(program));
    const std::set<Refusal> refused = refusals(program);
    is_legal_ = refused.empty();
    Outcome expected;
    if (is_legal_) expected = expected_outcome(program);
    const auto& settings = all_settings_[static_cast<std::size_t>(program.ranks)];
    const std::size_t setting = seed % settings.size();
    for (const std::string backend : {"local", "ahbm"}) {
      const Machine::End end = machine(backend, program.ranks, setting).run(program);
      if (prints) fmt::print("{}: {}\n", backend, end.text);
      const bool is_expected =
          is_legal_ ? end.text.empty() : end.refusal && refused.contains(*end.refusal);
      if (!is_expected) return unexpected(backend, end, refused);
      if (is_legal_ && end.outcome != expected) return backend + " has other values than the model";
    }
    return {};
  }
  bool is_legal() const { return is_legal_; }

 private:
  static std::string unexpected(const std::string& backend, const Machine::End& end,
                                const std::set<Refusal>& refused) {
    std::vector<std::string> expected;
    for (const Refusal& refusal : refused) expected.push_back(to_string(refusal));
    return fmt::format("{} says '{}' ({}), the model '{}'", backend, end.text,
                       end.refusal ? to_string(*end.refusal) : "nowhere",
                       fmt::join(expected, "' or '"));
  }
  Machine& machine(const std::string& backend, int ranks, std::size_t setting) {
    auto& slot = machines_[{backend, ranks, setting}];
    if (slot == nullptr) {
      const Setting& of = all_settings_[static_cast<std::size_t>(ranks)][setting];
      slot = std::make_unique<Machine>(of.topology, backend, of.dp);
    }
    return *slot;
  }

  const std::vector<std::vector<Setting>> all_settings_ = {
      {}, settings_of(1), settings_of(2), settings_of(3), settings_of(4)};
  std::map<std::tuple<std::string, int, std::size_t>, std::unique_ptr<Machine>> machines_;
  bool is_legal_ = false;
};

std::optional<std::uint32_t> wanted(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  std::uint32_t value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  INFO(variable << "=" << text << ": a number from 1 on is wanted");
  REQUIRE((error == std::errc() && rest == end && value > 0));
  return value;
}

TEST_CASE(
    "random programs are refused exactly where a sequential model says so, and else give its "
    "values",
    "[ccl][differential]") {
  Differential differential;
  if (const auto seed = wanted("KERNBENCH_RANDOM_SEED")) {
    CHECK(differential.run(*seed, true) == "");
    return;
  }
  const std::uint32_t count = wanted("KERNBENCH_RANDOM_PROGRAMS").value_or(kPrograms);
  std::uint32_t legal = 0;
  int failed = 0;
  for (std::uint32_t seed = 1; seed <= count && failed < 5; ++seed) {
    const std::string found = differential.run(seed);
    legal += differential.is_legal() ? 1 : 0;
    if (found.empty()) continue;
    ++failed;
    UNSCOPED_INFO("KERNBENCH_RANDOM_SEED=" << seed << ": " << found);
  }
  CHECK(failed == 0);
  CAPTURE(count, legal);
  if (failed == 0 && count >= 100) CHECK((legal > count * 2 / 5 && legal < count * 3 / 5));
}

}  // namespace
}  // namespace kernbench::test::differential
