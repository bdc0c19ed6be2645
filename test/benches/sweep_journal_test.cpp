#include "benches/bench/sweep_journal.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>

#include "benches/bench/cell.h"
#include "benches/bench/content_hash.h"
#include "sim_engine/base/error.h"
#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::benches::sweep_journal_test {

namespace {

using test::TemporaryFolder;

constexpr std::uint64_t kInputs = 0xfedcba9876543210;

PointOutcome outcome_of(std::int64_t value) {
  return {.ok = true, .rows = {Row().set("value", value)}, .systems = {}};
}

// A journal of the points "a", "b" and "c".
std::string write_journal(const TemporaryFolder& folder) {
  const std::string path = folder.path("s.journal");
  SweepJournal journal(path, kInputs);
  journal.append("a", outcome_of(1));
  journal.append("b", outcome_of(2));
  journal.append("c", outcome_of(3));
  return path;
}

}  // namespace

TEST_CASE("a journal that is a folder is an output that cannot be written", "[journal][errors]") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("s.journal"));
  try {
    const SweepJournal journal(folder.path("s.journal"), kInputs);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::output);
    CHECK_THAT(error, test::Says("KB-I010", "journal", "'" + folder.path("s.journal") + "'",
                                 "Is a directory", "another output folder"));
  }
}

TEST_CASE("a point comes back as it was, to the bit", "[journal]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Row row = Row()
                      .set("text", "line\nend, \"quoted\", 한")
                      .set("whole", std::numeric_limits<std::int64_t>::min())
                      .set("real", 0.1)
                      .set("whole real", 3.0)
                      .set("minus zero", -0.0)
                      .set("tiny", 5e-324)
                      .set("infinite", infinity)
                      .set("less", -infinity)
                      .set("no", false)
                      .set("none", std::optional<double>());
  EngineStatistics system{.simulated = Time{123},
                          .timed = Time{67},
                          .events = 1ull << 63,
                          .fingerprint = 0x0123456789abcdef,
                          .busiest = {"sip0.host.up", Time{45}, Time{123}}};
  system.energy.time = Time{67};
  system.energy.of(EnergyUnit::hbm) = {true, 1LL << 62, Wide{1LL << 62} * 31'203};
  const PointOutcome outcome{.ok = false, .rows = {row, Row()}, .systems = {system, {}}};
  const TemporaryFolder folder;
  { SweepJournal(folder.path("j"), kInputs).append("p", outcome); }
  const SweepJournal journal(folder.path("j"), kInputs);
  const PointOutcome* found = journal.find("p");
  REQUIRE(found != nullptr);
  CHECK_FALSE(found->ok);
  REQUIRE(found->rows.size() == 2);
  CHECK(found->rows[0].cells() == row.cells());
  CHECK(std::signbit(std::get<double>(*found->rows[0].find("minus zero"))));
  CHECK(found->rows[1].cells().empty());
  REQUIRE(found->systems.size() == 2);
  CHECK(found->systems[0].simulated == system.simulated);
  CHECK(found->systems[0].timed == system.timed);
  CHECK(found->systems[0].events == system.events);
  CHECK(found->systems[0].fingerprint == system.fingerprint);
  CHECK(found->systems[0].busiest.unit == "sip0.host.up");
  CHECK(found->systems[0].busiest.busy == Time{45});
  CHECK(found->systems[0].busiest.kernel_time == Time{123});
  CHECK(found->systems[0].energy == system.energy);
  CHECK(found->systems[1].busiest.unit.empty());
}

TEST_CASE("what other inputs have left is not used, and stays for them", "[journal]") {
  const TemporaryFolder folder;
  const std::string path = write_journal(folder);
  {
    SweepJournal other(path, kInputs + 1);
    CHECK(other.find("a") == nullptr);
    other.append("a", outcome_of(10));
  }
  CHECK(SweepJournal(path, kInputs).find("a")->rows[0].cells() == outcome_of(1).rows[0].cells());
  CHECK(SweepJournal(path, kInputs + 1).find("b") == nullptr);
}

TEST_CASE("a line that was torn at the end does not count as damage", "[journal][errors]") {
  const TemporaryFolder folder;
  const std::string path = write_journal(folder);
  const std::string whole = folder.read("s.journal");
  for (const std::size_t missing : {1, 2, 40}) {
    folder.write("s.journal", whole.substr(0, whole.size() - missing));
    SweepJournal journal(path, kInputs);
    CHECK(journal.damaged_count() == 0);
    CHECK(journal.find("b") != nullptr);
    CHECK(journal.find("c") == nullptr);
    journal.append("c", outcome_of(3));
    CHECK(folder.read("s.journal") == whole);
  }
}

TEST_CASE("a damaged line is found out, whichever byte it is", "[journal][errors]") {
  const TemporaryFolder folder;
  const std::string path = write_journal(folder);
  const std::string whole = folder.read("s.journal");
  const std::size_t begin = whole.find('\n') + 1;
  const std::size_t end = whole.find('\n', begin);
  for (std::size_t at = begin; at < end; ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    if (damaged[at] == '\n') continue;
    folder.write("s.journal", damaged);
    const SweepJournal journal(path, kInputs);
    CAPTURE(damaged);
    REQUIRE(journal.damaged_count() == 1);
    REQUIRE(journal.find("a") != nullptr);
    REQUIRE(journal.find("b") == nullptr);
    REQUIRE(journal.find("c") != nullptr);
  }
  CHECK(SweepJournal(path, kInputs).damaged_count() == 0);  // it was taken out
}

TEST_CASE("a journal of another form is all damage", "[journal][errors]") {
  const TemporaryFolder folder;
  const std::string json = "{\"point\": \"a\"}";
  folder.write("j", fmt::format("\n{:016x} {}\nx\n", content_hash(json), json));
  CHECK(SweepJournal(folder.path("j"), kInputs).damaged_count() == 3);
}

TEST_CASE("a line of another form is damage, though the checksum is its own", "[journal][errors]") {
  const auto is_point = [](const std::string& rows) {
    const std::string json = R"({"inputs":"fedcba9876543210","point":"p","ok":true,"rows":)" +
                             rows + R"(,"systems":[]})";
    return parse_line(fmt::format("{:016x} {}", content_hash(json), json)).has_value();
  };
  CHECK(is_point(R"([{"a":9223372036854775807,"b":{"real":"-inf"}}])"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& wrong :
       {std::string(R"({"a":1})"), std::string("[1]"), std::string("[[1]]"),
        std::string(R"([{"a":[1]}])"), std::string(R"([{"a":9223372036854775808}])"),
        std::string(R"([{"a":{"real":"1.5"}}])"), std::string(R"([{"a":{"real":"inf."}}])"),
        std::string(R"([{"a":{"real":"1e999"}}])"), deep}) {
    INFO(wrong.substr(0, 40));
    CHECK_FALSE(is_point(wrong));
  }
}

TEST_CASE("a journal without points leaves no file", "[journal]") {
  const TemporaryFolder folder;
  { const SweepJournal journal(folder.path("a/b/j"), kInputs); }
  CHECK(folder.names() == std::vector<std::string>{"a"});
  CHECK_FALSE(std::filesystem::exists(folder.path("a/b/j")));
}

TEST_CASE("text that JSON cannot hold is simulated again", "[journal]") {
  const TemporaryFolder folder;
  {
    SweepJournal journal(folder.path("j"), kInputs);
    journal.append("p", {.ok = true, .rows = {Row().set("name", "\xff")}, .systems = {}});
    CHECK(journal.failure() == 0);
  }
  CHECK(folder.names().empty());
}

TEST_CASE("a journal that cannot be written is told", "[journal][errors]") {
  const TemporaryFolder folder;
  folder.write("file", "");
  CHECK_THROWS_AS(SweepJournal(folder.path("file/j"), kInputs), IoError);
  CHECK_THROWS_AS(SweepJournal(folder.path(""), kInputs), IoError);  // a folder
}

}  // namespace kernbench::benches::sweep_journal_test
