// The corpus, and whether a campaign sees what it is there to see.

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "test/fuzz/campaign.h"
#include "test/fuzz/mutations.h"
#include "test/fuzz/parser.h"

namespace kernbench::fuzz::fuzz_test {

namespace {

using Catch::Contains;

// A folder for the inputs that fail, which is gone afterwards.
class FailureFolder {
 public:
  FailureFolder() : path_(std::filesystem::temp_directory_path() / "kernbench-fuzz-XXXXXX") {
    std::string name = path_.string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder");
    path_ = name;
  }
  ~FailureFolder() { std::filesystem::remove_all(path_); }
  FailureFolder(const FailureFolder&) = delete;
  FailureFolder& operator=(const FailureFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

CampaignResult campaign(const Parser& parser, const FailureFolder& folder, std::uint64_t runs,
                        double limit_s = kLimit_s) {
  return run_campaign(
      parser,
      {.runs = runs, .limit_s = limit_s, .root = KERNBENCH_ROOT, .failures = folder.path()});
}

// A parser with one fault, which topology files with a `5` bring out.
Parser with_fault(void (*check)(std::string_view)) {
  return {.name = "wrong", .check = check, .shipped = {"topologies"}};
}

bool has_fault(std::string_view input) {
  return input.find('5') != std::string_view::npos;
}

void require_found(const Parser& parser, const std::string& text) {
  const FailureFolder folder;
  const CampaignResult result = campaign(parser, folder, 3, 0.05);
  CHECK(result.runs == 3);
  REQUIRE(result.failures.size() == 1);
  const Failure& failure = result.failures.front();
  CHECK_THAT(failure.text, Contains(text));
  const std::string input = read_bytes(failure.file);
  CHECK(has_fault(input));
  CHECK_THAT(failure_of(parser, input, 0.05), Contains(text));
}

}  // namespace

TEST_CASE("no input of the corpus finds anything", "[fuzz]") {
  for (const Parser& parser : parsers()) {
    for (const std::filesystem::path& file : input_files(parser, KERNBENCH_ROOT)) {
      const Verdict verdict = verdict_of(parser, read_bytes(file));
      INFO(file.string() << ": " << verdict.text);
      CHECK(verdict.kind != Verdict::Kind::finding);
    }
  }
}

TEST_CASE("each parser has inputs that it accepts", "[fuzz]") {
  for (const Parser& parser : parsers()) {
    int accepted = 0;
    for (const std::filesystem::path& file : input_files(parser, KERNBENCH_ROOT)) {
      if (verdict_of(parser, read_bytes(file)).kind == Verdict::Kind::accepted) ++accepted;
    }
    INFO(parser.name);
    CHECK(accepted > 0);
  }
}

TEST_CASE("a campaign of a seed is the same whenever it runs", "[fuzz][process]") {
  const FailureFolder folder;
  const Parser& parser = *find_parser("ccl");
  const CampaignResult first = campaign(parser, folder, 300);
  const CampaignResult second = campaign(parser, folder, 300);
  CHECK(first.failures.empty());
  CHECK(first.accepted == second.accepted);
  CHECK(first.kept == second.kept);
  CHECK(first.accepted > 0);
  CHECK(first.kept > 0);
}

TEST_CASE("a campaign finds a parser that crashes", "[fuzz][process]") {
  require_found(with_fault([](std::string_view input) {
                  if (has_fault(input)) std::raise(SIGKILL);
                }),
                "signal 9");
}

TEST_CASE("a campaign finds a parser that does not end", "[fuzz][process]") {
  require_found(with_fault([](std::string_view input) {
                  for (volatile bool hangs = has_fault(input); hangs;) continue;
                }),
                "has not ended within 0.05 s of CPU time");
}

TEST_CASE("a campaign finds a parser that throws what is no Error", "[fuzz][process]") {
  require_found(with_fault([](std::string_view input) {
                  if (has_fault(input)) throw std::out_of_range("a vector");
                }),
                "out_of_range: a vector");
}

TEST_CASE("a campaign finds a parser that reads back something else", "[fuzz][process]") {
  require_found(with_fault([](std::string_view input) {
                  if (has_fault(input)) throw Finding("another object");
                }),
                "another object");
}

TEST_CASE("an error of another exit code is a finding", "[fuzz]") {
  const Parser parser =
      with_fault([](std::string_view) { throw UsageError("KB-U001", "another kind of error"); });
  CHECK(verdict_of(parser, "x").text ==
        "exit code 2 instead of 3: [KB-U001] another kind of error");
}

TEST_CASE("every mutation works on every text, also on an empty one", "[fuzz]") {
  const std::string other = "a: 1\nb: [2, 3]\n";
  const Material material{.words = {"word"}, .other = &other};
  Random random(1);
  for (const Mutation mutate : mutations()) {
    for (const std::string text : {"", "\n", "a", "key: 12\n", "  - {a: 1.5}\n\n"}) {
      for (int i = 0; i < 50; ++i) {
        std::string mutated = text;
        mutate(mutated, random, material);
        CHECK(mutated.size() < 10'000);
      }
    }
  }
}

TEST_CASE("a line end behind a backslash belongs to a word", "[fuzz]") {
  CHECK(words_of("a\nb\\\nc\n\nd\n") == std::vector<std::string>{"a", "b\nc", "", "d"});
}

}  // namespace kernbench::fuzz::fuzz_test
