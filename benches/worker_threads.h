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
  std::string why_not_more;  // "" if there are as many as were wanted
};

// So many, or as many as the host lets start.  Throws LimitError KB-L003 if that is none.
WorkerThreads start_threads(std::size_t count);

}  // namespace kernbench::benches
