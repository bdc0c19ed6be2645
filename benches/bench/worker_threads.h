// Threads that simulate the points of a sweep.

#pragma once

#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <list>
#include <string>

namespace kernbench::benches {

struct WorkerThreads {
  // One thread each: a pool whose second thread cannot be started never ends.
  std::list<boost::asio::thread_pool> pools;
  std::string why_not_more;  // "" if all threads could be started
};

// Starts `count` threads, or as many as the host allows.  Throws LimitError KB-L003 if it allows
// none.
WorkerThreads start_threads(std::size_t count);

}  // namespace kernbench::benches
