#include "runtime/distributed/work.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/distributed/group.h"
#include "runtime/distributed/work_state.h"
#include "runtime/simulation/simulation.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/stream/stream_races.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed {

Work::Work(std::shared_ptr<State> state, std::vector<Tensor> written)
    : state_(std::move(state)), written_(std::move(written)) {}

void Work::State::keep(const Tensor& tensor, bool writes) {
  tensor.storage()->begin_use();
  runtime::begin_access(tensor, operation, writes);
  uses.push_back({tensor, writes});
}

void Work::State::note_writes(std::uint64_t write) const {
  for (const auto& [tensor, writes] : uses) {
    if (writes) tensor.storage()->memory->note_write(write);
  }
}

bool Work::State::will_write(const Tensor& tensor) const {
  return std::ranges::any_of(uses, [&](const Use& use) {
    return use.writes && runtime::share_elements(*use.tensor.storage(), *tensor.storage());
  });
}

void Work::State::finish(std::exception_ptr how) {
  touch(runtime::ScheduleChoices::Touch::gives);  // the order of two ends alone changes nothing
  is_done = true;
  failure = std::move(how);
  ended = simulation.now();
  const bool is_read = std::ranges::any_of(uses, [](const Use& use) {
    const Tensor::Storage& used = *use.tensor.storage();
    return std::ranges::any_of(used.memory->readers, [&](const auto& reader) {
      return runtime::share_elements(*reader.tensor, used);
    });
  });
  is_waited_for = is_waited_for || (is_read && failure == nullptr);
  if (failure == nullptr && !simulation.has_failed()) {  // and is not just unwound
    record.completed();
    simulation.log(runtime::LogTopic::distributed, [&] {
      return fmt::format("{} completed (rank {})", description, record.rank());
    });
  }
  release();
  done.notify_all();
}

namespace {

std::uint64_t works_object(int rank) {
  constexpr std::uint64_t kWorks = 1;
  return runtime::shared_object(kWorks, static_cast<std::uint64_t>(rank));
}

}  // namespace

// Whether a rank's works are done depends on the order of events.
void Work::State::touch(runtime::ScheduleChoices::Touch how) const {
  runtime::ScheduleChoices* const choices = simulation.choices();
  if (choices != nullptr) choices->touches(works_object(record.rank()), how);
}

void Work::State::note_look() const {
  runtime::ScheduleChoices* const choices = simulation.choices();
  if (choices == nullptr) return;
  choices->touches(works_object(record.rank()), runtime::ScheduleChoices::Touch::reads);
  choices->sees(works_object(record.rank()), [&] {
    return fmt::format("rank {} sees that its {} is {}", record.rank(), description,
                       is_done ? "done" : "not done");
  });
}

void Work::State::release() {
  for (const auto& [tensor, writes] : std::exchange(uses, {})) {
    tensor.storage()->end_use();
  }
}

std::vector<int> Work::State::missing_ranks() const {
  if (peer() >= 0) return {peer()};
  const std::int64_t sequence = record.event().sequence;
  const std::shared_ptr<Group> in = group.lock();
  if (sequence < 0 || in == nullptr) return {};  // a message from any rank
  return in->ledger.missing(static_cast<std::uint64_t>(sequence));
}

std::string Work::State::describe_wait() const {
  std::string text = "the Work of " + description;
  const std::shared_ptr<Group> in = group.lock();
  if (peer() < 0 || in == nullptr) return text;
  const std::string_view absence = in->ledger.describe_absence(*in->rank_of(peer()));
  if (!absence.empty()) text += fmt::format(" (rank {} {})", peer(), absence);
  return text;
}

void Work::State::wait(runtime::DescribeWait describe) {
  if (!is_done) done.wait(simulation, describe);
}

void Work::State::wait_on_device(runtime::DescribeWait describe) {
  is_on_stream() ? marker->wait(simulation, describe) : wait(describe);
}

Work::State::Instant Work::State::instant() const {
  return {simulation.now(), simulation.activity().of(device).computing};
}

void Work::State::order_stream() {
  is_waited_for = true;
  runtime::StreamQueue& stream = runtime::current_stream(simulation, device);
  stream.follow(description, marker, follows);
  know();
  auto& races = simulation.attachments().get<runtime::StreamRaces>();
  if (!races.is_watching()) return;
  const auto what = std::make_shared<const std::string>(description);
  for (const auto& [tensor, writes] : uses) {
    for (const sim::DeviceBuffer& buffer : tensor.storage()->buffers()) {
      races.access(simulation.machine().memory(), buffer.region,
                   {buffer.first, buffer.element_count}, {stream.position(), what, writes},
                   tensor.name(), [this] { return description; });
    }
  }
}

bool Work::State::is_settled() const {
  return is_done && operation->is_known_to_be_done() && (is_waited_for || failure == nullptr);
}

Work::State& Work::checked() const {
  if (state_ == nullptr) {
    throw CollectiveError("KB-R002",
                          "the Work is None: the call that returned it was not made with "
                          "async_op, or by a rank that is no member of its group");
  }
  return *state_;
}

bool Work::wait(std::optional<std::chrono::milliseconds>) const {
  State& state = checked_for_wait();
  if (!state.is_on_stream() || state.is_done || state.holds_up_host) return wait_on_host();
  state.order_stream();
  return true;
}

Work::State& Work::checked_for_wait() const {
  State& state = checked();
  const runtime::FiberLocal& local = state.simulation.local();
  if (local.kind == runtime::FiberLocal::Kind::rank && local.rank != state.record.rank()) {
    throw CollectiveError("KB-C010", "rank {} waits for the Work of rank {}: {}", local.rank,
                          state.record.rank(), state.description);
  }
  return state;
}

bool Work::wait_on_host() const {
  State& state = checked_for_wait();
  runtime::FiberLocal& local = state.simulation.local();
  state.is_waited_for = true;
  struct Waiting {
    const runtime::Activity*& work;
    ~Waiting() { work = nullptr; }
  } const waiting{local.work};
  local.work = &state;
  state.wait([&] { return state.describe_wait(); });
  state.know();
  if (state.is_on_stream()) runtime::host_knows(state.simulation, state.follows);
  if (state.failure == nullptr) return !state.is_aborted;
  if (state.is_on_stream()) runtime::take_failure(state.simulation, *state.marker);
  std::rethrow_exception(state.failure);
}

bool Work::is_completed() const {
  checked().touch(runtime::ScheduleChoices::Touch::reads);
  if (!checked().is_done) {
    state_->looks.look(
        state_->simulation, [this] { return state_->is_done; },
        [this] { return state_->description; });
  }
  state_->note_look();
  if (state_->failure == nullptr) state_->is_waited_for |= state_->is_done;
  if (state_->is_done) state_->know();
  return state_->is_done;
}
bool Work::is_success() const {
  return is_completed() && state_->failure == nullptr && !state_->is_aborted;
}
std::exception_ptr Work::exception() const {
  return checked().failure;
}
WorkResult Work::get_future_result() const {
  if (!is_completed()) return WorkResult::unknown;
  return is_success() ? WorkResult::success : WorkResult::comm_error;
}
std::vector<Tensor> Work::result() const {
  wait();
  return written_;
}
int Work::source_rank() const {
  return checked().source_rank;
}
Future Work::get_future() const {
  checked();
  return {*this, written_.empty() ? Tensor() : written_.front()};
}

Future Future::then(std::function<Tensor(const Tensor& value)> next) const {
  Future after = *this;
  after.next_.push_back(std::move(next));
  return after;
}

Tensor Future::wait() {
  if (work_) work_.wait();
  for (const auto& next : std::exchange(next_, {})) value_ = next(value_);
  return value_;
}

std::uint64_t Work::get_sequence_number() const {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(checked().record.event().sequence, 0));
}
Work::Times Work::times() const {
  const State& state = checked();
  return {state.started.at, state.ended_on_device.at,
          state.ended_on_device.computing - state.started.computing};
}
Time Work::get_duration() const {
  return checked().is_done ? state_->ended - state_->record.event().issued : Time{0};
}

}  // namespace kernbench::distributed
