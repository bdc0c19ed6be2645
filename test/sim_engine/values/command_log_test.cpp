#include "sim_engine/trace/command_log.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <set>

namespace kernbench::sim::command_log_test {

namespace {

OpRecord record_number(std::int64_t number) {
  return {OpKind::send, DType::f16,       static_cast<std::uint32_t>(number % 7),
          Time{number}, Time{number + 5}, 2 * number,
          number};
}

}  // namespace

TEST_CASE("the log keeps its records in order, over any number of chunks", "[op_log]") {
  CommandLog log;
  CHECK(log.begin() == log.end());
  constexpr std::int64_t kCount = 10'000;
  log.append(record_number(0));
  const OpRecord* const first = &log[0];
  for (std::int64_t i = 1; i < kCount; ++i) log.append(record_number(i));
  CHECK(log.size() == kCount);
  CHECK(&log[0] == first);
  std::int64_t next = 0;
  int wrong = 0;
  for (const OpRecord& record : log) wrong += !(record == record_number(next++));
  CHECK(wrong == 0);
  CHECK(next == kCount);
  CHECK(log[2048] == record_number(2048));
  CHECK(std::next(log.begin(), 4095)->element_count == 4095);
}

TEST_CASE("a log with a limit keeps the last records, under their numbers, and counts all",
          "[op_log]") {
  constexpr std::size_t kLimit = 5000;
  CommandLog log(kLimit);
  for (std::int64_t i = 0; i < 20'000; ++i) {
    log.append(record_number(i));
    const auto size = static_cast<std::size_t>(i + 1);
    REQUIRE(log.first() <= size - std::min(size, kLimit));
    REQUIRE(size - log.first() < kLimit + 2 * 2048);
  }
  CHECK(log.size() == 20'000);
  CHECK(log.count(OpKind::send) == 20'000);
  CHECK(log.first() > 10'000);
  auto next = static_cast<std::int64_t>(log.first());
  for (const OpRecord& record : log) REQUIRE(record == record_number(next++));
  CHECK(next == 20'000);
}

TEST_CASE("the log counts its records by kind", "[op_log]") {
  CommandLog log;
  for (int i = 0; i < 3; ++i) log.append({.kind = OpKind::math});
  log.append({.kind = OpKind::copy_in});
  CHECK(log.count(OpKind::math) == 3);
  CHECK(log.count(OpKind::copy_in) == 1);
  CHECK(log.count(OpKind::load) == 0);
}

TEST_CASE("every kind of operation has its name", "[op_log]") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kOpKindCount; ++i) names.insert(name_of(static_cast<OpKind>(i)));
  CHECK(names == std::set<std::string_view>{"load", "store", "math", "send", "recv", "copy_in",
                                            "gemm", "composite"});
  CHECK(name_of(OpKind::copy_in) == "copy_in");
}

TEST_CASE("a record's digest depends on each of its fields", "[op_log]") {
  const OpRecord base = record_number(3);
  std::vector<OpRecord> changed(8, base);
  changed[1].kind = OpKind::recv;
  changed[2].dtype = DType::bf16;
  changed[3].unit += 1;
  changed[4].start += Time{1};
  changed[5].end += Time{1};
  changed[6].bytes += 1;
  changed[7].element_count += 1;
  std::set<std::uint64_t> digests;
  for (const OpRecord& record : changed) digests.insert(digest(record, 128));
  CHECK(digests.size() == changed.size());
  CHECK(digest(base, 128) == digest(record_number(3), 128));
}

}  // namespace kernbench::sim::command_log_test
