#include "test/runner/batch_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace kernbench::runner {

namespace {

namespace fs = std::filesystem;

fs::path with_suffix(const fs::path& stem, const char* suffix) {
  return stem.string() + suffix;
}

void write_specifications(const Batch& batch, const fs::path& file) {
  std::ofstream stream(file);
  for (const std::string& name : batch.cases) stream << specification(name) << '\n';
  if (!stream.flush()) throw std::runtime_error("cannot write " + file.string());
}

// This process's environment, plus the variable that tells the reporter where to write.
std::vector<std::string> environment(const fs::path& log) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) all.emplace_back(*variable);
  all.push_back("KERNBENCH_CASE_LOG=" + log.string());
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

pid_t start(const Batch& batch, const fs::path& stem) {
  const fs::path names = with_suffix(stem, ".names");
  write_specifications(batch, names);
  std::vector<std::string> arguments = {batch.executable.string(),
                                        "--input-file",
                                        names.string(),
                                        "--reporter",
                                        "cases",
                                        "--out",
                                        with_suffix(stem, ".xml").string()};
  std::vector<std::string> variables = environment(with_suffix(stem, ".log"));
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, with_suffix(stem, ".out").c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, batch.executable.c_str(), &files, &attributes,
                                pointers(arguments).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw std::runtime_error("cannot start " + batch.executable.string());
  return pid;
}

// The groups of the processes that run, for the handler; 0: a free place.
std::array<std::atomic<pid_t>, 256> running_groups;

void end_groups(int signal) {
  for (const std::atomic<pid_t>& group : running_groups) {
    if (group != 0) kill(-group, SIGKILL);
  }
  std::_Exit(128 + signal);
}

void remember_group(pid_t group) {
  static const bool is_installed = [] {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, end_groups);
    return true;
  }();
  static_cast<void>(is_installed);
  for (std::atomic<pid_t>& place : running_groups) {
    pid_t nobody = 0;
    if (place.compare_exchange_strong(nobody, group)) return;
  }
}

void forget_group(pid_t group) {
  for (std::atomic<pid_t>& place : running_groups) {
    if (place == group) place = 0;
  }
}

std::string ending_of(int status) {
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

BatchProcess::BatchProcess(Batch batch, fs::path stem)
    : batch_(std::move(batch)),
      stem_(std::move(stem)),
      last_begin_(std::chrono::steady_clock::now()) {
  fs::remove(with_suffix(stem_, ".log"));
  fs::remove(with_suffix(stem_, ".xml"));
  pid_ = start(batch_, stem_);
  remember_group(pid_);
}

void BatchProcess::read_log() {
  std::ifstream log(with_suffix(stem_, ".log"));
  for (std::string line; std::getline(log, line);) {
    if (line.starts_with('+')) {
      if (line.substr(1) == last_case_ || outcomes_.contains(line.substr(1))) continue;
      last_case_ = line.substr(1);
      last_begin_ = std::chrono::steady_clock::now();
    } else {
      const std::size_t space = line.find(' ');
      if (space == std::string::npos) continue;  // it is still being written
      outcomes_[line.substr(space + 1)] = {line.front() == '-', std::stod(line.substr(1)), ""};
    }
  }
}

bool BatchProcess::has_ended(std::chrono::seconds limit) {
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, WNOHANG);
  const auto now = std::chrono::steady_clock::now();
  if (ended == 0 && now < next_look_) return false;
  next_look_ = now + std::chrono::seconds(1);
  read_log();
  if (ended == 0 && now - last_begin_ < limit) return false;
  kill(-pid_, SIGKILL);  // including processes that its cases have started
  forget_group(pid_);
  if (ended == 0) {
    waitpid(pid_, &status, 0);
    failure_ = fmt::format("no end within {} s", limit.count());
  } else if (!WIFEXITED(status) || outcomes_.size() < batch_.cases.size() ||
             (WEXITSTATUS(status) != 0) != has_failed_case()) {
    failure_ = ending_of(status);
  }
  return true;
}

// Catch2's exit code is the number of failed assertions.  If no case has failed, a nonzero exit
// code comes from elsewhere, e.g. from LeakSanitizer after the last case.
bool BatchProcess::has_failed_case() const {
  return std::ranges::any_of(outcomes_, [](const auto& one) { return !one.second.passed; });
}

std::vector<std::string> BatchProcess::missed_cases() const {
  std::vector<std::string> missed = batch_.cases;
  std::erase_if(missed, [&](const std::string& name) {
    return name == last_case_ || outcomes_.contains(name);
  });
  return missed;
}

std::string BatchProcess::output() const {
  std::ifstream stream(with_suffix(stem_, ".out"));
  return (std::ostringstream() << stream.rdbuf()).str();
}

}  // namespace kernbench::runner
