#include "benches/cli/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <variant>

#include "benches/bench/console.h"
#include "benches/bench/process_team.h"
#include "benches/cli/commands.h"
#include "benches/cli/shell_word.h"
#include "benches/operators/cases/cases.h"
#include "ccl/backend/ahbm_backend.h"
#include "runtime/distributed/local_backend.h"
#include "runtime/guards/failure.h"
#include "runtime/guards/process_guard.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/unfinished_files.h"

namespace kernbench::benches::cli {

namespace {

int dispatch(const ShowText& shown, ProcessTeam* team) {
  if (team != nullptr && !team->leads()) return 0;
  Console console(STDOUT_FILENO);
  console.print(shown.text);
  console.finish();
  return 0;
}
int dispatch(const ListArguments& arguments, ProcessTeam* team) {
  return team == nullptr || team->leads() ? list(arguments) : 0;
}
int dispatch(const KeysArguments& arguments, ProcessTeam* team) {
  return team == nullptr || team->leads() ? keys(arguments) : 0;
}
int dispatch(const DrawArguments& arguments, ProcessTeam* team) {
  return team == nullptr || team->leads() ? draw(arguments) : 0;
}
int dispatch(const ErrorsArguments& arguments, ProcessTeam* team) {
  return team == nullptr || team->leads() ? errors(arguments) : 0;
}
int dispatch(const RunArguments& arguments, ProcessTeam* team) {
  return run(arguments, team);
}
int dispatch(const WhatIfArguments& arguments, ProcessTeam* team) {
  return whatif(arguments, team);
}
int dispatch(const PlanArguments& arguments, ProcessTeam* team) {
  return plan(arguments, team);
}
int dispatch(const CalibrateArguments& arguments, ProcessTeam* team) {
  return team == nullptr || team->leads() ? calibrate(arguments) : 0;
}
int dispatch(const CompareArguments& arguments, ProcessTeam* team) {
  return compare(arguments, team);
}
int dispatch(const OperatorArguments& arguments, ProcessTeam* team) {
  return bench(arguments, team);
}
int dispatch(const auto& arguments, ProcessTeam* team) {
  return team == nullptr || team->leads() ? probe(arguments) : 0;
}

std::string quote_command(int argc, const char* const* argv) {
  std::string text;
  for (int i = 0; i < argc; ++i) text += (i == 0 ? "" : " ") + shell_word(argv[i]);
  return text;
}

// Memory that is freed when allocation first fails, so that exceptions, finished results and the
// error message still have some.
std::atomic<void*> reserve = nullptr;

void keep_memory_in_reserve() {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  reserve = std::malloc(kBytes);
  std::set_new_handler([] {
    std::set_new_handler(nullptr);
    std::free(reserve.exchange(nullptr));
    throw std::bad_alloc();
  });
}

int run_command(int argc, const char* const* argv) {
  // A closed pipe and a size limit then are errors of a write and do not kill the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGUSR1, SIG_IGN);  // asks for the state of ranks; there are no ranks yet
  remove_unfinished_files_on_signals();
  keep_memory_in_reserve();
  std::unique_ptr<ProcessTeam> team;
  try {
    ccl::register_ahbm_backend();
    distributed::register_local_backend();
    operators::register_shipped_cases();
    team = join_process_team();
    return std::visit([&](const auto& arguments) { return dispatch(arguments, team.get()); },
                      parse_command_line(argc, argv));
  } catch (const Dismissed& dismissed) {
    return dismissed.exit_code;
  } catch (...) {
    const runtime::Failure failure =
        runtime::describe_failure(std::current_exception(), quote_command(argc, argv));
    if (team != nullptr && !team->leads()) {  // the leader fails in the same way, or goes on alone
      team->leave(failure.text);
      return 0;
    }
    Console console(STDERR_FILENO);
    console.print(fmt::format("kernbench: {} {}\n", console.alarming("error:"), failure.text));
    return static_cast<int>(failure.exit_code);
  }
}

// Opens a stand-in for each closed standard stream.  Otherwise the first file that is opened would
// get its descriptor, and printed text would land in that file.  Writing to the stand-in fails, as
// writing to the closed stream would.
void reserve_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1) continue;
    [[maybe_unused]] const int stand_in = open("/dev/null", O_RDONLY);  // the lowest free number
  }
}

struct CommandLine {
  int argc;
  const char* const* argv;
  int exit_code = 0;
};

void* run_command_line(void* object) noexcept {
  auto& line = *static_cast<CommandLine*>(object);
  try {
    line.exit_code = run_command(line.argc, line.argv);
  } catch (...) {  // there is no memory even for the message
    runtime::end_out_of_memory();
  }
  return nullptr;
}

// Matrix products take 128 KiB of stack, which `ulimit -s` may not leave.  In that case the command
// runs on a thread with the usual stack size, and so do the threads that it starts.
void run_with_enough_stack(CommandLine& line) noexcept {
  constexpr std::size_t kLeast = std::size_t{2} << 20;
  constexpr std::size_t kUsual = std::size_t{8} << 20;
  rlimit limit{};
  pthread_attr_t attributes;
  pthread_t thread;
  const bool is_small = ::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kLeast;
  if (!is_small || ::pthread_attr_init(&attributes) != 0) return void(run_command_line(&line));
  ::pthread_attr_setstacksize(&attributes, kUsual);
  ::pthread_setattr_default_np(&attributes);
  const int error = ::pthread_create(&thread, &attributes, run_command_line, &line);
  ::pthread_attr_destroy(&attributes);
  if (error != 0) return void(run_command_line(&line));
  ::pthread_join(thread, nullptr);
}

}  // namespace

}  // namespace kernbench::benches::cli

int kernbench::benches::main(int argc, const char* const* argv) noexcept {
  cli::reserve_standard_streams();
  cli::CommandLine line{argc, argv};
  cli::run_with_enough_stack(line);
  return line.exit_code;
}
