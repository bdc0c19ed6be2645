// ADR-0044: saved rows come back as they were, or not at all.

#include "benches/evaluation/saved_rows.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <limits>
#include <optional>
#include <string>

#include "benches/bench/cell.h"
#include "benches/bench/content_hash.h"
#include "test/benches/program_under_test.h"

namespace kernbench::test::saved_rows_test {
namespace {

using namespace benches;

constexpr std::string_view kSchema = "test 1";

std::vector<Row> some_rows() {
  return {Row()
              .set("name", "a \"quoted\" µ")
              .set("count", std::int64_t{1} << 60)
              .set("time_ns", 0.1)
              .set("whole", 3.0)
              .set("wrong", std::optional<std::int64_t>())
              .set("ok", true),
          Row().set("count", -1).set("time_ns", std::numeric_limits<double>::infinity())};
}

SavedRows read_back(const std::string& text, std::uint64_t configuration = 7,
                    std::string_view schema = kSchema) {
  const TemporaryFolder folder;
  return read_saved_rows(folder.write("rows.json", text), schema, configuration);
}

TEST_CASE("saved rows come back cell by cell", "[saved_rows]") {
  const SavedRows saved = read_back(saved_rows_text(kSchema, 7, some_rows()));
  CHECK(saved.problem.empty());
  REQUIRE(saved.rows.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(saved.rows[i].cells() == some_rows()[i].cells());
}

TEST_CASE("rows of another schema or configuration are not used", "[saved_rows]") {
  const std::string text = saved_rows_text(kSchema, 7, some_rows());
  const SavedRows stale = read_back(text, 8);
  CHECK(stale.rows.empty());
  CHECK(stale.problem == "stale: of another build, topology, seed or setting");
  const SavedRows other = read_back(text, 7, "test 2");
  CHECK(other.rows.empty());
  CHECK(other.problem == "of another schema, \"test 1\"");
  const SavedRows long_one = read_back(R"({"schema": ")" + std::string(100'000, 'x') + "\"}");
  CHECK(long_one.problem.size() < 120);
}

TEST_CASE("damaged rows are not used, whatever is damaged", "[saved_rows]") {
  const std::string text = saved_rows_text(kSchema, 7, some_rows());
  CHECK(read_back(replaced(text, "0.1", "0.2")).problem ==
        "damaged: its rows do not have its checksum");
  CHECK(read_back(replaced(text, "\"rows\"", "\"row\"")).problem ==
        "damaged: not the JSON that was written");
  for (std::size_t size = 0; size + 1 < text.size(); size += 37) {
    CHECK(read_back(text.substr(0, size)).problem == "damaged: not the JSON that was written");
  }
  // Any changed character of it is found, or leaves the same JSON.
  for (std::size_t at = 0; at < text.size(); at += 5) {
    std::string changed = text;
    changed[at] = changed[at] == '7' ? '8' : '7';
    const SavedRows saved = read_back(changed);
    CHECK((!saved.problem.empty() || saved.rows.size() == 2));
    for (std::size_t i = 0; i < saved.rows.size(); ++i) {
      CHECK(saved.rows[i].cells() == some_rows()[i].cells());
    }
  }
}

TEST_CASE("rows that are nested a hundred thousand levels deep are damaged, and no crash",
          "[saved_rows]") {
  for (const int depth : {9, 100'000}) {
    const std::string rows = std::string(static_cast<std::size_t>(depth), '[') +
                             std::string(static_cast<std::size_t>(depth), ']');
    CHECK(read_back(R"({"schema": "test 1", "checksum": "", "rows": )" + rows + "}").problem ==
          "damaged: not the JSON that was written");
  }
}

TEST_CASE("cells of another form are damage, though the checksum is theirs", "[saved_rows]") {
  const auto problem_of = [](const std::string& rows) {
    return read_back(
               fmt::format(R"({{"schema":"test 1","configuration":"{:016x}","checksum":"{:016x}",)"
                           R"("rows":{}}})",
                           7, content_hash(rows), rows))
        .problem;
  };
  CHECK(problem_of(R"([{"a":9223372036854775807,"b":{"real":"-inf"}}])").empty());
  for (const char* wrong :
       {R"({"a":1})", "[1]", "[[1]]", R"([{"a":[1]}])", R"([{"a":9223372036854775808}])",
        R"([{"a":{"real":"1.5"}}])", R"([{"a":{"real":"inf."}}])", R"([{"a":{"real":"1e999"}}])"}) {
    INFO(wrong);
    CHECK(problem_of(wrong) == "damaged: not the JSON that was written");
  }
}

TEST_CASE("no file, and what is no file, is told", "[saved_rows]") {
  const TemporaryFolder folder;
  CHECK(read_saved_rows(folder.path("none.json"), kSchema, 7).problem == "not there");
  CHECK_THAT(read_saved_rows(folder.path(""), kSchema, 7).problem,
             Catch::StartsWith("cannot be read: "));
}

}  // namespace
}  // namespace kernbench::test::saved_rows_test
