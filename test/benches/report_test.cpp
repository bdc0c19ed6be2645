#include "benches/bench/report.h"

#include <catch2/catch.hpp>
#include <limits>
#include <optional>

namespace kernbench::benches::report_test {

TEST_CASE("cells keep their kind and their order", "[report]") {
  const Row row = Row()
                      .set("text", "a")
                      .set("whole", std::int64_t{1} << 60)
                      .set("real", 0.1)
                      .set("yes", true)
                      .set("none", std::optional<double>());
  const Report report{.bench = "b", .rows = {row}};
  CHECK_THAT(to_json(report), Catch::Contains(R"({
      "text": "a",
      "whole": 1152921504606846976,
      "real": 0.1,
      "yes": true,
      "none": null
    })"));
}

TEST_CASE("CSV quotes commas, quotes and line ends (RFC 4180)", "[report]") {
  const std::vector<Row> rows = {Row().set("a,b", "x\"y").set("c", 1.5),
                                 Row().set("c", 1e-9).set("d", "two\nlines")};
  CHECK(to_csv(rows) ==
        "\"a,b\",c,d\r\n"
        "\"x\"\"y\",1.5,\r\n"
        ",1e-09,\"two\nlines\"\r\n");
  CHECK(to_csv({}).empty());
}

TEST_CASE("a table has aligned columns under a commented head", "[report]") {
  const std::vector<Row> rows = {Row().set("name", "long name").set("n", 5),
                                 Row().set("name", "x").set("n", 12345)};
  CHECK(to_table(rows) ==
        "#       name      n\n"
        "   long name      5\n"
        "           x  12345\n");
}

TEST_CASE("text that is no UTF-8 cannot break the report", "[report]") {
  CHECK_NOTHROW(to_json({.bench = "b", .rows = {Row().set("name", "\xff")}}));
}

TEST_CASE("numbers that JSON does not know are null", "[report]") {
  const Row row = Row().set("x", std::numeric_limits<double>::infinity());
  CHECK_THAT(to_json({.bench = "b", .rows = {row}}), Catch::Contains("\"x\": null"));
}

}  // namespace kernbench::benches::report_test
