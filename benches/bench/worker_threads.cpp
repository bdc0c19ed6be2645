#include "benches/bench/worker_threads.h"

#include <system_error>

#include "sim_engine/base/error.h"

namespace kernbench::benches {

WorkerThreads start_threads(std::size_t count) {
  WorkerThreads threads;
  try {
    while (threads.pools.size() < count) threads.pools.emplace_back(1);
  } catch (const std::system_error& error) {
    threads.why_not_more = error.code().message();
    if (threads.pools.empty()) {
      throw LimitError("KB-L003", "cannot start a thread: " + threads.why_not_more);
    }
  }
  return threads;
}

}  // namespace kernbench::benches
