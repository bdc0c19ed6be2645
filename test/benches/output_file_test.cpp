#include "benches/bench/output_file.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "sim_engine/base/error.h"
#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::benches::output_file_test {

namespace fs = std::filesystem;
using test::TemporaryFolder;

TEST_CASE("a file appears complete, or not at all", "[output_file]") {
  const TemporaryFolder folder;
  {
    OutputFile file(folder.path("a"));
    CHECK_FALSE(fs::exists(folder.path("a")));
    file.commit("text");
    CHECK(folder.names() == std::vector<std::string>{"a"});
  }
  CHECK(folder.read("a") == "text");
  { const OutputFile dropped(folder.path("b")); }
  CHECK(folder.names() == std::vector<std::string>{"a"});
}

TEST_CASE("an older file stays until the new one is there", "[output_file]") {
  const TemporaryFolder folder;
  folder.write("a", "old");
  { const OutputFile dropped(folder.path("a")); }
  CHECK(folder.read("a") == "old");
  OutputFile(folder.path("a")).commit("new");
  CHECK(folder.read("a") == "new");
}

TEST_CASE("a link's target is replaced, not the link", "[output_file]") {
  const TemporaryFolder folder;
  folder.write("target", "old");
  fs::create_symlink("target", folder.path("link"));
  OutputFile(folder.path("link")).commit("new");
  CHECK(fs::is_symlink(folder.path("link")));
  CHECK(folder.read("target") == "new");
}

TEST_CASE("a move takes the responsibility along", "[output_file]") {
  const TemporaryFolder folder;
  std::vector<OutputFile> files;
  files.emplace_back(folder.path("a"));
  files.emplace_back(folder.path("b"));
  files.front().commit("text");
  files.clear();
  CHECK(folder.names() == std::vector<std::string>{"a"});
}

TEST_CASE("what a killed process has left of a file goes when the file is written again",
          "[output_file]") {
  const TemporaryFolder folder;
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string ours = fmt::format(".a.{}.part", dead);
  const std::vector<std::string> kept = {".a..part", fmt::format(".a.{}.part", ::getppid()),
                                         ".a.5x.part", fmt::format(".b.{}.part", dead)};
  folder.write(ours, "half");
  for (const std::string& name : kept) folder.write(name, "another's");
  OutputFile(folder.path("a")).commit("whole");
  CHECK_FALSE(fs::exists(folder.path(ours)));
  for (const std::string& name : kept) CHECK(fs::exists(folder.path(name)));
}

TEST_CASE("a device is written as it is", "[output_file][errors]") {
  OutputFile("/dev/null").commit("text");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK_THROWS_MATCHES(OutputFile("/dev/full").commit("text"), IoError,
                       test::Says("KB-I011", "4 B", "'/dev/full'", "No space left on device"));
}

TEST_CASE("what cannot be created is told at once", "[output_file][errors]") {
  const TemporaryFolder folder;
  folder.write("file", "");
  const std::string below = folder.path("file/x");
  CHECK_THROWS_MATCHES(OutputFile(below), IoError,
                       test::Says("KB-I010", "'" + below + "'", "Not a directory"));
  CHECK_THROWS_MATCHES(OutputFile("no/such/folder/x"), IoError,
                       test::Says("KB-I010", "'no/such/folder/x'", "No such file"));
  CHECK_THROWS_AS(OutputFile(folder.path("")), IoError);
  CHECK_THROWS_AS(OutputFile(""), IoError);
  CHECK_THROWS_AS(create_output_folder(below), IoError);
  CHECK_THROWS_AS(create_output_folder(folder.path("file")), IoError);
}

}  // namespace kernbench::benches::output_file_test
