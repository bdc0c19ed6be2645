// The reporter that test/runner gives to a process that runs test cases: Catch2's JUnit report of
// what failed, and a log that survives a crash.
//
// The reporter of Catch2 keeps the text of each assertion that passed; millions of them take
// gigabytes.  This one keeps those that failed.

#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

// The log has "+NAME" where a case begins, and "-SECONDS NAME" where it has passed or "!SECONDS
// NAME" where it has failed.  Each line is one write(): what was written before a crash stays.
class CaseReporter : public Catch::JunitReporter {
 public:
  explicit CaseReporter(const Catch::ReporterConfig& config) : Catch::JunitReporter(config) {
    m_reporterPrefs.shouldReportAllAssertions = false;
    if (const char* path = std::getenv("KERNBENCH_CASE_LOG")) {
      log_ = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    }
    unsetenv("KERNBENCH_CASE_LOG");  // programs that a case starts have no part in it
  }

  static std::string getDescription() {
    return "what fails, as JUnit's XML, and a log of cases for kernbench_run_tests";
  }

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    Catch::JunitReporter::testCaseStarting(info);
    timer_.start();
    write("+" + info.name);
  }

  // The report is written when all cases have ended: a process that dies before leaves this text.
  bool assertionEnded(const Catch::AssertionStats& stats) override {
    const Catch::AssertionResult& result = stats.assertionResult;
    if (!result.isOk()) {
      const Catch::SourceLineInfo at = result.getSourceInfo();
      std::fprintf(stderr, "%s:%zu: FAILED: %s\n  with %s\n  %s\n", at.file, at.line,
                   result.getExpressionInMacro().c_str(), result.getExpandedExpression().c_str(),
                   std::string(result.getMessage()).c_str());
    }
    return Catch::JunitReporter::assertionEnded(stats);
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    const bool passed = stats.totals.assertions.allOk();
    write((passed ? "-" : "!") + std::to_string(timer_.getElapsedSeconds()) + " " +
          stats.testInfo.name);
    Catch::JunitReporter::testCaseEnded(stats);
  }

 private:
  void write(const std::string& text) const {
    const std::string line = text + "\n";
    if (log_ >= 0 && ::write(log_, line.data(), line.size()) < 0) std::abort();
  }

  int log_ = -1;
  Catch::Timer timer_;
};

}  // namespace

CATCH_REGISTER_REPORTER("cases", CaseReporter)
