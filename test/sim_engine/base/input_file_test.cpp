#include "sim_engine/config/input_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "test/support/error_text.h"

namespace kernbench::input_file_test {

namespace {

// A directory of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "kernbench_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string error_of(const std::filesystem::path& path) {
  return test::config_error_of([&] { read_input_file(path, 100); });
}

}  // namespace

TEST_CASE("a regular file is read whole, up to one byte more than the limit", "[input_file]") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "line\n" << std::string(195, 'x');
  CHECK(read_input_file(folder / "file", 200) == "line\n" + std::string(195, 'x'));
  CHECK(read_input_file(folder / "file", 199).size() == 200);
  CHECK(read_input_file(folder / "file", 100).size() == 101);
  std::filesystem::create_symlink("file", folder / "link");
  CHECK(read_input_file(folder / "link", 200).size() == 200);
}

TEST_CASE("what is no readable file is refused with the system's reason", "[input_file]") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "text";
  std::filesystem::create_symlink("loop", folder / "loop");
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  const auto expected = [&](const std::string& name, const std::string& reason) {
    return fmt::format("[KB-I001] cannot read '{}': {}", (folder / name).string(), reason);
  };
  CHECK(error_of(folder / "none") == expected("none", "No such file or directory"));
  CHECK(error_of(folder / "file/below") == expected("file/below", "Not a directory"));
  CHECK(error_of(folder / "") == expected("", "Is a directory"));
  CHECK(error_of(folder / "fifo") == expected("fifo", "Not a regular file"));
  CHECK(error_of(folder / "loop") == expected("loop", "Too many levels of symbolic links"));
  CHECK(error_of("/dev/zero") == "[KB-I001] cannot read '/dev/zero': Not a regular file");
}

}  // namespace kernbench::input_file_test
