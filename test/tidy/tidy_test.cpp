#include "test/tidy/tidy.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <string>

#include "test/tidy/standard_includes.h"

namespace kernbench::tidy::tidy_test {

namespace {

const Lines& sources() {
  static const Lines lines = read_sources(KERNBENCH_ROOT);
  return lines;
}

Lines line(const std::string& file, const std::string& text) {
  return {{file, 1, text}};
}

void expect_none(const Offences& offences) {
  for (const std::string& offence : offences) FAIL_CHECK(offence);
  SUCCEED();
}

std::set<std::string> installed_headers() {
  std::ifstream list(KERNBENCH_INSTALLED);
  std::set<std::string> installed;
  for (std::string header; std::getline(list, header);) installed.insert(header);
  return installed;
}

}  // namespace

TEST_CASE("the sources are found", "[tidy]") {
  CHECK(sources().size() > 100);
  CHECK(read_sources("no/such/folder").empty());
}

TEST_CASE("includes point down the layers", "[tidy]") {
  expect_none(check_layers(sources()));
}

TEST_CASE("a room includes only the rooms that it uses", "[tidy]") {
  const Rooms rooms = read_rooms(KERNBENCH_ROOMS);
  CHECK(rooms.size() > 20);
  expect_none(check_rooms(sources(), rooms));
}

TEST_CASE("an installed header includes installed headers alone", "[tidy]") {
  const std::set<std::string> installed = installed_headers();
  INFO("another number of installed headers is a decision: name them in ADR-0107 as well");
  CHECK(installed.size() == 89);
  expect_none(check_installed(sources(), installed));
  const Lines inside = line("a/b.h", "#include \"a/c.h\"");
  CHECK(check_installed(inside, {"a/b.h", "a/c.h"}).empty());
  CHECK(check_installed(inside, {"a/b.h"}) ==
        Offences{"a/b.h:1: 'a/c.h' is not installed: name it in the INSTALLS of its room"});
}

TEST_CASE("an installed header includes no costly header of the standard library", "[tidy]") {
  expect_none(check_light(sources(), installed_headers()));
  const Lines regex = line("a/b.h", "#include <regex>");
  CHECK(check_light(regex, {}).empty());
  CHECK(check_light(regex, {"a/b.h"}) ==
        Offences{"a/b.h:1: <regex> is costly for users: declare, or move the body into a "
                 ".cpp"});
  CHECK(check_light(line("a/b.h", "#include <regex>  // IWYU pragma: export"), {"a/b.h"}).empty());
}

TEST_CASE("each package has one owner", "[tidy]") {
  expect_none(check_package_owners(sources()));
}

TEST_CASE("nothing banned is used", "[tidy]") {
  expect_none(check_banned_words(sources()));
}

TEST_CASE("the words of collectives are the field's", "[tidy]") {
  expect_none(check_words_of_collectives(sources()));
  CHECK(check_words_of_collectives(line("ccl/a.h", "int find_Grain();")) ==
        Offences{"ccl/a.h:1: 'grain' is another word for CutSizes"});
  CHECK(check_words_of_collectives(line("benches/a.h", "int colour = 0;")).empty());
}

TEST_CASE("lines and files stay short", "[tidy]") {
  expect_none(check_lengths(sources()));
}

TEST_CASE("nothing names a folder of one machine", "[tidy]") {
  expect_none(check_machine_paths(sources()));
  expect_none(check_machine_paths(read_other_texts(KERNBENCH_ROOT)));
}

TEST_CASE("each file includes the standard headers that it uses", "[tidy]") {
  expect_none(check_standard_includes(sources()));
}

TEST_CASE("a standard header counts that an included file of the project includes",
          "[tidy][rules]") {
  const Lines used = line("a.cpp", "std::vector<int> x;  // std::map");
  CHECK(check_standard_includes(used) == Offences{"a.cpp:1: includes no <vector>"});
  CHECK(check_standard_includes({{"a.cpp", 1, "#include <vector>"}, used[0]}).empty());
  CHECK(check_standard_includes(
            {{"a.cpp", 1, "#include \"b.h\""}, {"b.h", 1, "#include <vector>"}, used[0]})
            .empty());
  CHECK(check_standard_includes(
            {{"a.cpp", 1, "#include \"b.h\""}, {"b.h", 1, "#include <map>"}, used[0]})
            .size() == 1);
}

TEST_CASE("an include up the layers is told", "[tidy][rules]") {
  CHECK(check_layers(line("runtime/a.h", "#include \"ccl/b.h\"")) ==
        Offences{"runtime/a.h:1: runtime may not include ccl"});
  CHECK(check_layers(line("tp/a.h", "#include \"ccl/b.h\"")).size() == 1);
  CHECK(check_layers(line("ccl/a.h", "#include \"tp/b.h\"")).size() == 1);
  CHECK(check_layers(line("ccl/a.h", "#include <kernbench/kernbench.h>")).size() == 1);
  CHECK(check_layers(line("sim_engine/a.h", "  #  include <runtime/b.h>")).size() == 1);
  CHECK(check_layers(line("benches/a.h", "#include \"test/b.h\"")).size() == 1);
}

TEST_CASE("an include of a room that is not used is told, and a use without an include",
          "[tidy][rules]") {
  const Rooms rooms = {{"a/b", {"a/c"}}, {"a/b/d", {}}, {"a/c", {}}};
  const Line used{"a/b/x.h", 1, "#include \"a/c/y.h\""};
  CHECK(check_rooms({used}, rooms).empty());
  CHECK(check_rooms({used, {"a/b/d/x.h", 1, "#include \"a/b/y.h\""}}, rooms) ==
        Offences{"a/b/d/x.h:1: a/b/d does not use a/b: include less, or name it in "
                 "a/b/d/CMakeLists.txt"});
  CHECK(check_rooms({}, rooms) ==
        Offences{"a/b/CMakeLists.txt: USES a/c, and includes nothing of it"});
}

TEST_CASE("an include down the layers is not", "[tidy][rules]") {
  CHECK(check_layers(line("benches/a.h", "#include \"ccl/b.h\"")).empty());
  CHECK(check_layers(line("test/tp/a.cpp", "#include \"ccl/b.h\"")).empty());
  CHECK(check_layers(line("ccl/a.h", "#include \"ccl/b.h\"")).empty());
  CHECK(check_layers(line("ccl/a.h", "#include <vector>")).empty());
}

TEST_CASE("a file that includes itself is told", "[tidy][rules]") {
  CHECK(check_layers(line("ccl/a.h", "#include \"ccl/a.h\"")) ==
        Offences{"ccl/a.h:1: includes itself"});
  CHECK(check_layers(line("ccl/a.cpp", "#include \"ccl/a.h\"")).empty());
}

TEST_CASE("an include that is not named from the root is told", "[tidy][rules]") {
  CHECK(check_layers(line("ccl/a.h", "#include \"b.h\"")) ==
        Offences{"ccl/a.h:1: 'b.h' is not named from the repository root"});
}

TEST_CASE("a package in a folder that does not own it is told", "[tidy][rules]") {
  CHECK(check_package_owners(line("runtime/tl/a.h", "#include <Eigen/Core>")) ==
        Offences{"runtime/tl/a.h:1: Eigen/ belongs to sim_engine/values/"});
  CHECK(check_package_owners(line("sim_engine/core/a.h", "#include <boost/context/fiber.hpp>"))
            .size() == 1);
  CHECK(check_package_owners(line("sim_engine/topology/a.cpp", "#include <yaml-cpp/yaml.h>"))
            .size() == 1);
}

TEST_CASE("the owner of a package and its tests may include it", "[tidy][rules]") {
  CHECK(check_package_owners(line("sim_engine/values/a.cpp", "#include <Eigen/Core>")).empty());
  CHECK(check_package_owners(line("runtime/tensor/eigen.h", "#include <Eigen/Core>")).empty());
  CHECK(
      check_package_owners(line("test/sim_engine/values/a.cpp", "#include <Eigen/Core>")).empty());
  CHECK(check_package_owners(line("test/ccl/a.cpp", "#include <Eigen/Core>")).size() == 1);
}

TEST_CASE("a banned word is told, but not inside another word", "[tidy][rules]") {
  CHECK(check_banned_words(line("ccl/a.h",
                                "thread_"
                                "local int x;")) ==
        Offences{"ccl/a.h:1: thread_"
                 "local is banned: keep it in the context"});
  CHECK(check_banned_words(line("ccl/a.h",
                                "int not_thread_"
                                "local;"))
            .empty());
  CHECK(check_banned_words(line("ccl/a.h",
                                "// TO"
                                "DO: more"))
            .size() == 1);
  CHECK(check_banned_words(line("ccl/a.h",
                                "// not thread_"
                                "local"))
            .empty());
}

TEST_CASE("the wall clock is for benches alone", "[tidy][rules]") {
  const std::string text =
      "std::chrono::steady_"
      "clock::now();";
  CHECK(check_banned_words(line("benches/a.cpp", text)).empty());
  CHECK(check_banned_words(line("sim_engine/core/a.cpp", text)).size() == 1);
}

TEST_CASE("the 101st column and the 401st line are told", "[tidy][rules]") {
  CHECK(check_lengths(line("ccl/a.h", std::string(100, 'x'))).empty());
  CHECK(check_lengths(line("ccl/a.h", std::string(101, 'x'))) ==
        Offences{"ccl/a.h:1: has 101 columns"});
  CHECK(check_lengths({{"ccl/a.h", 400, ""}}).empty());
  CHECK(check_lengths({{"ccl/a.h", 401, ""}}) ==
        Offences{"ccl/a.h:401: the file passes 400 lines"});
}

TEST_CASE("columns are characters, not bytes", "[tidy][rules]") {
  std::string text = "// ";
  for (int i = 0; i < 97; ++i) text += "한";
  CHECK(check_lengths(line("ccl/a.h", text)).empty());
}

TEST_CASE("a path of one machine is told", "[tidy][rules]") {
  CHECK(check_machine_paths(line("README.md",
                                 "see /"
                                 "home/me/x")) ==
        Offences{"README.md:1: names a folder of one machine: /home"
                 "/"});
  CHECK(check_machine_paths(line("README.md", "see docs/home/me")).empty());
  CHECK(check_machine_paths(line("a.sh", "\"${prefix}/tmp/x\"")).empty());
}

}  // namespace kernbench::tidy::tidy_test
