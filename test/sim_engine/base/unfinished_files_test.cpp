// Files under their temporary names, and what becomes of them when the process ends.

#include "sim_engine/base/unfinished_files.h"

#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kernbench::unfinished_files_test {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    std::string name = fs::temp_directory_path() / "kernbench-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }

  std::string make(const std::string& name) const {
    const std::string file = path / name;
    std::ofstream(file) << "part";
    return file;
  }

  fs::path path;
};

// A child of this process runs `work`, and ends with exit code 3.
void end_in_child(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    end_process(4);  // `work` should have ended it
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
}

TEST_CASE("all files that are being written are removed, and no other", "[unfinished_files]") {
  const Folder folder;
  const std::vector<std::string> names = {folder.make("a"), folder.make("b"), folder.make("c"),
                                          folder.make("d")};
  end_in_child([&] {
    UnfinishedFile complete(names[0]);
    UnfinishedFile second(names[1]);
    complete.forget();
    const UnfinishedFile third(names[2]);  // may take the place of the first
    const UnfinishedFile fourth(names[3]);
    const UnfinishedFile moved = std::move(second);
    end_process(3);
  });
  CHECK(fs::exists(names[0]));
  for (std::size_t i = 1; i < names.size(); ++i) CHECK_FALSE(fs::exists(names[i]));
}

TEST_CASE("a process that ends removes its files, and leaves those of the one that made it",
          "[unfinished_files]") {
  const Folder folder;
  const std::string own = folder.make("own");
  const UnfinishedFile unfinished(own);
  const std::string of_child = folder.make("of_child");
  end_in_child([&] {
    const UnfinishedFile file(of_child);
    end_process(3);
  });
  CHECK_FALSE(fs::exists(of_child));
  CHECK(fs::exists(own));
}

}  // namespace
}  // namespace kernbench::unfinished_files_test
