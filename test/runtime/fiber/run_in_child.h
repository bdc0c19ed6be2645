// Runs what ends the process, in a child of its own.

#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>

#include "runtime/fiber/function_ref.h"

namespace kernbench::runtime {

struct Ended {
  int exit_code = -1;  // or -signal
  std::string standard_error;
};

inline Ended run_in_child(FunctionRef<void()> body) {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], STDERR_FILENO);
    for (const int signal : {SIGSEGV, SIGFPE, SIGILL}) std::signal(signal, SIG_DFL);
    body();
    _exit(0);
  }
  close(pipe_ends[1]);
  Ended ended;
  char buffer[512];
  for (ssize_t n = 0; (n = read(pipe_ends[0], buffer, sizeof buffer)) > 0;) {
    ended.standard_error.append(buffer, static_cast<std::size_t>(n));
  }
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return ended;
}

}  // namespace kernbench::runtime
