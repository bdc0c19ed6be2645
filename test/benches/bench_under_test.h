// A bench without the program around it: what a test gives to code that wants one.

#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "benches/bench/bench.h"
#include "benches/bench/bench_request.h"
#include "benches/bench/inputs.h"
#include "benches/bench/report.h"

namespace kernbench::test {

class BenchUnderTest {
 public:
  explicit BenchUnderTest(int jobs) : BenchUnderTest(request_of(jobs)) {}
  explicit BenchUnderTest(benches::BenchRequest request)
      : bench(std::move(request), benches::Settings({}), console_) {}
  ~BenchUnderTest() { ::close(descriptor_); }
  BenchUnderTest(const BenchUnderTest&) = delete;
  BenchUnderTest& operator=(const BenchUnderTest&) = delete;

  static benches::BenchRequest request_of(int jobs) {
    return {.topology = benches::load_topology("tiny"), .ccl = {}, .trace = true, .jobs = jobs};
  }

  // Everything that the program would write for machines.
  std::string results() const {
    const benches::Report report{
        .bench = "b", .ok = bench.ok(), .rows = bench.rows(), .engine = bench.statistics()};
    std::string text = to_json(report) + to_csv(bench.rows());
    for (const std::string& trace : bench.traces()) text += trace;
    return text;
  }

 private:
  const int descriptor_ = ::open("/dev/null", O_WRONLY);
  benches::Console console_{descriptor_};

 public:
  benches::Bench bench;
};

}  // namespace kernbench::test
