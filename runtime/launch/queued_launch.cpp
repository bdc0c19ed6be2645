#include "runtime/launch/queued_launch.h"

#include <fmt/format.h>

#include <memory>
#include <set>
#include <utility>

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
        what_(std::make_shared<const std::string>(what)) {}

  void access(sim::RegionId region, const sim::ElementRange& elements, bool is_written,
              const std::string& tensor, const std::string& where) override {
    simulation_.attachments().get<StreamRaces>().access(
        simulation_.machine().memory(), region, {by_, what_, elements, is_written}, tensor, where);
  }

 private:
  Simulation& simulation_;
  const StreamPosition by_;
  const std::shared_ptr<const std::string> what_;
};

// A launch between its issue and the moment at which the host knows of its end.
struct QueuedLaunch {
  QueuedLaunch(Simulation& of, std::string its_what, LaunchRequest its_request)
      : simulation(of),
        what(std::move(its_what)),
        uses(its_request.uses),
        request(std::move(its_request)) {
    for (const Tensor& tensor : uses) tensor.storage()->begin_use();
  }
  ~QueuedLaunch() {
    for (const Tensor& tensor : uses) tensor.storage()->end_use();
  }
  QueuedLaunch(const QueuedLaunch&) = delete;
  QueuedLaunch& operator=(const QueuedLaunch&) = delete;

  void run();

  Simulation& simulation;
  const std::string what;
  const std::vector<Tensor> uses;
  LaunchRequest request;
  std::unique_ptr<RaceWatch> watch;  // null: nobody has a second stream
};

template <class Kind, class... More>
[[noreturn]] void throw_with(const Kind& error, const std::string& what, More... more) {
  const std::string text = error.what();  // "[KB-X000] ..."
  throw Kind(error.code(),
             fmt::format("{}\n  launched as {}", text.substr(text.find(' ') + 1), what), more...);
}

void QueuedLaunch::run() {
  try {
    run_kernel(simulation, std::move(request));
  } catch (const DeviceError& error) {
    throw_with(error, what);
  } catch (const CollectiveError& error) {
    throw_with(error, what);
  } catch (const DeadlockError& error) {
    throw_with(error, what, error.exit_code());
  }
}

}  // namespace

void queue_kernel(Simulation& simulation, std::string what, LaunchRequest request) {
  StreamQueue& stream = current_stream(simulation, request.pes.front().sip);
  simulation.local().last_call.set("launch");
  const auto launch = std::make_shared<QueuedLaunch>(simulation, what, std::move(request));
  stream.enqueue(std::move(what), [launch] { launch->run(); });
  if (!simulation.attachments().get<StreamRaces>().is_watching()) return;
  launch->watch = std::make_unique<RaceWatch>(simulation, stream.position(), launch->what);
  launch->request.watch = launch->watch.get();
}

void wait_for_streams(Simulation& simulation, const LaunchRequest& request) {
  std::set<int> devices;
  for (const sim::PeLocation& pe : request.pes) devices.insert(pe.sip);
  for (const int device : devices) synchronize(simulation, current_stream(simulation, device));
}

}  // namespace kernbench::runtime
