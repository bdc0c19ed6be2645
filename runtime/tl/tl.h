// The kernel language: what a kernel may do on its PE, in the manner of Triton.
//
// A kernel is an ordinary function `void kernel(tl::Context& tl, tl::Pointer x, ..., int n)`.  Its
// commands are issued in order and return at once; they run when their operands and their unit are
// ready, so that a load overlaps work that does not need it.  Only recv(), wait(), and send()
// without a credit, wait.  Control flow cannot depend on values: those exist only in the replay.

#pragma once

#include <cstdint>
#include <string>

#include "runtime/fiber/fiber_scheduler.h"
#include "runtime/tensor/shape.h"
#include "runtime/tl/recv_future.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::runtime {
struct FiberLocal;
}

namespace kernbench::tl {

using kernbench::Shape;
using sim::Direction;
using sim::Port;

class Context;

// tl.send(port, value, tl::copy_to).
struct CopyTo {};
inline constexpr CopyTo copy_to;

// Points at an element of a shard in HBM.
class Pointer {
 public:
  Pointer() = default;
  Pointer(const sim::DeviceBuffer& buffer, const std::string& tensor_name)
      : buffer_(buffer), tensor_name_(&tensor_name) {}

  DType dtype() const { return buffer_.dtype; }

  // `elements` further on.  May point anywhere; load() and store() check.
  Pointer operator+(std::int64_t elements) const {
    Pointer moved = *this;
    moved.offset_ += elements;
    return moved;
  }

 private:
  friend class Context;

  sim::DeviceBuffer buffer_;
  std::int64_t offset_ = 0;
  const std::string* tensor_name_ = nullptr;
};

// A value in this PE's scratch memory (TCM).  The memory is given back with its last handle.  It
// must not outlive its kernel; used in another kernel, or on another PE, it is refused (KB-K023).
class Tensor {
 public:
  const Shape& shape() const { return shape_; }
  DType dtype() const { return tile_->dtype; }

  // Element by element on PE_MATH, in f32 with one rounding to the type.
  // Throws DeviceError KB-K020 if shapes or types differ.
  friend Tensor operator+(const Tensor& a, const Tensor& b);
  friend Tensor operator-(const Tensor& a, const Tensor& b);
  friend Tensor operator*(const Tensor& a, const Tensor& b);

 private:
  friend class Context;
  Tensor(Context& context, Shape shape, sim::Tile tile)
      : context_(&context), shape_(std::move(shape)), tile_(std::move(tile)) {}

  Context* context_;
  Shape shape_;
  sim::Tile tile_;
};

struct DotOptions {
  DType out_dtype = DType::f32;
};

// A running kernel.  Every method may throw DeviceError, which names the kernel, the PE, the
// operation and what would be right.
class Context {
 public:
  Context(runtime::FiberScheduler& fibers, runtime::FiberLocal& local, sim::ProcessingElement& pe,
          const sim::Event& wake, std::string_view kernel_name, int program_id, int program_count,
          const sim::Operation& operation = {});
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Which of the PEs of this launch this is (tl.program_id).  Only axis 0 has more than one.
  int program_id(int axis = 0) const { return axis == 0 ? program_id_ : 0; }
  int num_programs(int axis = 0) const { return axis == 0 ? program_count_ : 1; }
  const sim::PeLocation& location() const { return run_.pe().location(); }

  // Copies shape.numel() consecutive elements from HBM into scratch.  KB-M020 out of bounds,
  // KB-M010 scratch exhausted, KB-K021 if `dtype` is not the tensor's.
  Tensor load(const Pointer& source, const Shape& shape, DType dtype);

  // Copies a value to consecutive elements in HBM.  KB-M020, KB-K021.
  void store(const Pointer& target, const Tensor& value);

  // a b, of [m, k] and [k, n], on PE_GEMM (tl.dot): [m, n], summed in f32 and rounded once to
  // `out_dtype`.  KB-K030 for other shapes, KB-K031 if the types of a and b differ, KB-M010.
  Tensor dot(const Tensor& a, const Tensor& b, const DotOptions& options = {});
  // accumulator + a b, for an accumulator of [m, n] f32.  One that is moved in gives its scratch to
  // the result: `sum = tl.dot(a, b, std::move(sum))`.
  Tensor dot(const Tensor& a, const Tensor& b, Tensor accumulator, const DotOptions& options = {});

  // Views, which cost no time and no scratch: where values lie is a matter of addresses.
  // Elements [begin, begin + count) of a value of one dimension (as torch.narrow).  KB-K022 if it
  // has not so many.
  Tensor narrow(const Tensor& value, std::int64_t begin, std::int64_t count);
  // Values of one dimension, one after the other (tl.cat).  KB-K022 if there is none, or their
  // types differ.
  Tensor cat(std::span<const Tensor> values);

  // Sends a value to the neighbour at a port: `Direction::east`, or `{Direction::south, 2}` where
  // there are several.  Waits while the neighbour's buffer is full.
  // KB-Q004 if it is larger than a slot, KB-Q006 if there is no neighbour.
  void send(Port port, const Tensor& value);

  // The same without the neighbour's buffer: straight to where the neighbour has posted a receive,
  // which has the value at once and copies nothing.  Waits until such a receive is posted and the
  // news of it has come.  Of any size.
  void send(Port port, const Tensor& value, CopyTo);

  // Posts a receive of the next message of a port that no earlier one takes.  The PE takes that
  // message in as soon as it is there, whatever the kernel does meanwhile; scratch for it is taken
  // now.  Every future must be waited for before the kernel ends (KB-Q007).
  // KB-Q006 if there is no neighbour, KB-M010 scratch exhausted.
  RecvFuture recv_async(Port port, const Shape& shape, DType dtype);

  // Waits until the message has arrived.  KB-Q005 if it has another type or size than the receive,
  // KB-Q003 if it was left behind by another collective, or by a kernel of the user's in front of a
  // collective; KB-Q008 if the future is used up, or another kernel's.
  Tensor wait(RecvFuture& future);
  Tensor wait(RecvFuture&& future) { return wait(future); }

  // wait(recv_async(port, shape, dtype)).
  Tensor recv(Port port, const Shape& shape, DType dtype);

  // Waits until everything that was issued is done.
  void drain();

  // For the runtime, at a kernel's end: drain(), and KB-Q007 if a posted receive is not waited for.
  void end();

  // For the runtime, when a kernel's code is cut short: nobody waits for its receives, but its
  // commands still refer to this.
  void withdraw_receives() { run_.withdraw_receives(); }
  const sim::MessageBalance& message_balance() const { return run_.message_balance(); }
  bool has_commands_under_way() const { return run_.outstanding() > 0; }
  void wake_when_idle() { run_.wake_when_outstanding(0); }  // REQUIRES: has_commands_under_way()

 private:
  friend Tensor operator+(const Tensor& a, const Tensor& b);
  friend Tensor operator-(const Tensor& a, const Tensor& b);
  friend Tensor operator*(const Tensor& a, const Tensor& b);

  static Tensor math(sim::MathOp op, std::string_view name, const Tensor& a, const Tensor& b);
  sim::GemmSize dot_size(const Tensor& a, const Tensor& b) const;
  void check_access(std::string_view operation, const Pointer& pointer, std::int64_t count,
                    DType dtype) const;
  void check_own(std::string_view operation, const Tensor& value) const;
  void reserve_scratch(std::string_view operation, Bytes bytes);
  sim::IpcqChannel& out(Port port) const;
  sim::IpcqChannel& in(Port port) const;
  void check_receives_are_closed() const;
  [[noreturn]] void refuse(const sim::IpcqChannel& channel, const sim::IpcqMessage& message,
                           const sim::Tile& expected) const;
  std::string where(std::string_view operation) const;

  runtime::FiberScheduler& fibers_;
  runtime::FiberLocal& local_;
  sim::KernelRun run_;
  const std::string_view kernel_name_;
  const int program_id_;
  const int program_count_;
};

}  // namespace kernbench::tl
