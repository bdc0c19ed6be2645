// Tiles has a kernel's operations on flat values, which have neither a handle nor a shape.  Kernels
// of collectives use it, whose messages are many.
//
// The commands, waits and errors are those of Context.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/fiber/function_ref.h"
#include "runtime/tl/tl.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/components/kernel_handles.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::tl {

// The part of a kernel that keeps tiles, for what is said about scratch.
class ScratchHolder {
 public:
  // `made_by` is the name of an operation, e.g. "tl.load".
  using Visit = runtime::FunctionRef<void(const sim::Tile& tile, std::string_view made_by)>;
  virtual void visit_tiles(Visit visit) const = 0;

 protected:
  ~ScratchHolder() = default;
};

class Tiles {
 public:
  explicit Tiles(Context& tl) : tl_(tl) {}

  // From now on `holder` keeps tiles; null: nobody does.  REQUIRES: every tile is one that it
  // visits, or is an operand of the call at hand
  void set_holder(const ScratchHolder* holder);
  // The kernel does not need this tile any more.
  void let_go(sim::Tile& tile) { replace(tile, {}); }
  // Another tile takes the place of this one.
  void replace(sim::Tile& tile, sim::Tile by);

  // The queue to and from a neighbour.
  sim::IpcqChannel& out(Port port) const;
  sim::IpcqChannel& in(Port port) const;

  // Rows of a matrix, which begin `pitch` elements apart; a single row needs no pitch.
  struct Rows {
    std::int64_t count = 1;
    std::int64_t columns = 0;
    std::int64_t pitch = 0;
  };
  sim::Tile load(const Pointer& source, const Rows& rows, DType dtype);
  void store(const Pointer& target, const Rows& rows, const sim::Tile& value);

  // `name` is the operation's, e.g. "a + b"; a literal.
  sim::Tile math(sim::MathOp op, std::string_view name, const sim::Tile& a, const sim::Tile& b);
  // With a number as second operand, or none.
  sim::Tile math(sim::MathOp op, std::string_view name, DType dtype, const sim::Tile& a,
                 std::optional<Scalar> number = {});
  sim::Tile narrow(const sim::Tile& value, std::int64_t begin, std::int64_t count);
  sim::Tile cat(std::span<const sim::Tile> values);

  // True if the queue has a free slot now for a message of so many bytes.
  bool has_slot(const sim::IpcqChannel& channel, Bytes bytes) const;
  void send(sim::IpcqChannel& channel, const sim::Tile& value);
  void copy_to(sim::IpcqChannel& channel, const sim::Tile& value);
  sim::PostedReceive post(sim::IpcqChannel& channel, DType dtype, std::int64_t count);
  // Waits for the message.  Returns when the wait began.
  Time wait(const sim::PostedReceive& receive);
  // The message that was waited for.  Call it once.
  sim::Tile take(sim::PostedReceive& receive, Time began);

 private:
  Context& tl_;
};

}  // namespace kernbench::tl
