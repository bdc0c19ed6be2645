#include "benches/bench/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "benches/bench/console.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/visible_text.h"

namespace kernbench::benches {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStdout = "-";
constexpr std::string_view kUnfinished = ".part";

[[noreturn]] void fail_to_create(std::string_view name, int error) {
  if (error == EMFILE || error == ENFILE || error == ENOMEM) {
    throw LimitError("KB-L003", "cannot create '{}': {}; close files, or raise `ulimit -n`",
                     visible(name), std::strerror(error));
  }
  throw IoError("KB-I010", "cannot create '{}': {}", visible(name), std::strerror(error));
}

// Syncs the folder: only then does a new name survive a crash.
int sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const int error = ::fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  ::close(descriptor);
  return error;
}

// Removes the temporary files of processes that were killed while they wrote this file.
void remove_litter(const fs::path& path) {
  const std::string begin = fmt::format(".{}.", path.filename().string());
  std::error_code error;
  for (fs::directory_iterator at(path.parent_path(), error); !error && at != end(at);
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(kUnfinished)) continue;
    const char* const last = name.data() + name.size() - kUnfinished.size();
    pid_t process = 0;
    const auto [stop, fault] = std::from_chars(name.data() + begin.size(), last, process);
    const bool is_ours = fault == std::errc() && stop == last && process > 0;
    if (is_ours && ::kill(process, 0) != 0 && errno == ESRCH) ::unlink(at->path().c_str());
  }
}

}  // namespace

OutputFile::OutputFile(const std::string& name) : name_(name) {
  if (name == kStdout) {
    descriptor_ = STDOUT_FILENO;
    return;
  }
  if (name.empty()) cannot_create(ENOENT);
  std::error_code error;
  path_ = fs::weakly_canonical(fs::absolute(name), error);  // a link's target, not the link
  if (error) cannot_create(error.value());
  const fs::file_status status = fs::status(path_, error);
  if (fs::is_directory(status)) cannot_create(EISDIR);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) cannot_create(errno);
    return;
  }
  if (fs::exists(status) && ::access(path_.c_str(), W_OK) != 0) cannot_create(errno);
  open_temporary();
}

void OutputFile::open_temporary() {
  remove_litter(path_);
  process_ = getpid();
  temporary_ = path_.parent_path() /
               fmt::format(".{}.{}{}", path_.filename().string(), process_, kUnfinished);
  unfinished_ = UnfinishedFile(temporary_.string());
  is_regular_ = true;
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    const int error = errno;
    temporary_.clear();
    unfinished_.forget();
    cannot_create(error);
  }
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : name_(std::move(other.name_)),
      path_(std::move(other.path_)),
      is_regular_(other.is_regular_),
      temporary_(std::exchange(other.temporary_, {})),
      unfinished_(std::move(other.unfinished_)),
      process_(other.process_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

// A forked process must not remove the file of its parent.
OutputFile::~OutputFile() {
  if (descriptor_ >= 0 && descriptor_ != STDOUT_FILENO) ::close(descriptor_);
  if (!temporary_.empty() && process_ == getpid()) ::unlink(temporary_.c_str());
}

void OutputFile::cannot_create(int error) const {
  fail_to_create(name_, error);
}

void OutputFile::check(std::string_view text, int error) const {
  if (error == 0) return;
  throw IoError("KB-I011", "writing {} B to '{}' failed: {}", text.size(),
                name_ == kStdout ? "stdout" : visible(name_), std::strerror(error));
}

void OutputFile::commit(std::string_view text) {
  check(text, write_all(descriptor_, text));
  if (temporary_.empty()) return;
  check(text, ::fsync(descriptor_) == 0 ? 0 : errno);
  check(text, ::close(std::exchange(descriptor_, -1)) == 0 ? 0 : errno);
  check(text, ::rename(temporary_.c_str(), path_.c_str()) == 0 ? 0 : errno);
  temporary_.clear();
  unfinished_.forget();
  check(text, sync_folder(path_.parent_path()));
}

void create_output_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_to_create(folder.string(), error.value());
  if (!fs::is_directory(folder, error)) fail_to_create(folder.string(), ENOTDIR);
}

}  // namespace kernbench::benches
