#include "benches/bench/settings.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "sim_engine/base/check.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/error.h"
#include "test/support/error_text.h"

namespace kernbench::benches::settings_test {

namespace {

const std::vector<SettingInfo> kKnown = {
    {"n_elem", "1024", ""}, {"dtype", "f16", ""}, {"check", "true", ""}, {"label", "", ""}};

Settings settings(const std::vector<std::string>& assignments) {
  return Settings(kKnown, assignments);
}

using test::error_of;

}  // namespace

TEST_CASE("a setting that is not given has its fallback", "[settings]") {
  const Settings none = settings({});
  CHECK_FALSE(none.is_set("n_elem"));
  CHECK(none.integer("n_elem", 0, 1 << 20) == 1024);
  CHECK(none.choice("dtype", kDTypes) == DType::f16);
  CHECK(none.flag("check"));
  CHECK(none.text("label").empty());
}

TEST_CASE("a setting that is given overrides it", "[settings]") {
  const Settings given = settings({"n_elem=1,2,4", "dtype=bf16", "check=false", "label=a=b c"});
  CHECK(given.is_set("n_elem"));
  CHECK(given.integers("n_elem", 0, 10) == std::vector<std::int64_t>{1, 2, 4});
  CHECK(given.choice("dtype", kDTypes) == DType::bf16);
  CHECK(given.choices("dtype", kDTypes) == std::vector{DType::bf16});
  CHECK(settings({"dtype=f32,f16"}).choices("dtype", kDTypes) ==
        std::vector{DType::f32, DType::f16});
  CHECK_FALSE(given.flag("check"));
  CHECK(given.text("label") == "a=b c");
  CHECK(settings({"label="}).is_set("label"));
}

TEST_CASE("a flag may be given as a number", "[settings]") {
  CHECK(settings({"check=1"}).flag("check"));
  CHECK_FALSE(settings({"check=0"}).flag("check"));
}

TEST_CASE("bytes are counted in binary units", "[settings]") {
  const auto bytes = [](const std::string& text) {
    return settings({"label=" + text}).bytes("label", 0, Bytes{1} << 40);
  };
  CHECK(bytes("0") == 0);
  CHECK(bytes("1000") == 1000);
  CHECK(bytes("3Ki") == 3 * 1024);
  CHECK(bytes("64Mi") == 67'108'864);
  CHECK(bytes("64MiB") == 67'108'864);
  CHECK(bytes("1024Gi") == Bytes{1} << 40);
}

TEST_CASE("bytes in another form, or out of range, are refused", "[settings][errors]") {
  for (const std::string text : {"", "64M", "64 Mi", "1.5Ki", "Ki", "-1", "65", "1Gi", "8iB",
                                 "999999999999Gi", "99999999999999999999"}) {
    CHECK_THAT(error_of<UsageError>([&] { settings({"label=" + text}).bytes("label", 8, 64); }),
               test::Says("KB-U012", "--set label", "from 8 to 64", "64Ki", "'" + text + "'"));
  }
}

TEST_CASE("assignments of another form are refused", "[settings][errors]") {
  CHECK_THAT(error_of<UsageError>([] { settings({"n_elem"}); }),
             test::Says("KB-U010", "--set", "key=value", "'n_elem'"));
  CHECK_THAT(error_of<UsageError>([] { settings({"=4"}); }),
             test::Says("KB-U010", "--set", "key=value", "'=4'"));
  CHECK_THAT(error_of<UsageError>([] {
               settings({"n_elem=1", "n_elem=2"});
             }),
             test::Says("KB-U010", "--set", "n_elem", "twice"));
}

TEST_CASE("a value is one line of text, so that no two settings have the same text",
          "[settings][errors]") {
  CHECK_THAT(error_of<UsageError>([] { settings({"label=a\ncheck=false"}); }),
             test::Says("KB-U012", "--set", "ncheck", "control", "character"));
  CHECK(settings({"label=µ \xff"}).text("label") == "µ \xff");
}

TEST_CASE("an integer may have a binary unit", "[settings]") {
  CHECK(settings({"n_elem=64Ki,1Mi,3"}).integers("n_elem", 0, 1 << 20) ==
        std::vector<std::int64_t>{65'536, 1 << 20, 3});
  for (const std::string text : {"2Mi", "xMi", "-1Ki", "Mi", "99999999999999999999Gi"}) {
    CHECK_THAT(
        error_of<UsageError>([&] { settings({"n_elem=" + text}).integers("n_elem", 0, 1 << 20); }),
        test::Says("KB-U012", "--set n_elem", "'" + text + "'", "0", "1048576"));
  }
}

TEST_CASE("a list of as many values as a command line has room for is read at once", "[settings]") {
  std::vector<std::int64_t> sizes(24'000);
  std::iota(sizes.begin(), sizes.end(), 0);
  const auto given = settings({fmt::format("n_elem={}", fmt::join(sizes, ","))});
  CHECK(given.integers("n_elem", 0, 24'000) == sizes);
}

TEST_CASE("an unknown key is told with the nearest, or all", "[settings][errors]") {
  CHECK_THAT(error_of<UsageError>([] { settings({"nelem=1"}); }),
             test::Says("KB-U011", "--set", "'nelem'", "'n_elem'"));
  CHECK_THAT(error_of<UsageError>([] { settings({"colour=1"}); }),
             test::Says("KB-U011", "--set", "'colour'", "n_elem"));
  CHECK_THAT(error_of<UsageError>([] { Settings({}, std::vector<std::string>{"a=1"}); }),
             test::Says("KB-U011", "--set", "'a'", "none"));
}

TEST_CASE("a value of another type is told with what would be right", "[settings][errors]") {
  const auto integer = [](const std::string& text) {
    return error_of<UsageError>([&] { settings({"n_elem=" + text}).integers("n_elem", 0, 100); });
  };
  CHECK_THAT(integer("many"), test::Says("KB-U012", "--set", "n_elem", "4", "'many'"));
  CHECK_THAT(integer("101"), test::Says("KB-U012", "--set n_elem", "101", "[0, 100]"));
  CHECK_THAT(integer("-1"), test::Says("KB-U012", "--set n_elem", "-1", "[0, 100]"));
  CHECK_THAT(integer("1,,2"), test::Says("KB-U012", "--set", "n_elem", "1,,2"));
  CHECK_THAT(integer(""), test::Says("KB-U012", "--set", "n_elem", "4"));
  CHECK_THAT(error_of<UsageError>([] { settings({"dtype=int8"}).choice("dtype", kDTypes); }),
             test::Says("KB-U012", "--set", "'int8'"));
  CHECK_THAT(error_of<UsageError>([] { settings({"dtype=f32,int8"}).choices("dtype", kDTypes); }),
             test::Says("KB-U012", "--set", "'int8'"));
  CHECK_THAT(integer("1,2,1"), test::Says("KB-U012", "--set n_elem=1,2,1", "'1'", "twice"));
  CHECK_THAT(error_of<UsageError>([] { settings({"check=yes"}).flag("check"); }),
             test::Says("KB-U012", "--set", "'yes'"));
}

TEST_CASE("a bench that asks for what it has not declared is at fault", "[settings]") {
  CHECK_THROWS_AS(settings({}).text("other"), InternalError);
}

}  // namespace kernbench::benches::settings_test
