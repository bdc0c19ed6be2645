#include "runtime/guards/failure.h"

#include <fmt/format.h>

#include <new>
#include <system_error>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/exception_text.h"

namespace kernbench::runtime {

namespace {

Failure out_of_memory() {
  return {ExitCode::host_limit, "KB-L002", "[KB-L002] out of memory"};
}

Failure raised(std::string_view text) {
  return {ExitCode::worker_failed, "KB-R001", fmt::format("[KB-R001] {}", text)};
}

bool holds_bad_alloc(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

Failure describe_failure(const std::exception_ptr& exception, const std::string& command) {
  try {
    std::rethrow_exception(exception);
  } catch (const SpawnException& error) {
    if (holds_bad_alloc(error.nested())) {
      const std::string_view text = error.what();  // "[KB-R001] -- Process 1 terminated ..."
      return {ExitCode::host_limit, "KB-L002",
              fmt::format("[KB-L002] out of memory: {}", text.substr(text.find("-- ") + 3))};
    }
    return {error.exit_code(), error.code(), error.what()};
  } catch (const Error& error) {
    return {error.exit_code(), error.code(), error.what()};
  } catch (const InternalError& error) {
    const std::string text = error.what();  // "[KB-X001] ..."
    return {ExitCode::internal, text.substr(1, text.find(']') - 1),
            fmt::format("{}\n  This is a bug of kernbench: please report it.\n  reproduce: {}",
                        text, command)};
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::system_error& error) {
    if (!is_host_limit(error.code())) return raised(to_text(error));
    return {ExitCode::host_limit, "KB-L003",
            fmt::format("[KB-L003] the host has no more of what was asked for: {}\n  close files, "
                        "end other processes, or raise `ulimit -n`, `ulimit -u` and `ulimit -v`",
                        to_text(error))};
  } catch (const std::exception& error) {
    return raised(to_text(error));
  } catch (...) {
    return raised(
        fmt::format("an exception that is no std::exception ({})", type_of_current_exception()));
  }
}

}  // namespace kernbench::runtime
