#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <latch>
#include <semaphore>

#include "benches/bench/bench.h"
#include "benches/bench/cell.h"
#include "benches/bench/context_set.h"
#include "runtime/torch/run_ranks.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/kernel_run.h"
#include "test/benches/bench_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::benches::sweep_test {

namespace {

using test::BenchUnderTest;

// An all_reduce of ones over all ranks: its sum and its time.
Row all_reduce(PointContext& point, std::int64_t n_elem) {
  const auto torch = point.make_context();
  torch->distributed.init_process_group("ahbm");
  float sum = 0;
  run_on_devices(*torch, torch->distributed.get_world_size(), [&](int rank) {
    Tensor x = torch->ones({1, n_elem}, {.dtype = DType::f16, .dp = DPPolicy::on_one_pe()});
    torch->distributed.all_reduce(x);
    if (rank == 0) sum = x.at({0, n_elem - 1});
  });
  point.check(sum == 2);
  return Row().set("n_elem", n_elem).set("sum", sum).set("ns", torch->engine().now_ns());
}

constexpr std::array kSizes = {4096, 1, 513, 64, 2048, 7};

// With as many jobs as points all of them are simulated at the same time.
std::string results_of_all_reduces(std::size_t jobs) {
  BenchUnderTest test(static_cast<int>(jobs));
  std::latch all_run(kSizes.size());
  Sweep sweep(test.bench, "all_reduce");
  for (const int n_elem : kSizes) {
    sweep.add(fmt::format("{}", n_elem), [=, &all_run](PointContext& point) {
      if (jobs == kSizes.size()) all_run.arrive_and_wait();
      return all_reduce(point, n_elem);
    });
  }
  CHECK(sweep.run().size() == kSizes.size());
  CHECK(test.run.ok());
  return test.results();
}

Row named(std::string_view name) {
  return Row().set("name", name);
}

std::vector<std::string> names_of(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(std::get<std::string>(*row.find("name")));
  return names;
}

// Messages until the point is interrupted.
void never_end(PointContext& point) {
  const auto torch = point.make_context();
  torch->distributed.init_process_group("ahbm");
  run_on_devices(*torch, torch->distributed.get_world_size(), [&](int) {
    while (true) torch->distributed.barrier();
  });
}

}  // namespace

TEST_CASE("rows are the same in one process and in several", "[sweep][determinism]") {
  const auto results = [](int jobs) {
    BenchRequest request = BenchUnderTest::request_of(jobs);
    request.recording = {};
    BenchUnderTest test(request);
    Sweep sweep(test.bench, "all_reduce");
    for (const int n_elem : kSizes) {
      sweep.add(fmt::format("{}", n_elem),
                [n_elem](PointContext& point) { return all_reduce(point, n_elem); });
    }
    CHECK(sweep.run().size() == kSizes.size());
    return test.results();
  };
  const std::string alone = results(1);
  CHECK_THAT(alone, Catch::Contains("\"sum\": 2"));
  CHECK(results(2) == alone);
  CHECK(results(8) == alone);
}

TEST_CASE("points that run at once share the memory", "[sweep]") {
  BenchUnderTest test(4);
  Sweep sweep(test.bench, "large");
  sweep.limit_memory(10);
  std::atomic<int> used = 0;
  std::atomic<bool> is_too_much = false;
  for (const int bytes : {6, 5, 4, 3, 12, 6, 4}) {  // 12 runs alone
    sweep.add(
        fmt::format("{} of {}", bytes, used++),
        [&, bytes](PointContext&) {
          const int all = used += bytes;
          if (all > std::max(10, bytes)) is_too_much = true;
          used -= bytes;
          return Row();
        },
        bytes);
  }
  used = 0;
  sweep.run();
  CHECK_FALSE(is_too_much);
}

TEST_CASE("a sweep's results are the same bytes for any number of jobs", "[sweep][determinism]") {
  const std::string results = results_of_all_reduces(1);
  CHECK_THAT(results, Catch::Contains("\"sum\": 2"));
  CHECK(results_of_all_reduces(2) == results);
  CHECK(results_of_all_reduces(4) == results);
  CHECK(results_of_all_reduces(kSizes.size()) == results);
}

TEST_CASE("points are simulated in other orders of simultaneous events, and rows say the spread",
          "[sweep][ties]") {
  BenchRequest request = BenchUnderTest::request_of(2);
  request.tie_orders = 3;
  BenchUnderTest test(std::move(request));
  Sweep sweep(test.bench, "orders");
  int calls = 0;
  sweep.add("equal", [&](PointContext& point) { return all_reduce(point, 64); });
  sweep.add("differs", [&](PointContext& point) {
    const auto torch = point.make_context();
    CHECK(torch->options().shuffle_ties.has_value() == (calls > 0));
    constexpr std::array kTimes = {100.0, 110.0, 99.0, 108.9};
    return Row().set("time_ns", kTimes.at(static_cast<std::size_t>(calls++))).set("other", calls);
  });
  const std::vector<Row> rows = sweep.run();
  CHECK(std::get<double>(*rows.at(0).find("tie_spread")) == 0);
  CHECK(std::get<double>(*rows.at(1).find("tie_spread")) == Approx(11.0 / 99));
  CHECK(std::holds_alternative<std::nullptr_t>(*rows.at(0).find("tie_column")));
  CHECK(std::get<std::string>(*rows.at(1).find("tie_column")) == "time_ns");
  CHECK(std::get<double>(*rows.at(1).find("time_ns")) == 100);  // in the usual order
  CHECK(test.run.statistics().system_count == 2);               // without the others
}

TEST_CASE("a point that fails in another order of simultaneous events has its error in its row",
          "[sweep][ties]") {
  BenchRequest request = BenchUnderTest::request_of(1);
  request.tie_orders = 3;
  BenchUnderTest test(std::move(request));
  Sweep sweep(test.bench, "orders");
  int calls = 0;
  sweep.add("fails in the second", [&](PointContext& point) {
    const bool fails = calls++ == 2;
    point.check(!fails);
    if (fails) return std::vector{Row().set("error", "[KB-D001] no")};
    return std::vector{Row().set("time_ns", 100.0 * calls).set("hidden_ns", calls - 1.0),
                       Row().set("time_ns", 100.0)};
  });
  const std::vector<Row> rows = sweep.run();
  CHECK(calls == 4);
  REQUIRE(rows.size() == 2);
  CHECK(std::get<std::string>(*rows[0].find("error")) == "with --shuffle-ties 2: [KB-D001] no");
  CHECK(rows[1].find("error") == nullptr);
  CHECK(std::get<double>(*rows[0].find("tie_spread")) == 3);  // hidden_ns has been 0
  CHECK(std::get<double>(*rows[1].find("tie_spread")) == 0);
  CHECK(!test.run.ok());
}

TEST_CASE("rows come in the order of the points, not of their ends", "[sweep]") {
  constexpr int kPoints = 4;
  BenchUnderTest test(kPoints);
  Sweep sweep(test.bench, "reversed");
  std::array<std::binary_semaphore, kPoints + 1> ended = {
      std::binary_semaphore(0), std::binary_semaphore(0), std::binary_semaphore(0),
      std::binary_semaphore(0), std::binary_semaphore(1)};
  for (std::size_t i = 0; i < kPoints; ++i) {
    sweep.add(fmt::format("{}", i), [i, &ended](PointContext&) {
      ended[i + 1].acquire();  // the point behind this one
      ended[i].release();
      return std::vector<Row>{named(fmt::format("{}a", i)), named(fmt::format("{}b", i))};
    });
  }
  const std::vector<std::string> names = names_of(sweep.run());
  CHECK(names == std::vector<std::string>{"0a", "0b", "1a", "1b", "2a", "2b", "3a", "3b"});
  CHECK(names_of(test.run.rows()) == names);
}

TEST_CASE("the first point that fails decides, and those behind it are interrupted",
          "[sweep][errors]") {
  const int jobs = GENERATE(1, 5);
  BenchUnderTest test(jobs);
  Sweep sweep(test.bench, "failing");
  std::latch all_run(jobs);
  std::binary_semaphore last_has_ended(jobs == 1 ? 1 : 0);
  sweep.add("fine", [&](PointContext&) {
    if (jobs > 1) all_run.arrive_and_wait();
    return named("fine");
  });
  sweep.add("fails last", [&](PointContext&) -> Row {
    if (jobs > 1) all_run.arrive_and_wait();
    last_has_ended.acquire();
    throw DeviceError("KB-M010", "the first in order");
  });
  sweep.add("is interrupted by the second failure", [&](PointContext& point) {
    all_run.arrive_and_wait();
    never_end(point);
    return Row();
  });
  sweep.add("fails first", [&](PointContext&) -> Row {
    all_run.arrive_and_wait();
    throw std::runtime_error("the last in order");
  });
  sweep.add("is interrupted by the first failure", [&](PointContext& point) {
    all_run.arrive_and_wait();
    try {
      never_end(point);
    } catch (...) {
      last_has_ended.release();
      throw;
    }
    return Row();
  });
  CHECK_THROWS_WITH(sweep.run(), "[KB-M010] the first in order");
  CHECK(names_of(test.run.rows()) == std::vector<std::string>{"fine"});
}

TEST_CASE("a failure does not depend on the number of jobs", "[sweep][errors][determinism]") {
  const auto results = [](int jobs) {
    BenchUnderTest test(jobs);
    Sweep sweep(test.bench, "failing");
    for (const std::int64_t n_elem : {64, 128, 96, 256, 512, 32, 1024}) {
      sweep.add(fmt::format("{}", n_elem), [n_elem](PointContext& point) {
        Row row = all_reduce(point, n_elem);
        if (n_elem < 100 && n_elem != 64) throw DeviceError("KB-M010", fmt::format("{}", n_elem));
        return row;
      });
    }
    CHECK_THROWS_WITH(sweep.run(), "[KB-M010] 96");
    CHECK(test.run.rows().size() == 2);
    CHECK(test.run.contexts.traces().size() == 3);
    return test.results();
  };
  const std::string serial = results(1);
  CHECK(results(3) == serial);
}

TEST_CASE("a point that fails its check makes the report not ok", "[sweep][errors]") {
  BenchUnderTest test(2);
  Sweep sweep(test.bench, "wrong");
  sweep.add("right", [](PointContext& point) {
    point.check(true);
    return named("right");
  });
  sweep.add("wrong", [](PointContext& point) {
    point.check(false);
    point.check(true);
    return named("wrong");
  });
  CHECK(sweep.run().size() == 2);
  CHECK_FALSE(test.run.ok());
}

TEST_CASE("an interrupt ends all points that run, and keeps the rows that are finished",
          "[sweep][errors]") {
  BenchUnderTest test(3);
  Sweep sweep(test.bench, "interrupted");
  std::latch all_run(3);
  std::latch interrupted(1);
  std::string refusal;
  sweep.add("first", [&](PointContext& point) {
    all_run.arrive_and_wait();
    never_end(point);
    return Row();
  });
  sweep.add("second", [&](PointContext&) {
    all_run.arrive_and_wait();
    interrupted.wait();
    return named("second");
  });
  sweep.add("third", [&](PointContext& point) {
    all_run.arrive_and_wait();
    test.run.interrupt();
    interrupted.count_down();
    try {
      point.make_context();
    } catch (const Error& error) {
      refusal = error.what();
    }
    return named("third");
  });
  sweep.add("never begins", [](PointContext&) { return named("never begins"); });
  CHECK_THROWS_MATCHES(sweep.run(), Error, test::Says("KB-S001", "2 of 4", "--out DIR"));
  CHECK_THAT(refusal, test::Says("KB-S001", "interrupted"));
  CHECK(names_of(test.run.rows()) == std::vector<std::string>{"second", "third"});
}

TEST_CASE("a sweep without points has no rows", "[sweep]") {
  BenchUnderTest test(2);
  CHECK(Sweep(test.bench, "empty").run().empty());
}

TEST_CASE("what would make a sweep ambiguous is the bench's fault", "[sweep][errors]") {
  BenchUnderTest test(1);
  Sweep sweep(test.bench, "s");
  const auto point = [](PointContext&) { return Row(); };
  sweep.add("a", point);
  CHECK_THROWS_AS(sweep.add("a", point), InternalError);
  sweep.run();
  CHECK_THROWS_AS(sweep.run(), InternalError);
}

TEST_CASE("a context does not outlive its point", "[sweep][errors]") {
  BenchUnderTest test(1);
  ContextSet::Context kept;
  {
    Sweep sweep(test.bench, "keeps");
    sweep.add("a", [&](PointContext& point) {
      kept = point.make_context();
      return Row();
    });
    CHECK_THROWS_WITH(sweep.run(), Catch::Contains("'a' of the sweep 'keeps' keeps a context"));
    kept.reset();
  }
}

}  // namespace kernbench::benches::sweep_test
