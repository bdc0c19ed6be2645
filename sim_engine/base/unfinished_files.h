// Files that are being written under a temporary name: however the process ends, short of SIGKILL,
// none of them stays.

#pragma once

#include <signal.h>

#include <string>

namespace kernbench {

// Holds a file's name as long as the file is unfinished.  What has a signal's default action on its
// way calls remove_unfinished_files(); everything else unlinks its file itself.
class UnfinishedFile {
 public:
  UnfinishedFile() = default;  // of none
  explicit UnfinishedFile(const std::string& path);
  ~UnfinishedFile() { forget(); }
  UnfinishedFile(UnfinishedFile&& other) noexcept;
  UnfinishedFile& operator=(UnfinishedFile&& other) noexcept;

  // It is whole, or gone.
  void forget() noexcept;

 private:
  struct Place;
  friend void remove_unfinished_files() noexcept;
  static Place& free_place();

  Place* place_ = nullptr;
};

// Unlinks all of them.  A process that was forked off leaves its parent's alone.
// Async-signal-safe.
void remove_unfinished_files() noexcept;

// From now on every signal whose default action ends the process removes them first; those that
// somebody has a handler for, or ignores, keep it.  Call it once, before there are threads.
void remove_unfinished_files_on_signals();

// True if remove_unfinished_files_on_signals() has installed this handler.
bool removes_unfinished_files(const struct sigaction& action);

// remove_unfinished_files() and _exit().  Async-signal-safe.
[[noreturn]] void end_process(int exit_code) noexcept;

}  // namespace kernbench
