#include "benches/figure/png.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "benches/figure/line_chart.h"
#include "sim_engine/base/error.h"
#include "test/benches/program_under_test.h"

namespace kernbench::benches::figure::png_test {

namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

std::string chart() {
  return to_svg(
      LineChart{.title = "µs & <more>", .series = {{.name = "a", .points = {{0, 1}, {1, 2}}}}});
}

bool has_converter() {
  if (to_png("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" height=\"1\"/>", 1)
          .problem.empty()) {
    return true;
  }
  WARN("there is no working rsvg-convert here");
  return false;
}

// Of a PNG: bytes 16 to 23 are width and height, the most significant byte first.
std::uint32_t big_endian(const std::string& png, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(png[i]);
  return value;
}

// A program that ignores its arguments.
std::string program(const TemporaryFolder& folder, const std::string& script) {
  const std::string path = folder.write("converter", "#!/bin/sh\n" + script);
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

}  // namespace

TEST_CASE("a PNG has the width that was asked for", "[figure][png]") {
  if (!has_converter()) return;
  const Png png = to_png(chart(), 450);
  CHECK(png.problem.empty());
  CHECK(png.bytes.substr(0, 8) == "\x89PNG\r\n\x1a\n");
  CHECK(png.bytes.substr(12, 4) == "IHDR");
  CHECK(big_endian(png.bytes, 16) == 450);
  CHECK(big_endian(png.bytes, 20) > 200);
  CHECK(to_png(chart(), 450).bytes == png.bytes);
}

TEST_CASE("without the converter there is a line that says what to install", "[figure][png]") {
  const Png png = to_png(chart(), 450, "no-such-converter");
  CHECK(png.bytes.empty());
  CHECK(png.problem ==
        "there is no 'no-such-converter' here; Debian's package librsvg2-bin has it");
  const TemporaryFolder folder;
  const std::string not_a_program = folder.write("file", "");
  CHECK(to_png(chart(), 450, not_a_program).problem ==
        "'" + not_a_program + "': Permission denied");
}

TEST_CASE("what the converter says of a wrong input is passed on, in one line", "[figure][png]") {
  if (!has_converter()) return;
  const Png png = to_png("no SVG at all", 450);
  CHECK(png.bytes.empty());
  CHECK(png.problem.starts_with("'rsvg-convert' exited with 1: "));
  CHECK(png.problem.find('\n') == std::string::npos);
  CHECK_FALSE(to_png("", 450).problem.empty());
}

TEST_CASE("a converter that fails in any way is told", "[figure][png]") {
  const TemporaryFolder folder;
  const auto problem_with = [&](const std::string& script) {
    const std::string path = program(folder, script);
    const Png png = to_png(chart(), 450, path);
    CHECK(png.bytes.empty());
    return test::replaced(png.problem, path, "X");
  };
  CHECK(problem_with("exit 3\n") == "'X' exited with 3");
  CHECK(problem_with("echo first >&2; echo second >&2; exit 4\n") == "'X' exited with 4: first");
  CHECK(problem_with("kill -9 $$\n") == "'X' was ended by signal 9");
  CHECK(problem_with("echo no picture\n") == "'X' gave no PNG");
  CHECK(problem_with("exit 0\n") == "'X' gave no PNG");
}

TEST_CASE("the converter gets the whole picture however large it is", "[figure][png]") {
  const TemporaryFolder folder;
  const std::string large = "\x89PNG\r\n\x1a\n" + std::string(3'000'000, 'x');
  CHECK(to_png(large, 1, program(folder, "cat\n")).bytes == large);
  // One that reads nothing does not disturb us.
  CHECK(to_png(large, 1, program(folder, "exit 1\n")).problem.ends_with("exited with 1"));
}

TEST_CASE("a figure is written as SVG and PNG", "[figure][png]") {
  if (!has_converter()) return;
  const TemporaryFolder folder;
  CHECK(write_figure(folder.path("a.b"), chart()).empty());
  CHECK(folder.names() == std::vector<std::string>{"a.b.png", "a.b.svg"});
  CHECK(folder.read("a.b.svg") == chart());
  CHECK(big_endian(folder.read("a.b.png"), 16) == 1800);
}

TEST_CASE("an earlier PNG does not stay beside a new SVG", "[figure][png]") {
  const TemporaryFolder folder;
  folder.write("a.png", "of yesterday");
  CHECK(write_figure(folder.path("a"), chart(), "no-such-converter") ==
        folder.path("a.png") +
            " is not written: there is no 'no-such-converter' here; Debian's package "
            "librsvg2-bin has it");
  CHECK(folder.names() == std::vector<std::string>{"a.svg"});
}

TEST_CASE("a figure that cannot be written is an error", "[figure][png]") {
  CHECK_THROWS_AS(write_figure("/no/such/folder/a", chart()), IoError);
}

}  // namespace kernbench::benches::figure::png_test
