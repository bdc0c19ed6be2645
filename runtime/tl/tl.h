// The kernel language: the operations of a kernel on its PE, modelled on Triton.
//
// A kernel is an ordinary function `void kernel(tl::Context& tl, tl::Pointer x, ..., int n)`.  Its
// commands are issued in order and return at once; they run when their operands and unit are
// ready, so that a load overlaps work that does not need it.  Only recv(), wait(), and send()
// without a credit, wait.  Control flow cannot depend on values, which are computed when the host
// reads them.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tl/composite_gemm.h"
#include "runtime/tl/values.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/shape.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/location.h"
#include "sim_engine/values/compute_ops.h"
#include "sim_engine/values/device_buffer.h"

namespace kernbench::runtime {
class CommandBudget;
class FiberScheduler;
struct FiberLocal;
template <class Signature>
class FunctionRef;
}  // namespace kernbench::runtime

namespace kernbench::sim {
struct CompositePlan;
struct ElementRange;
struct Event;
struct HbmPart;
struct IpcqMessage;
class KernelRun;
struct MatrixAt;
struct FurtherBlocks;
struct OperandAt;
struct MessageBalance;
struct Operation;
class ProcessingElement;
}  // namespace kernbench::sim

namespace kernbench::tl {

class AccessWatch;
class LaunchArguments;
class PortNames;
class ScratchHolder;
class StoreGuard;
class Tiles;

using kernbench::Shape;
using sim::Direction;
using sim::Port;

// A tag for tl.send(port, value, tl::copy_to).
struct CopyTo {};
inline constexpr CopyTo copy_to;

struct ReduceOptions {
  bool keep_dims = false;  // the axis stays, with size 1
};

struct LoadOptions {
  // The elements come by way of the SRAM of the PE's cube and stay there a while, for PEs that load
  // the same ones, or for this one to load them again: HBM gives them once (sim::SharedTiles).
  bool is_shared = false;
};

struct DotOptions {
  DType out_dtype = DType::f32;
};

// a / b, rounded up.  Throws DeviceError KB-K022 unless b is positive.
std::int64_t cdiv(std::int64_t a, std::int64_t b);

// A running kernel.  Every method may throw DeviceError, which names the kernel, the PE, the
// operation and the remedy; and, if it issues a command, DeadlockError KB-D002 after so many
// commands that the kernel seems endless (RuntimeOptions::command_limit).  A PE accepts 1,024
// unfinished commands of a kernel; issuing another one waits for the first of them.
class Context {
 public:
  Context(runtime::FiberScheduler& fibers, runtime::CommandBudget& budget,
          runtime::FiberLocal& local, sim::ProcessingElement& pe, const sim::Event& wake,
          std::string_view kernel_name, int program_id, int program_count,
          const sim::Operation& operation);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // The number of this PE among those of the launch, and their number (tl.program_id).  PEs are
  // numbered by SIP, cube, then PE.  A launch has only axis 0: KB-K022 for another one.
  int program_id(int axis = 0) const;
  int num_programs(int axis = 0) const;
  // The place of this PE: its SIP in the system, its cube in the SIP, its number in the cube.  A
  // launch need not use all of them, nor begin at 0.
  int sip_id() const { return location().sip; }
  int cube_id() const { return location().cube; }
  int pe_id() const { return location().pe; }
  std::int64_t cdiv(std::int64_t a, std::int64_t b) const;  // tl::cdiv()
  const sim::PeLocation& location() const { return location_; }

  // Keeps the PE_CPU busy for so long, with no command.
  void spend(Time time);

  // Stores to what `guard` protects are refused; `watch` sees each access.  Both must outlive it.
  void guard_stores(const StoreGuard& guard) { guard_ = &guard; }
  void watch_accesses(AccessWatch& watch) { watch_ = &watch; }

  // Sets the kernel's names of neighbours, which must outlive the kernel.
  void name_ports(const PortNames& names) { port_names_ = &names; }

  // Copies shape.numel() consecutive elements from HBM into scratch.  KB-M020 out of bounds,
  // KB-M010 scratch exhausted, KB-K021 if `dtype` is not the tensor's.
  Tensor load(const Pointer& source, const Shape& shape, DType dtype);

  // Loads rows that begin `pitch` elements after each other: a tile of a matrix that is `pitch`
  // wide.  KB-K032 if the shape does not have two dimensions, or if rows would overlap.
  Tensor load(const Pointer& source, const Shape& shape, DType dtype, std::int64_t pitch,
              const LoadOptions& options = {});

  // Loads the rows of a matrix that indices [n] number, from `first` on; zeros where there is none:
  // [n, columns] (torch.index_select).  Which rows these are is not known when time is simulated:
  // they count as spread evenly over the blocks.  KB-M020, KB-M010.
  Tensor index_select(const RowsInBlocks& matrix, const Tensor& indices, std::int64_t first = 0);
  // Adds rows, each to the row of a matrix of zeros that its index numbers, from `first` on:
  // [rows, columns] in f32, summed in the order of the indices (torch.index_add).  Rows with other
  // indices do not count; `expected` of them are loaded as far as time is concerned.
  // REQUIRES: as many rows as indices; 0 < expected
  Tensor index_add(const RowsInBlocks& added, const Tensor& indices, std::int64_t first,
                   std::int64_t rows, std::int64_t expected);

  // Copies a value to consecutive elements in HBM.  KB-M020, KB-K021, KB-G003.
  void store(const Pointer& target, const Tensor& value);
  // Stores rows that begin `pitch` elements after each other.  KB-K032.
  void store(const Pointer& target, const Tensor& value, std::int64_t pitch);

  // Returns a b for a [m, k] and b [k, n], computed on PE_GEMM (tl.dot): [m, n], summed in f32 and
  // rounded once to `out_dtype`.  KB-K030 for other shapes, KB-K031 if types differ, KB-M010.
  Tensor dot(const Tensor& a, const Tensor& b, const DotOptions& options = {});
  // Returns accumulator + a b, with an accumulator of [m, n] f32.  An accumulator that is moved in
  // gives its scratch to the result: `sum = tl.dot(a, b, std::move(sum))`.
  Tensor dot(const Tensor& a, const Tensor& b, Tensor accumulator, const DotOptions& options = {});

  // Computes a matrix product larger than scratch in one command: it loads tiles while the array
  // works, sums over k in f32, applies the epilogue on PE_MATH and stores, with one rounding to
  // c's type.  Returns at once, but if it must choose tiles it first waits for earlier composites,
  // whose scratch it could use, and, if the tiles need scratch that commands under way hold, for
  // those too.  Its parts count as commands; the op log records the whole and its parts.
  // KB-K031 if the types of a and b differ, KB-K032 for a pitch smaller than a row, KB-K033 for
  // sizes or blocks that are invalid, or too many parts, KB-K034 if c overlaps an operand, KB-K035
  // if the tiles cannot fit scratch, KB-K021, KB-M010, KB-M020.
  void composite(const CompositeGemm& gemm);

  // Elementwise operations on PE_MATH.  values.h has + - * / and comparisons, and the rules for
  // all of them; exp and its like stand below.
  Tensor abs(const Tensor& x) { return elementwise(sim::MathOp::absolute, "tl.abs", {x}); }
  // Python's a // b and a % b, of integers too; x // 0 of integers is -1, and x % 0 is x.
  Tensor floor_divide(const Operand& a, const Operand& b) {
    return elementwise(sim::MathOp::floor_divide, "tl.floor_divide", {a, b});
  }
  Tensor remainder(const Operand& a, const Operand& b) {
    return elementwise(sim::MathOp::remainder, "tl.remainder", {a, b});
  }
  // The result is NaN if an operand is; -0 is below +0.
  Tensor maximum(const Operand& a, const Operand& b) {
    return elementwise(sim::MathOp::maximum, "tl.maximum", {a, b});
  }
  Tensor minimum(const Operand& a, const Operand& b) {
    return elementwise(sim::MathOp::minimum, "tl.minimum", {a, b});
  }
  // a * b + c, rounded once to f32 and then to the type.
  Tensor fma(const Operand& a, const Operand& b, const Operand& c) {
    return elementwise(sim::MathOp::fma, "tl.fma", {a, b, c});
  }
  // minimum(maximum(x, low), high).
  Tensor clamp(const Operand& x, const Operand& low, const Operand& high) {
    return elementwise(sim::MathOp::clamp, "tl.clamp", {x, low, high});
  }
  // Returns a where the mask is not 0, else b.  The mask may have another type; if a and b are
  // numbers, the result has the mask's type.
  Tensor where(const Tensor& mask, const Operand& a, const Operand& b) {
    return elementwise(sim::MathOp::select, "tl.where", {mask, a, b});
  }
  // Rounds x once to another type.  A cast to its own type returns x and costs nothing.
  Tensor cast(const Tensor& x, DType dtype);

  // Reductions along an axis on PE_MATH.  A negative axis counts from the last; without one, all
  // elements are reduced.  sum adds in f32, as 16 partial sums of every 16th element that are
  // added pairwise, with one rounding at the end; before it, the error is at most (ceil(n / 16) +
  // 3) * 2^-24 of the sum of magnitudes.  KB-K022 if there is no such axis, or for the maximum or
  // minimum of no elements; KB-M010.
  Tensor sum(const Tensor& x, std::optional<int> axis = {}, const ReduceOptions& options = {});
  Tensor max(const Tensor& x, std::optional<int> axis = {}, const ReduceOptions& options = {});
  Tensor min(const Tensor& x, std::optional<int> axis = {}, const ReduceOptions& options = {});
  // exp(x - max) / sum(exp(x - max)), in f32, with one rounding at the end.
  Tensor softmax(const Tensor& x, int axis = -1);

  // Operations that create values, written by PE_MATH.
  Tensor full(const Shape& shape, const Scalar& value, DType dtype) {
    return filled("tl.full", shape, value, dtype);
  }
  Tensor zeros(const Shape& shape, DType dtype) { return filled("tl.zeros", shape, 0, dtype); }
  // The numbers from start up to, not including, end.  KB-K022 if end is below start, or if
  // `dtype` cannot represent all of them.
  Tensor arange(std::int64_t start, std::int64_t end, DType dtype = DType::f32);
  // Transposes a matrix; PE_MATH moves its elements.  KB-K022 for other shapes.
  Tensor trans(const Tensor& x);

  // Views cost no time and no scratch, since only addresses change.
  // Returns the same elements in another shape.  KB-K022 if their number differs.
  Tensor reshape(const Tensor& x, const Shape& shape);
  // Returns elements [begin, begin + count) of a one-dimensional value (torch.narrow).  KB-K022 if
  // it has fewer.
  Tensor narrow(const Tensor& value, std::int64_t begin, std::int64_t count);
  // Concatenates one-dimensional values (tl.cat).  KB-K022 if there is none, or if their types
  // differ.
  Tensor cat(std::span<const Tensor> values);

  // Sends a value to the neighbour at a port: `Direction::east`, or `{Direction::south, 2}` where
  // there are several.  Waits while the neighbour's buffer is full.
  // KB-Q004 if the value is larger than a slot, KB-Q006 if there is no neighbour.
  void send(Port port, const Tensor& value);

  // Sends a value of any size without the neighbour's buffer, directly into the receive that the
  // neighbour has posted, which then need not copy it.  Waits until such a receive is posted and
  // this PE has been told.
  void send(Port port, const Tensor& value, CopyTo);

  // Posts a receive of the port's next message that no earlier receive takes.  The PE takes in
  // that message as soon as it arrives, whatever the kernel does meanwhile; its scratch is
  // allocated now.  Every future must be waited for before the kernel ends (KB-Q007).
  // KB-Q006 if there is no neighbour, KB-M010 if scratch is exhausted.
  RecvFuture recv_async(Port port, const Shape& shape, DType dtype);

  // Waits until the message has arrived.  KB-Q005 if it has another type or size than the receive,
  // KB-Q003 if another collective, or a user's kernel before a collective, left it behind; KB-Q008
  // if the future is used up or another kernel's.
  Tensor wait(RecvFuture& future);
  Tensor wait(RecvFuture&& future) { return wait(future); }

  // wait(recv_async(port, shape, dtype)).
  Tensor recv(Port port, const Shape& shape, DType dtype);

  // Waits until every issued command is done.
  void drain();

  // Sets how many commands may be under way from now on, at most (and at first) 1,024.  This
  // limits how far ahead the kernel loads, and so the scratch it takes from collectives beside it.
  void limit_commands_under_way(int most);

  // Chooses tile sizes for a matrix product as tl.composite does (sim::choose_tile()): two tiles
  // of each operand and of the result in f32 fit in `scratch` bytes.  a and b have one type.  A
  // size of 0 gives a tile size of 1.
  sim::GemmSize choose_tile(const Pointer& a, const Pointer& b, const Pointer& c,
                            const sim::GemmSize& size, Bytes scratch);

  // For the runtime, at a kernel's end: drain(), and KB-Q007 if a posted receive was not waited
  // for.
  void end();

  // The runtime reads here what the kernel touches whenever it goes on.

  // The kernel's work so far, which the runtime reads.
  const sim::KernelRun& run() const { return run_; }

  // For the runtime, when a kernel is cut short: withdraws its posted receives; commands under way
  // still refer to this object.
  void withdraw_receives();
  const sim::MessageBalance& message_balance() const;
  bool has_commands_under_way() const;
  void wake_when_idle();  // REQUIRES: has_commands_under_way()

 private:
  friend class Tensor;
  friend class Tiles;
  friend Tensor apply(sim::MathOp op, std::string_view name,
                      std::initializer_list<Operand> operands);

  Tensor elementwise(sim::MathOp op, std::string_view name,
                     std::initializer_list<Operand> operands);
  Tensor reduce(sim::AxisOp op, std::string_view name, const Tensor& x, std::optional<int> axis,
                const ReduceOptions& options);
  std::size_t wrap_axis(std::string_view operation, const Tensor& x, int axis) const;
  // Returns a view of x, repeated to a shape that it broadcasts to.
  sim::Tile broadcast(const Tensor& x, const Shape& shape);
  sim::GemmSize dot_size(const Tensor& a, const Tensor& b) const;
  // The number of elements from a pointer on; it may exceed what a pointer can reach.
  using Extent = Wide;
  void check_access(std::string_view operation, const Pointer& pointer, Extent count,
                    DType dtype) const;
  void check_axis(std::string_view operation, int axis) const;
  std::vector<sim::HbmPart> parts_of(std::string_view operation, const RowsInBlocks& rows) const;
  void check_readers(std::string_view operand, const CompositeGemm::Readers& readers) const;
  sim::OperandAt operand_at(std::string_view operand, const Pointer& first,
                            const FurtherBlocks& further, const Shape& shape, DType dtype,
                            std::int64_t pitch) const;
  void check_row(std::string_view operand, std::int64_t row, std::int64_t next,
                 const Shape& shape) const;
  std::shared_ptr<const sim::FurtherBlocks> blocks_behind(const sim::MatrixAt& first,
                                                          std::string_view operand,
                                                          const FurtherBlocks& further,
                                                          const Shape& shape, DType dtype) const;
  std::shared_ptr<const CheckedBlocks> check_blocks(const CheckedBlocks& asked,
                                                    const sim::MatrixAt& first,
                                                    std::string_view operand,
                                                    const FurtherBlocks& further,
                                                    const Shape& shape) const;
  sim::MatrixAt matrix_at(std::string_view operation, const Pointer& pointer, const Shape& shape,
                          DType dtype, std::int64_t pitch) const;
  sim::CompositePlan make_plan(const CompositeGemm& gemm) const;
  void check_sizes(const CompositeGemm& gemm) const;
  void choose_tile(sim::CompositePlan& plan, const sim::GemmSize& wanted);
  void set_tile(sim::CompositePlan& plan, const sim::GemmSize& wanted);
  void count_parts(const sim::CompositePlan& plan);
  sim::ElementRange rows_at(std::string_view operation, const Pointer& pointer, const Shape& shape,
                            DType dtype, std::int64_t pitch) const;

  // Texts of KB-K023.
  static constexpr std::string_view kVoidValue =
      "the value is void: it was moved from, or its kernel has ended; store what is to be kept";
  static constexpr std::string_view kForeignValue =
      "the value is of another kernel or PE; send it, or store and load it";
  void check_own(std::string_view operation, const Tensor& value) const;
  // Refuses a DType that is not an enumerator.
  void check_dtype(std::string_view operation, DType dtype) const;
  // Waits until a command slot and `scratch` bytes are free; throws KB-D002, KB-M010.
  void make_room(std::string_view operation, Bytes scratch);
  void make_room_for_command(std::string_view operation);
  // Waits until `scratch()` bytes are free; asks again whenever a command has ended.
  void wait_for_scratch(std::string_view operation, runtime::FunctionRef<Bytes()> scratch);
  void count_commands(std::string_view operation, std::int64_t count);
  std::string scratch_holders();
  // Scratch that stays allocated when all commands under way have ended.
  Bytes held_scratch() const;
  sim::IpcqChannel& out(Port port) const;
  sim::IpcqChannel& in(Port port) const;
  Port port_of_pe(Port port) const;
  // The names of a PE's ports as the kernel knows them; none of those that it does not know.
  std::vector<Port> known(const std::vector<Port>& of_pe) const;
  void check_receives_are_closed() const;
  [[noreturn]] void refuse(const sim::IpcqChannel& channel, const sim::IpcqMessage& message,
                           const sim::Tile& expected) const;
  std::string where(std::string_view operation) const;
  Tensor filled(std::string_view operation, const Shape& shape, const Scalar& value, DType dtype);

  void ask_rule(std::string_view operation, const Pointer& pointer,
                const sim::ElementRange& elements, bool is_written) const;
  void check_store(std::string_view operation, const Pointer& target,
                   const sim::ElementRange& elements) const;
  void show(std::string_view operation, const Pointer& pointer, const sim::ElementRange& elements,
            bool is_written) const;
  static constexpr int kMostUnderWay = 1024;
  int most_under_way_ = kMostUnderWay;

  runtime::FiberScheduler& fibers_;
  runtime::CommandBudget& budget_;
  runtime::FiberLocal& local_;
  const std::unique_ptr<sim::KernelRun> own_run_;
  sim::KernelRun& run_;
  const sim::PeLocation& location_;
  const std::string_view kernel_name_;
  const int program_id_;
  const int program_count_;
  const StoreGuard* guard_ = nullptr;  // null: every store is allowed
  AccessWatch* watch_ = nullptr;
  const PortNames* port_names_ = nullptr;  // null: those of the PE
  std::int64_t commands_ = 0;              // issued
  HandleList handles_;
  const ScratchHolder* holder_ = nullptr;  // of tiles without handles

 public:
  // exp, log, sqrt, rsqrt, sigmoid, floor, exp2, log2, sin, cos and erf.  sqrt and floor are exact
  // except for rounding; the others are within 0.500001 units in the last place of f32 before they
  // are rounded to the type.
#define KERNBENCH_MATH_FUNCTION(name, ...)                   \
  Tensor name(const Tensor& x) {                             \
    return elementwise(sim::MathOp::name, "tl." #name, {x}); \
  }
#include "sim_engine/values/math_ops.def"
};

}  // namespace kernbench::tl
