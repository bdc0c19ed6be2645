// How kernbench_run_tests reports cases that end in every bad way.

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "test/runner/cases.h"
#include "test/runner/junit.h"
#include "test/runner/run.h"

namespace kernbench::runner::runner_test {

namespace {

namespace fs = std::filesystem;

// A folder of this process, gone at the end.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("kernbench_runner_" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

Suite run_bad_cases(const fs::path& folder) {
  return run_cases({BAD_CASES_PROGRAM},
                   {.jobs = 2, .limit = std::chrono::seconds(2), .folder = folder, .tag = ""})
      .at(0);
}

}  // namespace

TEST_CASE("each case is reported, whatever became of its process") {
  const Folder folder;
  const Suite suite = run_bad_cases(folder.path);
  CHECK(suite.cases.size() == 8);
  CHECK(suite.failure_count() == 5);
  CHECK(suite.outcomes.at("passes before the crash").passed);
  CHECK(suite.outcomes.at("passes behind the crash").passed);
  CHECK(suite.outcomes.at("has a process of its own").passed);
  CHECK_THAT(suite.outcomes.at("crashes, with a comma and a [bracket]").text,
             Catch::Contains("SIGSEGV") || Catch::Contains("signal 11"));
  CHECK_THAT(suite.outcomes.at("fails in a section").text, Catch::Contains("1 + 1 == 3"));
  CHECK_THAT(suite.outcomes.at("fails twice in a process of its own").text,
             Catch::Contains("1 + 1 == 3") && Catch::Contains("1 + 1 == 4") &&
                 !Catch::Contains("exit code"));
  CHECK_THAT(suite.outcomes.at("ends the process").text, Catch::Contains("exit code 0"));
  CHECK_THAT(suite.outcomes.at("never ends").text, Catch::Contains("no end within 2 s"));
}

TEST_CASE("the JUnit file has an element for each case") {
  const Folder folder;
  write_junit({{"one",
                {"a < b", "c"},
                {{"a < b", {true, 1, ""}}, {"c", {false, 2, "      <failure/>\n"}}}}},
              folder.path / "junit.xml");
  std::ifstream stream(folder.path / "junit.xml");
  const std::string text = (std::ostringstream() << stream.rdbuf()).str();
  CHECK(text ==
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
        "  <testsuite name=\"one\" tests=\"2\" failures=\"1\" time=\"3.000\">\n"
        "    <testcase classname=\"one\" name=\"a &lt; b\" time=\"1.000\"/>\n"
        "    <testcase classname=\"one\" name=\"c\" time=\"2.000\">\n"
        "      <failure/>\n    </testcase>\n"
        "  </testsuite>\n</testsuites>\n");
}

TEST_CASE("hidden cases are not selected by what others are excluded with") {
  const std::vector<std::string> names = list_cases(BAD_CASES_PROGRAM, "~[process]");
  CHECK(names.size() == 6);
  CHECK(std::ranges::count(names, "is hidden") == 0);
}

TEST_CASE("long cases come first, and [process] cases are alone in their batch") {
  const std::vector<Batch> batches = cut_into_batches(
      {BAD_CASES_PROGRAM}, {{"passes behind the crash", 9}, {"has a process of its own", 1}}, 2);
  REQUIRE(batches.size() == 4);
  CHECK(batches[0].cases.back() == "passes behind the crash");
  CHECK(batches[1].cases == std::vector<std::string>{"has a process of its own"});
  CHECK(batches[2].cases.back() == "never ends");
  CHECK(batches[3].cases == std::vector<std::string>{"fails twice in a process of its own"});
}

TEST_CASE("a specification of Catch2 quotes what it would read as its own") {
  CHECK(specification("a, [b] \"c\" \\d") == "\"a\\, \\[b] \\\"c\\\" \\\\d\"");
}

}  // namespace kernbench::runner::runner_test
