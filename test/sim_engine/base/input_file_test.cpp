#include "sim_engine/config/input_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "test/support/error_text.h"

namespace kernbench::input_file_test {

using test::Says;

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
  const auto check = [](const std::filesystem::path& path, const char* reason) {
    CHECK_THROWS_MATCHES(read_input_file(path, 100), ConfigError,
                         Says("KB-I001", "'" + path.string() + "'", reason));
  };
  check(folder / "none", "No such file or directory");
  check(folder / "file/below", "Not a directory");
  check(folder / "", "Is a directory");
  check(folder / "fifo", "Not a regular file");
  check(folder / "loop", "Too many levels of symbolic links");
  check("/dev/zero", "Not a regular file");
}

}  // namespace kernbench::input_file_test
