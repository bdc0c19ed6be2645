#include "runtime/multiprocessing/host_room.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "sim_engine/base/error.h"

namespace kernbench::multiprocessing {

Bytes host_memory() {
  std::uint64_t bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    bytes = std::min<std::uint64_t>(bytes, limit.rlim_cur);
  }
  std::uint64_t of_group = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> of_group) bytes = std::min(bytes, of_group);
  return static_cast<Bytes>(bytes);
}

void check_has_room(int nprocs) {
  constexpr Bytes kBytesPerRank = 9 * 1024;  // of a rank that waits
  const Bytes needed = nprocs * kBytesPerRank;
  const Bytes limit = host_memory();
  if (needed <= limit) return;
  throw LimitError(
      "KB-L001",
      "spawn: {} ranks need at least {} MiB of memory, of which the host has {}; start at most {}",
      nprocs, needed >> 20, limit >> 20, limit / kBytesPerRank);
}

}  // namespace kernbench::multiprocessing
