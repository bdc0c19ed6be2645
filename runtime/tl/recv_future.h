// The result of tl.recv_async().

#pragma once

#include <cstdint>
#include <utility>

#include "sim_engine/base/shape.h"
#include "sim_engine/components/posted_receive.h"

namespace kernbench::tl {

class Context;

// A receive that a kernel has posted and must wait for exactly once, before it ends.  A future
// that was moved from or waited for is used up.
class RecvFuture {
 public:
  RecvFuture(RecvFuture&& other) noexcept
      : kernel_(std::exchange(other.kernel_, 0)),
        shape_(std::move(other.shape_)),
        receive_(std::move(other.receive_)) {}
  RecvFuture& operator=(RecvFuture&& other) noexcept {
    kernel_ = std::exchange(other.kernel_, 0);
    shape_ = std::move(other.shape_);
    receive_ = std::move(other.receive_);
    return *this;
  }

 private:
  friend class Context;
  RecvFuture(std::uint64_t kernel, Shape shape, sim::PostedReceive receive)
      : kernel_(kernel), shape_(std::move(shape)), receive_(std::move(receive)) {}

  std::uint64_t kernel_;  // sim::KernelRun::id(); 0: used up
  Shape shape_;
  sim::PostedReceive receive_;
};

}  // namespace kernbench::tl
