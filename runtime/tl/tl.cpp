#include "runtime/tl/tl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/context/fiber_local.h"
#include "sim_engine/base/error.h"

namespace kernbench::tl {

Context::Context(runtime::FiberScheduler& fibers, runtime::FiberLocal& local,
                 sim::ProcessingElement& pe, const sim::Event& wake, std::string_view kernel_name,
                 int program_id, int program_count, std::uint64_t collective)
    : fibers_(fibers),
      local_(local),
      run_(pe, wake, collective),
      kernel_name_(kernel_name),
      program_id_(program_id),
      program_count_(program_count) {}

std::string Context::where(std::string_view operation) const {
  return fmt::format("{} in kernel '{}' on {}", operation, kernel_name_, to_string(location()));
}

// HBM

void Context::check_access(std::string_view operation, const Pointer& pointer, std::int64_t count,
                           DType dtype) const {
  const sim::DeviceBuffer& buffer = pointer.buffer_;
  if (pointer.tensor_name_ == nullptr) {
    throw DeviceError("KB-M020",
                      fmt::format("{}: the pointer points at no tensor", where(operation)));
  }
  if (!run_.pe().services().memory.is_live(buffer.region)) {
    throw DeviceError(
        "KB-M001", fmt::format("{}: the tensor of this pointer was freed; pass it to launch() as "
                               "an argument, which keeps it alive",
                               where(operation)));
  }
  if (dtype != buffer.dtype) {
    throw DeviceError("KB-K021",
                      fmt::format("{}: tensor '{}' is {}, not {}", where(operation),
                                  *pointer.tensor_name_, name_of(buffer.dtype), name_of(dtype)));
  }
  const std::int64_t first = pointer.offset_;
  if (first < 0 || first > buffer.element_count || count > buffer.element_count - first) {
    throw DeviceError(
        "KB-M020",
        fmt::format("{} out of bounds: elements {}..{} of tensor '{}', whose shard has {} elements",
                    where(operation), first, first + count - 1, *pointer.tensor_name_,
                    buffer.element_count));
  }
}

Tensor Context::load(const Pointer& source, const Shape& shape, DType dtype) {
  check_access("tl.load", source, shape.numel(), dtype);
  reserve_scratch("tl.load", shape.numel() * size_of(dtype));
  return {*this, shape, run_.load(source.buffer_, source.offset_, shape.numel())};
}

// A value lives in the scratch of one PE, as long as its kernel runs.
void Context::check_own(std::string_view operation, const Tensor& value) const {
  if (value.context_ == this) return;
  throw DeviceError("KB-K023", fmt::format("{}: the value is of another kernel or PE; send it, or "
                                           "store and load it",
                                           where(operation)));
}

void Context::store(const Pointer& target, const Tensor& value) {
  check_own("tl.store", value);
  check_access("tl.store", target, value.shape().numel(), value.dtype());
  run_.store(target.buffer_, target.offset_, value.tile_);
}

// PE_MATH

Tensor Context::math(sim::MathOp op, std::string_view name, const Tensor& a, const Tensor& b) {
  Context& context = *a.context_;
  context.check_own(name, b);
  if (a.shape_ != b.shape_ || a.dtype() != b.dtype()) {
    throw DeviceError("KB-K020",
                      fmt::format("{}: the operands are {} {} and {} {}; they must agree",
                                  context.where(name), to_string(a.shape_), name_of(a.dtype()),
                                  to_string(b.shape_), name_of(b.dtype())));
  }
  context.reserve_scratch(name, a.tile_->bytes);
  return {context, a.shape_, context.run_.math(op, a.tile_, b.tile_)};
}

Tensor operator+(const Tensor& a, const Tensor& b) {
  return Context::math(sim::MathOp::add, "tensor + tensor", a, b);
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  return Context::math(sim::MathOp::subtract, "tensor - tensor", a, b);
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  return Context::math(sim::MathOp::multiply, "tensor * tensor", a, b);
}

// Views

Tensor Context::narrow(const Tensor& value, std::int64_t begin, std::int64_t count) {
  check_own("tl.narrow", value);
  if (value.shape_.rank() != 1 || begin < 0 || count < 0 || count > value.shape_[0] - begin) {
    throw DeviceError("KB-K022", fmt::format("{}: elements {}..{} of {}", where("tl.narrow"), begin,
                                             begin + count - 1, to_string(value.shape_)));
  }
  return {*this, {count}, run_.slice(value.tile_, begin, count)};
}

Tensor Context::cat(std::span<const Tensor> values) {
  std::vector<sim::Tile> tiles;
  std::int64_t count = 0;
  for (const Tensor& value : values) {
    check_own("tl.cat", value);
    if (value.shape_.rank() != 1 || value.dtype() != values.front().dtype()) {
      throw DeviceError(
          "KB-K022", fmt::format("{}: {} {} after {}; values of one dimension and one "
                                 "type are wanted",
                                 where("tl.cat"), to_string(value.shape_), name_of(value.dtype()),
                                 name_of(values.front().dtype())));
    }
    tiles.push_back(value.tile_);
    count += value.shape_[0];
  }
  if (tiles.empty()) throw DeviceError("KB-K022", where("tl.cat") + ": no values");
  return {*this, {count}, run_.concat(tiles)};
}

// IPCQ

namespace {

// While a kernel waits for a queue: whom it waits for is known to reports, and if it is unwound the
// queue forgets it.
template <class Forget>
class QueueWait {
 public:
  QueueWait(runtime::FiberLocal& local, const sim::PeLocation& other_end, Forget forget)
      : local_(local), forget_(forget) {
    local_.waits_for = other_end;
  }
  ~QueueWait() {
    local_.waits_for.reset();
    forget_();
  }
  QueueWait(const QueueWait&) = delete;
  QueueWait& operator=(const QueueWait&) = delete;

 private:
  runtime::FiberLocal& local_;
  const Forget forget_;
};

// `known` are the ports that there are.
DeviceError no_neighbour(const std::string& where, Port port, const std::vector<Port>& known) {
  std::vector<std::string> names;
  for (const Port other : known) names.push_back(to_string(other));
  return {"KB-Q006",
          fmt::format(
              "{}: there is no neighbour at {}; there {}", where, to_string(port),
              names.empty() ? "is none at all" : fmt::format("are: {}", fmt::join(names, ", ")))};
}

}  // namespace

void Context::send(Port port, const Tensor& value) {
  sim::IpcqChannel* channel = run_.pe().ipcq().out(port);
  if (channel == nullptr) {
    std::vector<Port> known;
    for (const auto* other : run_.pe().ipcq().outs()) known.push_back(other->ends().out);
    throw no_neighbour(where("tl.send"), port, known);
  }
  check_own("tl.send", value);
  if (value.tile_->bytes > channel->params().slot_bytes) {
    throw DeviceError(
        "KB-Q004", fmt::format("{}: send {} B into {} B slot of {}; send it in parts, or set a "
                               "larger 'slot' in ccl.yaml",
                               where("tl.send"), value.tile_->bytes, channel->params().slot_bytes,
                               channel->name()));
  }
  if (!channel->has_credit()) catch_up_with_cpu();
  while (!channel->has_credit()) {
    const QueueWait wait(local_, channel->ends().to, [&] { channel->forget_sender(); });
    channel->wake_on_credit(run_.wake());
    fibers_.park([&] {
      return fmt::format("a credit of {} (depth {}, used {})", channel->name(),
                         channel->params().depth, channel->params().depth);
    });
  }
  run_.send(*channel, value.tile_);
}

Tensor Context::recv(Port port, const Shape& shape, DType dtype) {
  sim::IpcqChannel* channel = run_.pe().ipcq().in(port);
  if (channel == nullptr) {
    std::vector<Port> known;
    for (const auto* other : run_.pe().ipcq().ins()) known.push_back(other->ends().in);
    throw no_neighbour(where("tl.recv"), port, known);
  }
  const Bytes bytes = shape.numel() * size_of(dtype);
  catch_up_with_cpu();
  while (!channel->has_message()) {
    const QueueWait wait(local_, channel->ends().from, [&] { channel->forget_receiver(); });
    channel->wake_on_message(run_.wake());
    fibers_.park(
        [&] { return fmt::format("a message of {} ({} B; empty)", channel->name(), bytes); });
  }
  const sim::IpcqMessage& message = channel->front();
  if (message.collective != run_.collective()) {
    throw DeviceError(
        "KB-Q003",
        fmt::format("{}: the oldest message of {} ({} B, sent at {}) was left there by {}; every "
                    "tl.send needs its tl.recv before the queue is used for something else",
                    where("tl.recv"), channel->name(), message.bytes, to_string(message.sent),
                    message.collective == 0 ? "a kernel of the user's" : "another collective"));
  }
  if (message.dtype != dtype || message.bytes != bytes) {
    throw DeviceError(
        "KB-Q005", fmt::format("{} expects {} B of {}, got {} B of {} (sent at {}) by {}",
                               where("tl.recv"), bytes, name_of(dtype), message.bytes,
                               name_of(message.dtype), to_string(message.sent), channel->name()));
  }
  reserve_scratch("tl.recv", bytes);
  return {*this, shape, run_.receive(*channel)};
}

// Waiting

// The PE_CPU has been running ahead; now it needs to know what is there at its own time.
void Context::catch_up_with_cpu() {
  while (run_.cpu_clock() > fibers_.engine().now()) {
    run_.wake_at_clock();
    fibers_.park([] { return std::string("its PE_CPU"); });
  }
}

void Context::reserve_scratch(std::string_view operation, Bytes bytes) {
  while (!run_.has_free_scratch(bytes)) {
    if (run_.outstanding() == 0) {
      throw DeviceError(
          "KB-M010",
          fmt::format("out of TCM: {} requested {} B, {} B of {} B are free; values are held "
                      "until their last handle is gone",
                      where(operation), bytes, run_.free_scratch(), run_.pe().scratch_capacity()));
    }
    run_.wake_when_outstanding(run_.outstanding() - 1);
    fibers_.park([&] { return fmt::format("{} B of scratch memory", bytes); });
  }
}

void Context::drain() {
  while (run_.outstanding() > 0) {
    run_.wake_when_outstanding(0);
    fibers_.park([&] { return fmt::format("{} commands under way", run_.outstanding()); });
  }
  catch_up_with_cpu();
}

}  // namespace kernbench::tl
