#include "runtime/context/failure.h"

#include <fmt/format.h>

#include <new>

#include "runtime/multiprocessing/spawn.h"
#include "sim_engine/base/check.h"

namespace kernbench::runtime {

namespace {

Failure out_of_memory() {
  return {ExitCode::host_limit, "KB-L002", "[KB-L002] out of memory"};
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
    if (holds_bad_alloc(error.nested())) return out_of_memory();
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
  } catch (const std::exception& error) {
    return {ExitCode::worker_failed, "KB-R001", fmt::format("[KB-R001] {}", error.what())};
  } catch (...) {
    return {ExitCode::worker_failed, "KB-R001", "[KB-R001] an exception that is no std::exception"};
  }
}

}  // namespace kernbench::runtime
