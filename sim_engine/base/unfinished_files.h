// Files that are being written under a temporary name.  They are removed however the process ends,
// except by SIGKILL.

#pragma once

#include <signal.h>

#include <string>

namespace kernbench {

// Registers a file's name as long as the file is unfinished.  Code that is about to end the process
// by a signal's default action calls remove_unfinished_files(); on all other paths the writer
// unlinks its file itself.
class UnfinishedFile {
 public:
  UnfinishedFile() = default;  // refers to no file
  explicit UnfinishedFile(const std::string& path);
  ~UnfinishedFile() { forget(); }
  UnfinishedFile(UnfinishedFile&& other) noexcept;
  UnfinishedFile& operator=(UnfinishedFile&& other) noexcept;

  // Unregisters the file: it is complete, or has been removed.
  void forget() noexcept;

 private:
  struct Place;
  friend void remove_unfinished_files() noexcept;
  static Place& free_place();

  Place* place_ = nullptr;
};

// Unlinks all registered files of this process; a forked child leaves its parent's files alone.
// Async-signal-safe.
void remove_unfinished_files() noexcept;

// Installs a handler for every signal whose default action ends the process; it removes the files
// first.  Signals that already have a handler, or are ignored, are left as they are.  Call it once,
// before any thread is started.
void remove_unfinished_files_on_signals();

// True if `action` is the handler that remove_unfinished_files_on_signals() installs.
bool removes_unfinished_files(const struct sigaction& action);

// Calls remove_unfinished_files(), then _exit().  Async-signal-safe.
[[noreturn]] void end_process(int exit_code) noexcept;

}  // namespace kernbench
