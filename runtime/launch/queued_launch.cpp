#include "runtime/launch/queued_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "runtime/launch/write_notes.h"
#include "runtime/simulation/named_call.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/stream/stream_races.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::runtime {

namespace {

// Shows the kernels' accesses to the search for races between streams.
class RaceWatch final : public tl::AccessWatch {
 public:
  RaceWatch(Simulation& simulation, StreamPosition by, const std::string& what)
      : simulation_(simulation),
        by_(std::move(by)),
        what_(std::make_shared<const std::string>(what)),
        call_(describe_call(simulation)) {}

  void access(sim::RegionId region, const sim::ElementRange& elements, bool is_written,
              const std::string& tensor, FunctionRef<std::string()> where) override {
    simulation_.attachments().get<StreamRaces>().access(simulation_.machine().memory(), region,
                                                        elements, {by_, what_, is_written}, tensor,
                                                        [&] { return where() + call_; });
  }

 private:
  Simulation& simulation_;
  const StreamPosition by_;
  const std::shared_ptr<const std::string> what_;
  const std::string call_;
};

// A launch between its issue and the moment at which the host knows of its end.
class QueuedLaunch {
 public:
  QueuedLaunch(Simulation& simulation, LaunchRequest request);
  ~QueuedLaunch();
  QueuedLaunch(const QueuedLaunch&) = delete;
  QueuedLaunch& operator=(const QueuedLaunch&) = delete;

  const std::string& what() const { return what_; }
  std::uint64_t write() const { return request_.write; }
  void watch(StreamPosition by);
  void run();

 private:
  struct Handles {
    Tensor::Storage* storage;
    int count;  // in uses_ and body_
  };
  void count_handles();

  Simulation& simulation_;
  const std::string what_;
  const std::vector<Tensor> uses_;
  const std::function<void(tl::Context&)> body_;
  const bool is_undecided_;
  LaunchRequest request_;
  std::vector<Handles> handles_;
  std::optional<RaceWatch> watch_;  // nullopt: nobody has a second stream
};

QueuedLaunch::QueuedLaunch(Simulation& simulation, LaunchRequest request)
    : simulation_(simulation),
      what_(std::exchange(request.what, {})),
      uses_(std::exchange(request.uses, {})),
      body_(std::exchange(request.body, nullptr)),
      is_undecided_(request.results == nullptr),
      request_(std::move(request)) {
  // This object keeps the tensors until the host knows of the end, and launch() must not
  // release them when the device is done.
  request_.uses = {};
  request_.results = nullptr;
  request_.body = [this](tl::Context& tl) { body_(tl); };
  request_.write = simulation.next_write();
  request_.issued = simulation.now();
  if (RunLog* const log = simulation.run_log()) {
    // When the kernel runs, the program may be in another scope than at the launch.
    request_.scope = log->find_scope(simulation.local().rank);
    request_.module = log->module_of(simulation.local().rank).path;
  }
  count_handles();
  for (const Tensor& tensor : uses_) {
    tensor.storage()->begin_use();
    tensor.storage()->memory->undecided += is_undecided_;
    tensor.storage()->memory->begin_queued();
  }
}

QueuedLaunch::~QueuedLaunch() {
  for (const auto& [storage, count] : handles_) storage->queued_handles -= count;
  for (const Tensor& tensor : uses_) {
    tensor.storage()->memory->undecided -= is_undecided_;
    tensor.storage()->memory->end_queued();
    tensor.storage()->end_use();
  }
}

// The handles of a body cannot be seen, but a copy of the body makes as many again.
void QueuedLaunch::count_handles() {
  // An optimizer's step has hundreds of tensors.  Their order decides nothing.
  std::vector<Tensor::Storage*> storages;
  for (const Tensor& tensor : uses_) storages.push_back(tensor.storage().get());
  std::ranges::sort(storages);
  for (Tensor::Storage* const storage : storages) {
    if (handles_.empty() || handles_.back().storage != storage) handles_.push_back({storage, 0});
    ++handles_.back().count;
  }
  const auto use_count = [](const Handles& of) {
    return static_cast<int>(of.storage->weak_from_this().use_count());
  };
  for (Handles& of : handles_) of.count -= use_count(of);
  {
    // The difference in handles between one body and two is what the body holds.
    const auto copy = body_;
    for (Handles& of : handles_) of.count += use_count(of);
  }
  for (const Handles& of : handles_) of.storage->queued_handles += of.count;
}

void QueuedLaunch::watch(StreamPosition by) {
  watch_.emplace(simulation_, std::move(by), what_);
  request_.watch = &*watch_;
}

template <class Kind, class... More>
[[noreturn]] void throw_with(const Kind& error, const std::string& what, More... more) {
  // A queued kernel fails far from its launch, so the error says where it was launched.
  const std::string text = error.what();  // "[KB-X000] ..."
  throw Kind(error.code(),
             fmt::format("{}\n  launched as {}", text.substr(text.find(' ') + 1), what), more...);
}

void QueuedLaunch::run() {
  const WriteNotes writes(uses_, request_.write);
  try {
    launch(simulation_, std::move(request_));
    writes.end();
  } catch (const DeviceError& error) {
    throw_with(error, what_);
  } catch (const CollectiveError& error) {
    throw_with(error, what_);
  } catch (const DeadlockError& error) {
    throw_with(error, what_, error.exit_code());
  }
}

}  // namespace

void enqueue_launch(Simulation& simulation, LaunchRequest request) {
  StreamQueue& stream = current_stream(simulation, request.pes.front().sip);
  simulation.local().last_call.set("launch");
  // They need not live until the kernel runs.
  const std::vector<Tensor>* const results = request.results;
  const auto queued = std::make_shared<QueuedLaunch>(simulation, std::move(request));
  // Operators on results that are issued later must see this write, although it has not happened
  // yet.
  if (results != nullptr) {
    for (const Tensor& result : *results) result.storage()->memory->note_write(queued->write());
  }
  stream.enqueue(queued->what(), [queued] { queued->run(); });
  if (simulation.attachments().get<StreamRaces>().is_watching()) queued->watch(stream.position());
}

std::int64_t launch_after_streams(Simulation& simulation, LaunchRequest request) {
  std::set<int> devices;
  for (const sim::PeLocation& pe : request.pes) devices.insert(pe.sip);
  const StreamQueue* stream = nullptr;
  for (const int device : devices) stream = &synchronize_current_stream(simulation, device);
  std::optional<RaceWatch> watch;
  // A launch over several devices has no position on a single stream, so its accesses are not
  // watched.
  if (devices.size() == 1 && simulation.attachments().get<StreamRaces>().is_watching()) {
    request.watch = &watch.emplace(simulation, stream->position(), request.what);
  }
  return launch(simulation, std::move(request));
}

}  // namespace kernbench::runtime
