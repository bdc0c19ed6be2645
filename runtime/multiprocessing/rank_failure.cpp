#include "runtime/multiprocessing/rank_failure.h"

#include <fmt/format.h>

#include <new>
#include <system_error>
#include <typeinfo>

#include "sim_engine/base/check.h"
#include "sim_engine/base/exception_text.h"

namespace kernbench::multiprocessing {

// Deadlocks, mismatches and internal errors concern more than this rank, so they pass unchanged.
RankFailure inspect(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const DeadlockError& error) {
    return {error.what(), error.exit_code(), true};
  } catch (const CollectiveMismatchError& error) {
    return {error.what(), error.exit_code(), true};
  } catch (const InternalError& error) {
    return {error.what(), ExitCode::internal, true};
  } catch (const Error& error) {
    return {error.what(), error.exit_code()};
  } catch (const std::bad_alloc& error) {
    return {fmt::format("out of memory ({})", demangle(typeid(error).name())),
            ExitCode::host_limit};
  } catch (const std::system_error& error) {
    return {fmt::format("{} ({})", to_text(error), demangle(typeid(error).name())),
            is_host_limit(error.code()) ? ExitCode::host_limit : ExitCode::worker_failed};
  } catch (const std::exception& error) {
    return {fmt::format("{} ({})", to_text(error), demangle(typeid(error).name()))};
  } catch (...) {
    return {
        fmt::format("an exception that is no std::exception ({})", type_of_current_exception())};
  }
}

bool is_deadlock(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const DeadlockError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace kernbench::multiprocessing
