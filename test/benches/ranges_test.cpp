// Ranges of keys: their forms, their errors, and values in them.

#include "benches/variants/ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "benches/variants/variants.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/yaml_scalar.h"
#include "test/support/error_text.h"

namespace kernbench::test::ranges_test {

using namespace benches;
using variants::Keys;
using variants::Range;
using Words = std::vector<std::string>;

namespace {

const BenchInfo kCopies{"copies",
                        "",
                        {{"count", "1", "", SettingType::integer},
                         {"bytes", "8", "", SettingType::size},
                         {"rate", "0.5", "", SettingType::number},
                         {"sizes", "8", "", SettingType::integers},
                         {"latency", "1", "", SettingType::integer}},
                        nullptr};

const Keys& keys() {
  static const Keys all({.bench = &kCopies, .topology = "tiny"});
  return all;
}

Range range_of(const std::string& text) {
  const std::vector<Range> ranges = variants::parse_ranges("--uncertain", {text}, keys());
  REQUIRE(ranges.size() == 1);
  return ranges.front();
}

// "system.sip_link.latency 250 900 ns"
std::string written(const std::string& text) {
  const Range range = range_of(text);
  return fmt::format("{} {} {}{}{}", range.key->name, range.low, range.high,
                     range.unit.empty() ? "" : " ", range.unit);
}

std::string error_of_range(const Words& texts) {
  return error_of<UsageError>([&] { variants::parse_ranges("--uncertain", texts, keys()); });
}

// Values at which units, roundings and ends differ.
std::vector<double> samples_of(const Range& range) {
  std::vector<double> values;
  for (int i = 0; i <= 97; ++i) values.push_back(range.low + (range.high - range.low) * i / 97);
  return values;
}

}  // namespace

TEST_CASE("a range has two ends, and a unit that stands for both", "[ranges]") {
  CHECK(written("sip_link.latency=250..900ns") == "system.sip_link.latency 250 900 ns");
  CHECK(written("system.sip_link.latency = 250 ns .. 900 ns") ==
        "system.sip_link.latency 250 900 ns");
  CHECK(written("sip_link.latency=250ns..900") == "system.sip_link.latency 250 900 ns");
  CHECK(written("sip_link.bandwidth=40 GB/s..64 GB/s") == "system.sip_link.bandwidth 40 64 GB/s");
  CHECK(written("host_link.issue=0..10us") == "system.host_link.issue 0 10 us");
  CHECK(written("sip_link.latency=1.5..2.25ns") == "system.sip_link.latency 1.5 2.25 ns");
  CHECK(written("hbm.efficiency=80..92.5 %") == "cube.hbm.efficiency 80 92.5 %");
  CHECK(written("gemm.clock=900MHz..1.5GHz") == "pe.gemm.clock 900 1500 MHz");
  CHECK(written("slot=4..64KiB") == "slot 4 64 KiB");
  CHECK(written("slot=1.5..64KiB") == "slot 1536 65536 B");  // both are whole
  CHECK(written("depth=1..16") == "depth 1 16");
  CHECK(written("count=3..5") == "count 3 5");
  CHECK(written("bytes=8..1024") == "bytes 8 1024 B");
  CHECK(written("bytes=1Ki..64Ki") == "bytes 1 64 KiB");
  CHECK(written("rate=0.25..1") == "rate 0.25 1");
  CHECK(range_of("slot=4..64KiB").is_whole);
  CHECK(range_of("depth=1..16").is_whole);
  CHECK_FALSE(range_of("sip_link.latency=1..2ns").is_whole);
}

TEST_CASE("several ranges stand between commas or as several words", "[ranges]") {
  for (const Words& texts : {Words{"sip_link.latency=250..900ns,depth=1..4", "ucie.latency=1..2ns"},
                             Words{"sip_link.latency=250..900ns",
                                   " depth = 1 .. 4 ,"
                                   "ucie.latency=1..2ns"}}) {
    const std::vector<Range> ranges = variants::parse_ranges("--uncertain", texts, keys());
    REQUIRE(ranges.size() == 3);
    CHECK(ranges[0].key->name == "system.sip_link.latency");
    CHECK(ranges[1].key->name == "depth");
    CHECK(ranges[2].key->name == "sip.ucie.latency");
  }
}

TEST_CASE("a key's whole name comes before its being an ending of others", "[ranges]") {
  CHECK(range_of("latency=1..2").key->owner == variants::KeyOwner::bench);
  CHECK_THAT(error_of_range({"bandwidth=1..2 GB/s"}),
             Says("KB-U011", "--uncertain", "'bandwidth'", "system.sip_link.bandwidth",
                  "sip.ucie.bandwidth"));
}

TEST_CASE("a value in a range is a text that its file's reader takes", "[ranges]") {
  CHECK(range_of("sip_link.latency=250..900ns").at(412.5).value == "412.5 ns");
  CHECK(range_of("sip_link.latency=250..900ns").at(412.0006).value == "412.001 ns");  // whole ps
  CHECK(range_of("sip_link.latency=0..10us").at(1.0 / 3).value == "0.333333 us");
  CHECK(range_of("sip_link.bandwidth=1..2 GiB/s").at(1.1).value == "1181116006 B/s");
  CHECK(range_of("sip_link.bandwidth=1..2 GiB/s").at(1.5).value == "1.5 GiB/s");
  CHECK(range_of("slot=4..64KiB").at(9.6).value == "10 KiB");
  CHECK(range_of("depth=1..16").at(2.4).value == "2");
  CHECK(range_of("bytes=1..64Ki").at(3).value == "3072");
  CHECK(range_of("rate=0.25..1").at(0.3).value == "0.3");
  CHECK(range_of("hbm.efficiency=80..92.5%").at(81.23456).value == "81.2346 %");
  CHECK(range_of("depth=1..16").at(99).value == "16");  // the nearest one
  CHECK(range_of("depth=1..16").at(-3).value == "1");
}

TEST_CASE("values of ranges of all kinds are read back as they are", "[ranges]") {
  const auto check = [](const std::string& text, const Quantity& quantity) {
    const Range range = range_of(text);
    for (const double value : samples_of(range)) {
      const std::string at = range.at(value).value;
      const ParsedScalar parsed = parse_quantity(at, quantity);
      CAPTURE(text, value, at, parsed.fault);
      CHECK(parsed.code.empty());
      const double scale = static_cast<double>(
          std::ranges::find(quantity.units, range.unit, &QuantityUnit::name)->scale);
      const double rounding = range.is_whole ? scale / 2 : 0.5;
      CHECK(std::abs(static_cast<double>(parsed.value) - value * scale) <= rounding + 1e-3);
    }
  };
  check("sip_link.latency=250..900ns", time_quantity());
  check("sip_link.latency=1 ps..1 s", time_quantity());
  check("sip_link.bandwidth=1 MB/s..1000 TB/s", bandwidth_quantity());
  check("sip_link.bandwidth=3..4 TiB/s", bandwidth_quantity());
  check("gemm.clock=0.5..2 GHz", frequency_quantity());
  check("hbm.efficiency=0.1..100 %", share_quantity());
  check("pe.tcm.capacity=1..3 MiB", bytes_quantity(0, std::int64_t{1} << 40));
}

TEST_CASE("energies have ranges too", "[ranges]") {
  static const Keys all({.topology = "default"});
  const auto ranges = variants::parse_ranges(
      "--uncertain", {"energy.hbm=3..4.5 pJ/bit, energy.gemm_f16=0.2..0.4pJ/FLOP"}, all);
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0].at(3.9).value == "3.9 pJ/bit");
  CHECK(ranges[0].at(3.0001).value == "3.000125 pJ/bit");  // a whole fJ for a byte
  CHECK(ranges[1].at(0.25).value == "0.25 pJ/FLOP");
}

TEST_CASE("a variant with a range's value has it", "[ranges]") {
  const variants::VariantMaker maker({.bench = &kCopies, .topologies = "tiny"});
  const auto ranges = variants::parse_ranges(
      "--uncertain", {"sip_link.latency=250..900ns,depth=1..16"}, maker.keys());
  const std::vector<variants::Choice> values = {ranges[0].at(412.5), ranges[1].at(7)};
  const variants::Variant variant = maker.first(values);
  CHECK(variant.topology.system.sip_link.latency == Time{412'500});
  CHECK(variant.ccl.ipcq().depth == 7);
}

TEST_CASE("overheads of protocols and sizes of rules have ranges", "[ranges]") {
  const variants::VariantMaker maker({.bench = &kCopies, .topologies = "h100_8"});
  const auto ranges = variants::parse_ranges(
      "--uncertain",
      {"LL.start=0..10us,protocols.NVLS.latency=500..1500ns,rules.1.up_to=64..512KiB"},
      maker.keys());
  REQUIRE(ranges.size() == 3);
  CHECK(ranges[0].key->name == "protocols.LL.start");
  CHECK(ranges[2].at(300).value == "300 KiB");
  std::vector<variants::Choice> values;
  for (const Range& range : ranges) values.push_back(range.at(range.low));
  CHECK_FALSE(maker.first(values).ccl_name.empty());
}

TEST_CASE("a text that is no range is refused with what would be one", "[ranges][errors]") {
  CHECK_THAT(error_of_range({"sip_link.latency"}),
             Says("KB-U021", "--uncertain", "'sip_link.latency'", "KEY=LOW..HIGH"));
  CHECK_THAT(error_of_range({""}), Says("KB-U021", "KEY=LOW..HIGH"));
  CHECK_THAT(error_of_range({"sip_link.latency=250ns"}), Says("KB-U021", "LOW..HIGH"));
  CHECK_THAT(error_of_range({"sip_link.latency=250..ns,depth=1..2"}),
             Says("KB-U012", "high end", "'ns'"));
  CHECK_THAT(error_of_range({"sip_link.latency=..900ns"}), Says("KB-U021", "two ends"));
  CHECK_THAT(error_of_range({"sip_link.latency=250ns.."}), Says("KB-U021", "two ends"));
  CHECK_THAT(error_of_range({"sip_link.latncy=1..2ns"}),
             Says("KB-U011", "'sip_link.latncy'", "'system.sip_link.latency'"));
  CHECK_THAT(error_of_range({"dpth=1..2"}), Says("KB-U011", "'dpth'", "'depth'", "ccl.yaml"));
  CHECK_THAT(error_of_range({"wait=1..2"}), Says("KB-U021", "wait", "name"));
  CHECK_THAT(error_of_range({"sizes=1..2"}), Says("KB-U021", "sizes", "list"));
  CHECK_THAT(error_of_range({"pe_layout.corners=1..2"}), Says("KB-U021", "list"));
  CHECK_THAT(error_of_range({"depth=1..2,depth=3..4"}), Says("KB-U021", "depth", "two"));
  CHECK_THAT(error_of_range({"sip_link.latency=1..2ns", "system.sip_link.latency=1..2ns"}),
             Says("KB-U021", "system.sip_link.latency", "two"));
}

TEST_CASE("an end that its key cannot have is named, with what is allowed", "[ranges][errors]") {
  CHECK_THAT(error_of_range({"depth=0..4"}), Says("KB-U012", "low end", "0", "[1, 1024]"));
  CHECK_THAT(error_of_range({"depth=4..5000"}), Says("KB-U012", "high end", "5000", "[1, 1024]"));
  CHECK_THAT(error_of_range({"depth=1.5..4"}), Says("KB-U012", "low end", "integer", "'1.5'"));
  CHECK_THAT(error_of_range({"sip_link.latency=1ns..2s"}),
             Says("KB-U012", "high end", "2 s", "[0 ps, 1 s]"));
  CHECK_THAT(error_of_range({"sip_link.bandwidth=0..2 GB/s"}),
             Says("KB-U012", "low end", "1 MB/s"));
  CHECK_THAT(error_of_range({"sip_link.bandwidth=1 GB/s..unlimited"}),
             Says("KB-U012", "high end", "unlimited"));
  CHECK_THAT(error_of_range({"sip_link.latency=250..900"}), Says("KB-U012", "unit", "ns"));
  CHECK_THAT(error_of_range({"sip_link.latency=1..2GB/s"}), Says("KB-U012", "'GB/s'", "a time"));
  CHECK_THAT(error_of_range({"sip_link.latency=1ns..2GB/s"}),
             Says("KB-U012", "high end", "'GB/s'"));
  CHECK_THAT(error_of_range({"sip_link.latency=900..250ns"}),
             Says("KB-U012", "900 ns", "not below", "250 ns"));
  CHECK_THAT(error_of_range({"depth=4..4"}), Says("KB-U012", "not below"));
  CHECK_THAT(error_of_range({"rate=a..2"}), Says("KB-U012", "low end", "number", "'a'"));
  CHECK_THAT(error_of_range({"sip_link.latency=-5..5ns"}), Says("KB-U012", "low end"));
}

TEST_CASE("a value of a range is shown with four digits", "[ranges]") {
  CHECK(range_of("sip_link.latency=250..900ns").show(412.34567) == "412.3 ns");
  CHECK(range_of("depth=1..1000").show(412.6) == "413");
  CHECK(range_of("rate=0.25..1").show(0.75) == "0.75");
}

}  // namespace kernbench::test::ranges_test
