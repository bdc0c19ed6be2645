// Errors that the user of kernbench causes, or the host's limits.  Faults of kernbench itself are
// KB_CHECKs (check.h).

#pragma once

#include <fmt/core.h>

#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kernbench {

// The program's exit codes (stable, part of the interface).
enum class ExitCode : int {
  ok = 0,
  worker_failed = 1,       // a worker raised, or a bench's own check failed
  usage = 2,               // wrong command line
  configuration = 3,       // wrong topology, ccl.yaml, ...
  output = 4,              // an output cannot be written
  deadlock = 20,           // deadlock or livelock
  collective_misuse = 21,  // misuse of collectives or of the API
  device_fault = 22,       // misuse of device memory or of a kernel operation
  numerics = 23,           // a numeric check failed
  values = 24,             // ranks whose values differ
  internal = 70,           // a bug of kernbench
  host_limit = 71,         // fibers, memory, mappings
  hung_up = 129,           // ended by SIGHUP, 128 + the signal's number, as shells have it
  interrupted = 130,       // by SIGINT
  terminated = 143,        // by SIGTERM
};

// The exit code of a process that this signal ends.
constexpr ExitCode exit_code_of_signal(int signal) {
  return static_cast<ExitCode>(128 + signal);
}

// Base of all errors a user can cause.  what() is one deterministic block of text: a first line
// "[KB-X000] ...", then indented detail.  It contains no pointers, no host times, and no terminal
// control sequences, even if a name given by the user has them (visible_lines()).
class Error : public std::runtime_error {
 public:
  // `code` is the stable identifier of the failure class, e.g. "KB-D001".
  Error(std::string_view code, ExitCode exit_code, std::string_view text);
  // The text is a format of {fmt}, with its arguments.
  template <class First, class... Rest>
  Error(std::string_view code, ExitCode exit_code, fmt::format_string<First, Rest...> text,
        First&& first, Rest&&... rest)
      : Error(code, exit_code, fmt::vformat(text, fmt::make_format_args(first, rest...))) {}

  const std::string& code() const { return code_; }
  ExitCode exit_code() const { return exit_code_; }
  const char* what() const noexcept override {
    return text_with_place_.empty() ? std::runtime_error::what() : text_with_place_.c_str();
  }

  // The part of the user's program that was running, such as a module.
  struct Place {
    std::string path;             // "blocks.3.up"; empty: of the whole
    std::string kind;             // "Linear"
    const void* owner = nullptr;  // the part from which the path begins, to be compared alone
  };
  const Place& place() const { return place_; }
  // what() ends with the place from now on, in a line of its own.
  void set_place(Place place);

 protected:
  struct TextHasCodes {};
  Error(TextHasCodes, std::string_view code, ExitCode exit_code, const std::string& text);

 private:
  std::string code_;
  ExitCode exit_code_;
  Place place_;
  std::string text_with_place_;  // empty: it has none
};

// The errors of one exit code.
template <ExitCode kExitCode>
class ErrorOf : public Error {
 public:
  ErrorOf(std::string_view code, std::string_view text) : Error(code, kExitCode, text) {}
  template <class First, class... Rest>
  ErrorOf(std::string_view code, fmt::format_string<First, Rest...> text, First&& first,
          Rest&&... rest)
      : Error(code, kExitCode, text, std::forward<First>(first), std::forward<Rest>(rest)...) {}

 protected:
  ErrorOf(TextHasCodes tag, std::string_view code, const std::string& text)
      : Error(tag, code, kExitCode, text) {}
  ErrorOf(std::string_view code, ExitCode exit_code, std::string_view text)
      : Error(code, exit_code, text) {}
};

// Wrong command line or environment.
class UsageError : public ErrorOf<ExitCode::usage> {
 public:
  using ErrorOf::ErrorOf;
};

// Wrong configuration file.  The text lists every error of the file, each as file:line:column.
class ConfigError : public ErrorOf<ExitCode::configuration> {
 public:
  using ErrorOf::ErrorOf;
  // An error whose text lists several errors, each line with its code; `code` is the first line's.
  static ConfigError listing(std::string_view code, const std::string& text) {
    return ConfigError(TextHasCodes{}, code, text);
  }
};

// A result cannot be written.
class IoError : public ErrorOf<ExitCode::output> {
 public:
  using ErrorOf::ErrorOf;
};

// No fiber can make progress, or a rank returned while others wait for it (exit_code() is then
// collective_misuse, since that is the cause).
class DeadlockError : public ErrorOf<ExitCode::deadlock> {
 public:
  using ErrorOf::ErrorOf;
  DeadlockError(std::string_view code, std::string_view text, ExitCode exit_code)
      : ErrorOf(code, exit_code, text) {}
};

// Misuse of collectives or of the runtime's API.
class CollectiveError : public ErrorOf<ExitCode::collective_misuse> {
 public:
  using ErrorOf::ErrorOf;
};

// Two ranks called different collectives, or the same one with different arguments.
class CollectiveMismatchError : public CollectiveError {
 public:
  using CollectiveError::CollectiveError;
};

// A rank of a group has died, or shrink_group() has aborted the group, so that a collective or a
// message of it cannot run (PyTorch: DistBackendError).  A rank may catch it, and go on in the
// group that shrink_group(error.ranks()) makes.
class DistBackendError : public CollectiveError {
 public:
  // `ranks` are those to exclude, by their ranks in the default group.
  DistBackendError(std::string_view code, std::string_view text, std::vector<int> ranks)
      : CollectiveError(code, text), ranks_(std::move(ranks)) {}
  const std::vector<int>& ranks() const { return ranks_; }

 private:
  std::vector<int> ranks_;
};

// Misuse of device memory or of a kernel operation.
class DeviceError : public ErrorOf<ExitCode::device_fault> {
 public:
  using ErrorOf::ErrorOf;
};

// A numeric check failed.
class NumericsError : public ErrorOf<ExitCode::numerics> {
 public:
  using ErrorOf::ErrorOf;
};

// The host lacks the memory, mappings or fibers that the run needs.
class LimitError : public ErrorOf<ExitCode::host_limit> {
 public:
  using ErrorOf::ErrorOf;
};

// Returns for "did you mean" the candidate nearest to `word` within edit distance 2; empty if there
// is no such candidate.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

// Thrown by spawn() when a worker has raised.  It names the first rank that failed, in simulated
// time, and lists what the others were doing when they were unwound (PyTorch:
// ProcessRaisedException).  Its exit code is that of the worker's exception if that is an Error,
// else worker_failed.
class SpawnException : public Error {
 public:
  SpawnException(int rank, std::exception_ptr nested, ExitCode exit_code, std::string_view text)
      : Error("KB-R001", exit_code, text), rank_(rank), nested_(std::move(nested)) {}

  int rank() const { return rank_; }

  // The exception that the worker raised.
  const std::exception_ptr& nested() const { return nested_; }

 private:
  int rank_;
  std::exception_ptr nested_;
};

// Every blocking call of a fiber whose run is over throws this, to unwind the fiber.  It is not a
// std::exception, so that code which catches those lets it pass.  Never swallow it with catch
// (...).
struct Cancelled {};

}  // namespace kernbench
