// A rank's stream of a group: the collectives that it has issued to its device and does not wait
// for.  They run one after the other, on one fiber however many there are (ADR-0190).

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "runtime/distributed/work.h"
#include "runtime/fiber/fiber.h"
#include "runtime/fiber/fiber_local.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::distributed {

class CollectiveStream : public std::enable_shared_from_this<CollectiveStream> {
 public:
  // Tells of the end of a work.
  using End = std::function<void(const std::shared_ptr<Work::State>&, const runtime::FiberResult&)>;

  struct Operation {
    std::shared_ptr<Work::State> work;
    std::function<void()> body;
    std::uint64_t write = 0;  // Simulation::next_write()
  };

  CollectiveStream(runtime::Simulation& simulation, int rank, End end);
  CollectiveStream(const CollectiveStream&) = delete;
  CollectiveStream& operator=(const CollectiveStream&) = delete;

  // Blocks the caller while the stream has runtime::kMostQueued operations.
  void wait_for_room();
  void enqueue(Operation operation);

 private:
  void run();

  runtime::Simulation& simulation_;
  const End end_;
  runtime::FiberLocal local_;
  std::deque<Operation> operations_;  // the first is under way
  bool is_running_ = false;
};

}  // namespace kernbench::distributed
