// benches::variants::parse_ranges(): what --uncertain gives, ranges in one line or in several.

#include "benches/variants/ranges.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "benches/bench/bench.h"
#include "test/fuzz/parser.h"

namespace kernbench::fuzz::ranges {

namespace {

using benches::variants::Keys;
using benches::variants::Range;

constexpr std::string_view kOption = "--uncertain";

const Keys& keys() {
  static const benches::BenchInfo bench{"b",
                                        "",
                                        {{"count", "1", "", benches::SettingType::integer},
                                         {"bytes", "8", "", benches::SettingType::size},
                                         {"rate", "0.5", "", benches::SettingType::number}},
                                        nullptr};
  static const Keys all({.bench = &bench, .topology = "tiny"});
  return all;
}

std::vector<std::string> print(const std::vector<Range>& ranges) {
  std::vector<std::string> texts;
  for (const Range& range : ranges) {
    texts.push_back(fmt::format("{}={}..{}", range.key->name, range.at(range.low).value,
                                range.at(range.high).value));
  }
  return texts;
}

void check(std::string_view input) {
  const std::vector<std::string> printed =
      print(benches::variants::parse_ranges(kOption, words_of(input), keys()));
  try {
    // Printing may need a finer unit once.
    const auto again = print(benches::variants::parse_ranges(kOption, printed, keys()));
    if (print(benches::variants::parse_ranges(kOption, again, keys())) == again) return;
    throw Finding("printed and read again it is another range: " + again.front());
  } catch (const Error& error) {
    throw Finding(fmt::format("accepted, and refused when printed: {}", error.what()));
  }
}

}  // namespace

Parser parser() {
  return {.name = "ranges",
          .check = check,
          .refusal = ExitCode::usage,
          .words =
              "sip_link.latency sip_link.bandwidth hbm.efficiency gemm.clock slot depth count "
              "bytes rate energy.hbm wait = .. . , ps ns us ms s GB/s GiB/s KiB/s B/s MHz GHz % KB "
              "KiB MiB B Ki pJ/bit fJ/B pJ/FLOP unlimited 0.1 1.5 1e3 -1"};
}

}  // namespace kernbench::fuzz::ranges
