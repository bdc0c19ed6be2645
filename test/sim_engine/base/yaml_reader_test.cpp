#include "sim_engine/config/yaml_reader.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <limits>

#include "sim_engine/base/dtype.h"
#include "test/support/error_text.h"

namespace kernbench::yaml_reader_test {

namespace {

using Catch::Contains;
using Catch::StartsWith;
using test::Says;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

// Runs `read` over the top map of `text`; returns the errors.
template <class Read>
std::string errors_of(std::string_view text, Read read) {
  return test::config_error_of([&] {
    const YamlDocument document = YamlDocument::parse(text, "t.yaml");
    YamlReader reader(document);
    {
      YamlMap map = reader.map(document.root());
      read(map);
    }
    reader.finish();
  });
}

// The value of "x: <text>", read by `get`; the message without its position if it is wrong.
template <class Get>
std::string value_of(const std::string& text, Get get) {
  std::string value;
  const std::string errors =
      errors_of("x: " + text, [&](YamlMap& map) { value = fmt::format("{}", get(map)); });
  if (errors == "no error") return value;
  CHECK_THAT(errors, StartsWith("t.yaml:1:4: [KB-Y0"));
  return errors.substr(std::string("t.yaml:1:4: ").size());
}

std::string integer(const std::string& text, std::int64_t min = 1, std::int64_t max = 65536) {
  return value_of(text, [&](YamlMap& map) { return map.integer("x", min, max); });
}

std::string time(const std::string& text) {
  return value_of(text, [](YamlMap& map) { return map.time("x").count(); });
}

std::string bytes(const std::string& text, Bytes min = 1, Bytes max = Bytes{1} << 40) {
  return value_of(text, [&](YamlMap& map) { return map.bytes("x", min, max); });
}

std::string bandwidth(const std::string& text) {
  return value_of(text, [](YamlMap& map) { return map.bandwidth("x").per_second; });
}

std::string frequency(const std::string& text) {
  return value_of(text, [](YamlMap& map) { return map.frequency("x").per_second; });
}

std::string dtype(const std::string& text) {
  return value_of(text, [](YamlMap& map) { return name_of(map.choice("x", kDTypes)); });
}

}  // namespace

TEST_CASE("an integer is decimal digits and nothing else", "[yaml]") {
  CHECK(integer("4") == "4");
  CHECK(integer("1") == "1");
  CHECK(integer("65536") == "65536");
  CHECK(integer("-3", -5, 5) == "-3");
  CHECK(integer("0", 0, 5) == "0");
  CHECK_THAT(integer("010"), Says("KB-Y011", "such as 4", "'010'", "leading zero"));
  for (const char* wrong :
       {"0x10", "0o10", "1e3",  "4.0",  "4.",    ".5",   "yes", "true", "+4", "1_000",
        "4 5",  "-0",   ".nan", ".inf", "1e400", "4 GB", "00",  "--4",  "-x", "-04"}) {
    CHECK_THAT(integer(wrong, -10, 10), Says("KB-Y011", "such as 4", fmt::format("'{}'", wrong)));
  }
  CHECK_THAT(integer("\"4\""), Says("KB-Y011", "such as 4", "quotes", "'4'"));
  CHECK_THAT(integer("[4]"), Says("KB-Y011", "such as 4", "list"));
  CHECK_THAT(integer("{a: 4}"), Says("KB-Y011", "such as 4", "map"));
  CHECK_THAT(integer("~", 128, 256), Says("KB-Y011", "such as 128", "nothing"));
}

TEST_CASE("an integer out of range says the range, however large", "[yaml]") {
  CHECK_THAT(integer("0"), Says("KB-Y020", "0", "[1, 65536]"));
  CHECK_THAT(integer("-1"), Says("KB-Y020", "-1", "[1, 65536]"));
  CHECK_THAT(integer("65537"), Says("KB-Y020", "65537", "[1, 65536]"));
  for (const char* huge :
       {"2147483648", "4294967297", "9223372036854775808", "18446744073709551617",
        "-9223372036854775809", "100000000000000000000000000000000000000000000000001"}) {
    CHECK_THAT(integer(huge), Says("KB-Y020", huge, "[1, 65536]"));
  }
  CHECK(integer("999999999999999999", 0, kMax) == "999999999999999999");
  CHECK_THAT(integer("2", 1, 1), Says("KB-Y020", "must be 1, not 2"));
}

TEST_CASE("quantities are exact", "[yaml]") {
  CHECK(bandwidth("51.2 GB/s") == "51200000000");
  CHECK(bandwidth("64 GB/s") == "64000000000");
  CHECK(bandwidth("64 GiB/s") == "68719476736");
  CHECK(bandwidth("0.1 TB/s") == "100000000000");
  CHECK(bandwidth("1000 KB/s") == "1000000");
  CHECK(bandwidth("1024 KiB/s") == "1048576");
  CHECK(bandwidth("1.5 MiB/s") == "1572864");
  CHECK(bandwidth("1 TiB/s") == "1099511627776");
  CHECK(bandwidth("64000000001 B/s") == "64000000001");
  CHECK(bandwidth("64.000000001 GB/s") == "64000000001");
  CHECK(bandwidth("unlimited") == fmt::format("{}", Bandwidth::kUnlimited));
  CHECK(time("100 ns") == "100000");
  CHECK(time("0 ns") == "0");
  CHECK(time("0.001 ns") == "1");
  CHECK(time("1.5 us") == "1500000");
  CHECK(time("7 ps") == "7");
  CHECK(time("1 s") == "1000000000000");
  CHECK(time("999.999999999 ms") == "999999999999");
  CHECK(bytes("1 B") == "1");
  CHECK(bytes("2 MiB") == "2097152");
  CHECK(bytes("2 MB") == "2000000");
  CHECK(bytes("1 KB") == "1000");
  CHECK(bytes("1 KiB") == "1024");
  CHECK(bytes("24 GiB") == "25769803776");
  CHECK(bytes("1 TiB") == "1099511627776");
  CHECK(bytes("1 TB") == "1000000000000");
  CHECK(bytes("0.5 KiB") == "512");
  CHECK(bytes("\"2 MiB\"") == "2097152");  // a quantity is a text for YAML: quotes are no mistake
  CHECK(frequency("1.5 GHz") == "1500000000");
  CHECK(frequency("940 MHz") == "940000000");
  CHECK(frequency("1000 kHz") == "1000000");
  CHECK(frequency("1000000000000 Hz") == "1000000000000");
  CHECK(frequency("unlimited") == fmt::format("{}", Frequency::kUnlimited));
  CHECK(time("1.50000000000000000000000000 ns") == "1500");
}

TEST_CASE("a quantity finer than its base unit is refused", "[yaml]") {
  CHECK_THAT(time("0.0001 ns"), Says("KB-Y020", "0.0001 ns", "1 ps"));
  CHECK_THAT(time("0.5 ps"), Says("KB-Y020", "0.5 ps", "1 ps"));
  CHECK_THAT(bandwidth("1.0000000001 GB/s"), Says("KB-Y020", "1.0000000001 GB/s", "1 B/s"));
  CHECK_THAT(bytes("1.3 KiB"), Says("KB-Y020", "1.3 KiB", "1 B"));
  CHECK_THAT(frequency("1.0000000001 GHz"), Says("KB-Y020", "1.0000000001 GHz", "1 Hz"));
  CHECK_THAT(time("0.0000000000000000001 s"),
             Says("KB-Y020", "0.0000000000000000001 s", "18 decimals"));
}

TEST_CASE("a quantity needs a unit, one space before it, and of the right kind", "[yaml]") {
  CHECK_THAT(time("1"), Says("KB-Y011", "'1'", "ps, ns, us, ms, s"));
  CHECK_THAT(bytes("64"), Says("KB-Y011", "'64'", "B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"));
  CHECK_THAT(bandwidth("64GB/s"), Says("KB-Y011", "'64GB/s'", "'64 GB/s'"));
  CHECK_THAT(bandwidth("64  GB/s"), Says("KB-Y011", "'64  GB/s'", "'64 GB/s'"));
  CHECK_THAT(bandwidth("64 Gb/s"), Says("KB-Y011", "'Gb/s'", "'GB/s'"));
  CHECK_THAT(frequency("64 ns"), Says("KB-Y011", "'ns'", "Hz, kHz, MHz, GHz"));
  CHECK_THAT(time("5 NS"), Says("KB-Y011", "'NS'", "ps, ns, us, ms, s"));
  CHECK_THAT(time("100 ns x"), Says("KB-Y011"));
  CHECK_THAT(time("unlimited"), Says("KB-Y011"));
  CHECK_THAT(bytes("unlimited"), Says("KB-Y011"));
}

TEST_CASE("a quantity is a plain decimal number", "[yaml]") {
  CHECK_THAT(bandwidth("fast"), Says("KB-Y011", "64 GB/s", "`unlimited`", "'fast'"));
  CHECK_THAT(time("[1 ns]"), Says("KB-Y011", "100 ns", "list"));
  CHECK_THAT(time("~"), Says("KB-Y011", "100 ns", "nothing"));
  for (const char* wrong :
       {".nan ns", ".inf ns", "nan ns", "-0 ns", "-0.0 ns", "010 ns", "+1 ns", ".5 ns", "5. ns",
        "1e3 ns", "1e400 ns", "0x10 ns", "1,5 ns", "1_0 ns", "--1 ns", "ns", "yes", "1e400"}) {
    CHECK_THAT(time(wrong), Says("KB-Y011", "x"));
  }
}

TEST_CASE("a quantity out of range says the range, however large", "[yaml]") {
  CHECK_THAT(time("-1 ns"), Says("KB-Y020", "-1 ns", "[0 ps, 1 s]"));
  CHECK_THAT(time("1.000000000001 s"), Says("KB-Y020", "1.000000000001 s", "[0 ps, 1 s]"));
  CHECK_THAT(bytes("0 B"), Says("KB-Y020", "0 B", "[1 B, 1 TiB]"));
  CHECK_THAT(bytes("1099511627777 B"), Says("KB-Y020", "1099511627777 B", "[1 B, 1 TiB]"));
  CHECK_THAT(bytes("3 KiB", 4096, 8192), Says("KB-Y020", "3 KiB", "[4 KiB, 8 KiB]"));
  CHECK_THAT(bandwidth("0 GB/s"), Says("KB-Y020", "0 GB/s", "[1 MB/s, 1000 TB/s]", "`unlimited`"));
  CHECK_THAT(bandwidth("999999 B/s"),
             Says("KB-Y020", "999999 B/s", "[1 MB/s, 1000 TB/s]", "`unlimited`"));
  CHECK(bandwidth("1000 TB/s") == "1000000000000000");
  CHECK_THAT(bandwidth("-5 GB/s"),
             Says("KB-Y020", "-5 GB/s", "[1 MB/s, 1000 TB/s]", "`unlimited`"));
  CHECK_THAT(frequency("999 kHz"), Says("KB-Y020", "999 kHz", "[1 MHz, 1000 GHz]", "`unlimited`"));
  CHECK(bytes("123456789012345678 B", 1, kMax) == "123456789012345678");
  for (const char* huge : {"9223372036854775807", "9223372036854775808", "18446744073709551616",
                           "999999999999999999", "99999999999999999999999999999999999999999"}) {
    CHECK_THAT(time(fmt::format("{} s", huge)), Says("KB-Y020", huge, "[0 ps, 1 s]"));
    CHECK_THAT(bytes(fmt::format("{} TiB", huge)), Says("KB-Y020"));
    CHECK_THAT(bandwidth(fmt::format("{} TiB/s", huge)), Says("KB-Y020"));
  }
}

TEST_CASE("a choice is one of its names", "[yaml]") {
  CHECK(dtype("bf16") == "bf16");
  CHECK_THAT(dtype("f23"), Says("KB-Y020", "'f23'", "f16, bf16, f32", "'f16'"));
  CHECK_THAT(dtype("double"), Says("KB-Y020", "'double'", "f16, bf16, f32"));
  CHECK_THAT(dtype("[f16]"), Says("KB-Y011", "f16, bf16, f32", "list"));
  CHECK_THAT(dtype("~"), Says("KB-Y011", "f16, bf16, f32", "nothing"));
}

TEST_CASE("choices are one or more different names", "[yaml]") {
  constexpr std::array<std::string_view, 3> kNames = {"red", "green", "blue"};
  const auto choices = [&](const std::string& text) {
    std::vector<std::string> values;
    const std::string errors =
        errors_of("x: " + text, [&](YamlMap& map) { values = map.choices("x", kNames); });
    return errors == "no error" ? fmt::format("{}", fmt::join(values, " ")) : errors;
  };
  CHECK(choices("[green, red]") == "green red");
  CHECK_THAT(choices("[red, green, red]"), Says("KB-Y020", "1:17", "x[2]", "'red'"));
  CHECK_THAT(choices("[]"), Says("KB-Y020", "1:4", "red, green, blue"));
  CHECK_THAT(choices("red"), Says("KB-Y011", "1:4", "[red, green, blue]", "'red'"));
  CHECK_THAT(choices("[rde]"),
             Says("KB-Y020", "1:5", "x[0]", "'rde'", "red, green, blue", "'red'"));
}

TEST_CASE("a text may not be empty", "[yaml]") {
  const auto text = [](const std::string& value) {
    return value_of(value, [](YamlMap& map) { return map.text("x", "ring"); });
  };
  CHECK(text("ring_allreduce") == "ring_allreduce");
  CHECK(text("\"a b\"") == "a b");
  CHECK_THAT(text("''"), Says("KB-Y020", "empty"));
  CHECK_THAT(text("~"), Says("KB-Y011", "such as ring", "nothing"));
}

TEST_CASE("keys that are unknown, misspelt or missing are one error each", "[yaml]") {
  const auto read = [](YamlMap& map) {
    YamlMap link = map.map("link");
    link.bandwidth("bandwidth");
    link.time("latency");
  };
  CHECK(errors_of("link: {bandwidth: 1 GB/s, latency: 1 ns}", read) == "no error");
  CHECK_THAT(errors_of("link: {banwidth: 1 GB/s, latency: 1 ns}", read),
             Says("KB-Y010", "1:8", "'banwidth'", "link", "'bandwidth'"));
  CHECK_THAT(errors_of("link: {bandwidth: 1 GB/s, latency: 1 ns, latencyy: 1 ns}", read),
             Says("KB-Y010", "1:42", "'latencyy'", "link", "'latency'"));
  CHECK_THAT(errors_of("link: {bandwidth: 1 GB/s, latency: 1 ns, colour: red}", read),
             Says("KB-Y010", "1:42", "'colour'", "link", "bandwidth, latency"));
  CHECK_THAT(errors_of("link:\n  bandwidth: 1 GB/s\n", read),
             Says("KB-Y016", "1:1", "'latency'", "link", "latency: 100 ns"));
  const std::string both = errors_of("colour: red", read);
  CHECK_THAT(both, Says("KB-Y010", "1:1", "'colour'", "there are: link"));
  CHECK_THAT(both, Says("KB-Y016", "'link'", "link: {bandwidth: 64 GB/s, latency: 100 ns}"));
  CHECK_THAT(errors_of("link: 5", read),
             Says("KB-Y011", "1:7", "{bandwidth: 64 GB/s, latency: 100 ns}", "'5'"));
  CHECK_THAT(errors_of("5", read), Says("KB-Y011", "1:1", "{link: {...}}", "'5'"));
  // Keys that a refused merge key or alias would have brought are not reported as missing.
  CHECK_THAT(errors_of("a: &x {}\nlink: {<<: *x}", read), !Contains("missing"));
  CHECK_THAT(errors_of("link: &x [*x]", read), Says("KB-Y013", "list"));
  CHECK_THAT(errors_of("{link: {bandwidth: *x, latency: 1 ns}}", read), Says("KB-Y013"));
}

TEST_CASE("a key that was asked for by has() is not required", "[yaml]") {
  const auto read = [](YamlMap& map) {
    if (map.has("count")) map.integer("count", 1, 9);
  };
  CHECK(errors_of("{}", read) == "no error");
  CHECK(errors_of("{count: 3}", read) == "no error");
  CHECK_THAT(errors_of("{count: 0}", read), Says("KB-Y020", "count", "0", "[1, 9]"));
}

TEST_CASE("the entries of a map with the user's own keys can be visited", "[yaml]") {
  const std::string errors = errors_of("{ring: {n: 1}, tree: {n: 0, m: 1}}", [](YamlMap& map) {
    CHECK(map.entries().size() == 2);
    CHECK(map.map(*map.entries()[0]).integer("n", 1, 9) == 1);
    CHECK(map.map(*map.entries()[1]).integer("n", 1, 9) == 1);  // the least, after an error
  });
  CHECK_THAT(errors, Says("KB-Y020", "1:26", "tree.n", "0", "[1, 9]"));
  CHECK_THAT(errors, Says("KB-Y010", "1:29", "'m' in tree"));
}

TEST_CASE("a rule about several values is checked only if they are right", "[yaml]") {
  const auto read = [](YamlMap& map) {
    const int a = map.integer("a", 1, 9);
    const int b = map.integer("b", 1, 9);
    if (map.is_fine({"a", "b"}) && a >= b) map.fail("KB-Y030", "a must be less than b");
    if (map.is_fine({"a"}) && a == 9) map.fail("a", "KB-Y031", "nine");
  };
  CHECK(errors_of("{a: 1, b: 2}", read) == "no error");
  CHECK_THAT(errors_of("{a: 2, b: 1}", read), Says("KB-Y030", "1:1", "a must be less than b"));
  CHECK_THAT(errors_of("{a: 2, b: 0}", read), !Contains("KB-Y030"));
  CHECK_THAT(errors_of("{a: 2}", read), !Contains("KB-Y030"));
  const auto of_parts = [](YamlMap& map) {
    map.map("m").integer("a", 1, 9);
    if (map.is_fine({"m"})) map.fail("KB-Y030", "its parts are right");
  };
  CHECK_THAT(errors_of("m: {a: 1}", of_parts), Says("KB-Y030", "its parts are right"));
  for (const char* wrong : {"m: {}", "m: {a: 0}", "m: {a: 1, b: 2}"}) {
    CHECK_THAT(errors_of(wrong, of_parts), !Contains("KB-Y030"));
  }
  const std::string both = errors_of("{a: 9, b: 0}", read);
  CHECK_THAT(both, Says("KB-Y031", "1:5", "a: nine"));
  CHECK_THAT(both, Says("KB-Y020", "1:11", "b: 0", "[1, 9]"));
}

}  // namespace kernbench::yaml_reader_test
