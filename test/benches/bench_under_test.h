// A bench without the program around it: what a test gives to code that wants one.

#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "benches/bench/bench_run.h"
#include "benches/bench/inputs.h"
#include "benches/bench/report.h"

namespace kernbench::test {

class BenchUnderTest {
 public:
  explicit BenchUnderTest(int jobs) : BenchUnderTest(request_of(jobs)) {}
  explicit BenchUnderTest(benches::BenchRequest request)
      : run(std::move(request), benches::Settings({}), console_) {}
  ~BenchUnderTest() { ::close(descriptor_); }
  BenchUnderTest(const BenchUnderTest&) = delete;
  BenchUnderTest& operator=(const BenchUnderTest&) = delete;

  static benches::BenchRequest request_of(int jobs) {
    return {.topology = benches::load_topology("tiny"),
            .ccl = {},
            .recording = {.trace = runtime::TraceLevel::units},
            .jobs = jobs};
  }

  // Everything that the program would write for machines.
  std::string results() const {
    const benches::Report report{
        .bench = "b", .ok = run.ok(), .rows = run.rows(), .engine = run.statistics()};
    std::string text = to_json(report) + to_csv(run.rows());
    for (const std::string& trace : run.contexts.traces()) text += trace;
    return text;
  }

 private:
  const int descriptor_ = ::open("/dev/null", O_WRONLY);
  benches::Console console_{descriptor_};

 public:
  benches::BenchRun run;
  benches::Bench bench{run};
};

}  // namespace kernbench::test
