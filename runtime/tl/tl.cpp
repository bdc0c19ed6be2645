#include "runtime/tl/tl.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/fiber/fiber_local.h"
#include "runtime/fiber/fiber_scheduler.h"
#include "runtime/fiber/function_ref.h"
#include "runtime/guards/command_budget.h"
#include "runtime/tl/access_rule.h"
#include "runtime/tl/access_watch.h"
#include "runtime/tl/launch_arguments.h"
#include "runtime/tl/store_guard.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::tl {

namespace {

// A kernel's wait for scratch that others hold; if the kernel is unwound, its PE forgets the wait.
class ScratchWait {
 public:
  ScratchWait(sim::ProcessingElement& pe, const sim::Event& wake) : pe_(pe), wake_(wake) {
    pe_.wake_on_scratch(wake_);
  }
  ~ScratchWait() { pe_.forget_scratch_waiter(wake_); }
  ScratchWait(const ScratchWait&) = delete;
  ScratchWait& operator=(const ScratchWait&) = delete;

 private:
  sim::ProcessingElement& pe_;
  const sim::Event wake_;
};

}  // namespace

Context::Context(runtime::FiberScheduler& fibers, runtime::CommandBudget& budget,
                 runtime::FiberLocal& local, sim::ProcessingElement& pe, const sim::Event& wake,
                 std::string_view kernel_name, int program_id, int program_count,
                 const sim::Operation& operation)
    : fibers_(fibers),
      budget_(budget),
      local_(local),
      own_run_(std::make_unique<sim::KernelRun>(pe, wake, operation)),
      run_(*own_run_),
      location_(pe.location()),
      kernel_name_(kernel_name),
      program_id_(program_id),
      program_count_(program_count) {}

Context::~Context() = default;

void Context::limit_commands_under_way(int most) {
  most_under_way_ = std::clamp(most, 1, kMostUnderWay);
}

void Context::withdraw_receives() {
  run_.withdraw_receives();
}

const sim::MessageBalance& Context::message_balance() const {
  return run_.message_balance();
}

bool Context::has_commands_under_way() const {
  return run_.outstanding() > 0;
}

void Context::wake_when_idle() {
  run_.wake_when_outstanding(0);
}

std::string Context::where(std::string_view operation) const {
  return fmt::format("{} in kernel '{}' on {}", operation, kernel_name_, to_string(location()));
}

int Context::program_id(int axis) const {
  check_axis("tl.program_id", axis);
  return program_id_;
}

int Context::num_programs(int axis) const {
  check_axis("tl.num_programs", axis);
  return program_count_;
}

void Context::check_axis(std::string_view operation, int axis) const {
  if (axis == 0) return;
  throw DeviceError(
      "KB-K022",
      "{}: a launch has axis 0 alone, over all its {} PEs; write tl.cube_id() for this PE's cube, "
      "tl.pe_id() for its number in the cube, tl.sip_id() for its SIP",
      where(fmt::format("{}({})", operation, axis)), program_count_);
}

// HBM

void Context::check_access(std::string_view operation, const Pointer& pointer, Extent count,
                           DType dtype) const {
  const sim::DeviceBuffer& buffer = pointer.buffer_;
  if (pointer.tensor_name_ == nullptr) {
    throw DeviceError("KB-M020",
                      "{}: the pointer points at no tensor; give launch() the tensor as an "
                      "argument, and the kernel a tl::Pointer parameter for it",
                      where(operation));
  }
  if (pointer.absent_from_ != nullptr) {
    throw DeviceError("KB-M020", "{}: {}", where(operation),
                      pointer.absent_from_->describe_absent(*pointer.tensor_name_));
  }
  if (!run_.pe().services().memory.is_live(buffer.region)) {
    throw DeviceError("KB-M001",
                      "{}: the tensor of this pointer was freed; pass it to launch() as an "
                      "argument, which keeps it alive",
                      where(operation));
  }
  if (dtype != buffer.dtype) {
    throw DeviceError("KB-K021", "{}: tensor '{}' is {}, not {}", where(operation),
                      *pointer.tensor_name_, name_of(buffer.dtype), name_of(dtype));
  }
  const Extent first = pointer.offset_ - buffer.first;
  if (first < 0 || first > buffer.element_count || count > buffer.element_count - first) {
    throw DeviceError(
        "KB-M020", "{} out of bounds: elements {}..{} of tensor '{}', whose shard has {} elements",
        where(operation), first, first + count - 1, *pointer.tensor_name_, buffer.element_count);
  }
  ask_rule(operation, pointer, {pointer.offset(), static_cast<std::int64_t>(count)}, false);
}

Tensor Context::load(const Pointer& source, const Shape& shape, DType dtype) {
  check_access("tl.load", source, shape.numel(), dtype);
  show("tl.load", source, {source.offset(), shape.numel()}, false);
  make_room("tl.load", shape.numel() * size_of(dtype));
  return {*this, shape, run_.load(source.buffer_, source.offset(), shape.numel()), "tl.load"};
}

// A value lives in the scratch of one PE and only while its kernel runs.
void Context::check_own(std::string_view operation, const Tensor& value) const {
  if (value.context_ == this) return;
  throw DeviceError("KB-K023", "{}: {}", where(operation),
                    value.context_ == nullptr ? kVoidValue : kForeignValue);
}

void Context::check_dtype(std::string_view operation, DType dtype) const {
  if (is_enumerator(dtype, kAllDTypes.size())) return;
  throw DeviceError("KB-K021", "{}: there is no dtype {}; there are: {}", where(operation),
                    number_of(dtype), all_dtypes());
}

void Context::store(const Pointer& target, const Tensor& value) {
  check_own("tl.store", value);
  check_access("tl.store", target, value.shape().numel(), value.dtype());
  check_store("tl.store", target, {target.offset(), value.shape().numel()});
  make_room("tl.store", 0);
  run_.store(target.buffer_, target.offset(), value.tile_);
}

void Context::ask_rule(std::string_view operation, const Pointer& pointer,
                       const sim::ElementRange& elements, bool is_written) const {
  if (pointer.rule_ == nullptr) return;
  const std::string obstacle =
      pointer.rule_->obstacle(pointer.buffer_.region, elements, is_written);
  if (obstacle.empty()) return;
  throw CollectiveError("KB-G003", "{} {} tensor '{}', {}; wait for its Work before the launch",
                        where(operation), is_written ? "writes" : "uses", *pointer.tensor_name_,
                        obstacle);
}

void Context::check_store(std::string_view operation, const Pointer& target,
                          const sim::ElementRange& elements) const {
  ask_rule(operation, target, elements, true);
  show(operation, target, elements, true);
  if (guard_ == nullptr) return;
  const std::string* const user = guard_->find_user(target.buffer_.region, elements);
  if (user == nullptr) return;
  throw CollectiveError("KB-G003", "{} writes {}", where(operation), *user);
}

void Context::show(std::string_view operation, const Pointer& pointer,
                   const sim::ElementRange& elements, bool is_written) const {
  if (watch_ == nullptr) [[likely]]
    return;
  watch_->access(pointer.buffer_.region, elements, is_written, *pointer.tensor_name_,
                 [&] { return where(operation); });
}

// Views

Tensor Context::narrow(const Tensor& value, std::int64_t begin, std::int64_t count) {
  check_own("tl.narrow", value);
  if (value.shape_.rank() != 1 || begin < 0 || count < 0 || count > value.shape_[0] - begin) {
    throw DeviceError("KB-K022", "{}: elements {}..{} of {}", where("tl.narrow"), begin,
                      Extent{begin} + count - 1, to_string(value.shape_));
  }
  return {*this, {count}, run_.slice(value.tile_, begin, count), "tl.narrow"};
}

Tensor Context::cat(std::span<const Tensor> values) {
  std::vector<sim::Tile> tiles;
  std::int64_t count = 0;
  for (const Tensor& value : values) {
    check_own("tl.cat", value);
    if (value.shape_.rank() != 1 || value.dtype() != values.front().dtype()) {
      throw DeviceError("KB-K022",
                        "{}: {} {} after {}; values of one dimension and one type are wanted",
                        where("tl.cat"), to_string(value.shape_), name_of(value.dtype()),
                        name_of(values.front().dtype()));
    }
    tiles.push_back(value.tile_);
    count += value.shape_[0];
  }
  if (tiles.empty()) throw DeviceError("KB-K022", where("tl.cat") + ": no values");
  return {*this, {count}, run_.concat(tiles), "tl.cat"};
}

// Waiting

void Context::count_commands(std::string_view operation, std::int64_t count) {
  const std::int64_t own = std::max(commands_, runtime::CommandBudget::kOwnCommands);
  commands_ += count;
  if (commands_ <= own || budget_.take(commands_ - own)) return;
  throw DeadlockError("KB-D002",
                      "livelock: {} is command {} of this kernel, which seems to have no end "
                      "(t={}); if it has, raise RuntimeOptions::command_limit, which is {}",
                      where(operation), commands_, to_string(run_.clock()), budget_.limit());
}

void Context::make_room(std::string_view operation, Bytes bytes) {
  const bool has_room = run_.outstanding() < most_under_way_;
  if (has_room && commands_ < runtime::CommandBudget::kOwnCommands) {
    ++commands_;
  } else {
    make_room_for_command(operation);
  }
  if (run_.free_scratch() < bytes) wait_for_scratch(operation, [=] { return bytes; });
}

void Context::make_room_for_command(std::string_view operation) {
  count_commands(operation, 1);
  while (run_.outstanding() >= most_under_way_) {
    run_.wake_when_outstanding(most_under_way_ - 1);
    fibers_.park(
        [&] { return fmt::format("the first of {} commands under way", most_under_way_); });
  }
}

void Context::wait_for_scratch(std::string_view operation, runtime::FunctionRef<Bytes()> scratch) {
  sim::ProcessingElement& pe = run_.pe();
  const Time began = run_.clock();
  for (Bytes bytes = scratch(); run_.free_scratch() < bytes; bytes = scratch()) {
    const bool is_alone = pe.kernel_count() <= 1;
    // Scratch that other kernels hold becomes free at some time.
    const bool can_become_free =
        run_.outstanding() > 0 || (!is_alone && held_scratch() + bytes <= run_.scratch_capacity());
    if (!can_become_free) {
      throw DeviceError("KB-M010",
                        "out of TCM: {} requested {} B, {} B of {} B are free; values are held "
                        "until their last handle is gone, the largest now:{}",
                        where(operation), bytes, run_.free_scratch(), run_.scratch_capacity(),
                        scratch_holders());
    }
    const auto describe = [&] { return fmt::format("{} B of scratch memory", bytes); };
    if (is_alone) {
      run_.wake_at_next_end();
      fibers_.park(describe);
    } else {
      const ScratchWait wait(pe, run_.wake());
      fibers_.park(describe);
    }
  }
  run_.waits()[sim::WaitCause::scratch] += run_.clock() - began;
}

void Context::spend(Time time) {
  run_.spend(time);
}

void Context::drain() {
  while (run_.outstanding() > 0) {
    run_.wake_when_outstanding(0);
    fibers_.park([&] { return fmt::format("{} commands under way", run_.outstanding()); });
  }
  while (run_.clock() > fibers_.engine().now()) {  // the PE_CPU has been running ahead
    run_.wake_at_clock();
    fibers_.park([] { return std::string("its PE_CPU"); });
  }
}

void Context::end() {
  check_receives_are_closed();
  drain();
  handles_.void_all();  // handles that outlive the kernel free its scratch too
}

}  // namespace kernbench::tl
