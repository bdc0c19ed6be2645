#include "runtime/stream/rank_streams.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "runtime/stream/stream_races.h"
#include "sim_engine/base/error.h"

namespace kernbench::runtime {

namespace {

struct OnDevice {
  std::shared_ptr<StreamQueue> standard;  // the default stream
  std::shared_ptr<StreamQueue> current;
};

// An operation that runs beside the streams.
struct BesideStreams {
  std::shared_ptr<Marker> marker;
  std::string what;
};

struct RankStreams {
  std::map<int, OnDevice> devices;
  std::deque<BesideStreams> beside;
  std::vector<std::shared_ptr<StreamScope>> scopes;  // the innermost is the last
  std::shared_ptr<StreamHost> host = std::make_shared<StreamHost>();
};

struct AllStreams : PerRank<RankStreams> {
  int count = 0;
  std::shared_ptr<StreamSlots> slots = std::make_shared<StreamSlots>();
};

AllStreams& streams_of_all(Simulation& simulation) {
  return simulation.attachments().get<AllStreams>();
}

RankStreams& streams_of_caller(Simulation& simulation) {
  return streams_of_all(simulation).of(simulation.local());
}

std::shared_ptr<StreamQueue> make_queue(Simulation& simulation, int device) {
  AllStreams& all = streams_of_all(simulation);
  return std::make_shared<StreamQueue>(simulation, device,
                                       std::make_shared<StreamSlot>(all.slots, all.count++),
                                       streams_of_caller(simulation).host);
}

OnDevice& on_device(Simulation& simulation, int device) {
  check_outside_kernels(simulation, "torch.ahbm's streams");
  OnDevice& own = streams_of_caller(simulation).devices[device];
  // Most ranks use one stream of one device, so streams are made when they are first asked for.
  if (own.standard == nullptr) own.standard = own.current = make_queue(simulation, device);
  return own;
}

void wait_for(Simulation& simulation, StreamQueue& stream) {
  const StreamPosition position = stream.position();
  if (!stream.is_idle())
    stream.last()->wait_until_known(simulation, [&] { return stream.describe_next(); });
  streams_of_caller(simulation).host->know(position.upto());
}

std::pair<int, int> place_of(const std::shared_ptr<StreamQueue>& stream) {
  return {stream->device(), stream->number()};
}

// The streams that may have something to do.
std::vector<std::shared_ptr<StreamQueue>> busy_streams(const StreamHost& host) {
  auto busy = host.busy();
  std::ranges::sort(busy, {}, place_of);
  return busy;
}

// The stream that has failed, the first if there are several; null: none has.
std::shared_ptr<StreamQueue> find_failed(const StreamHost& host) {
  std::shared_ptr<StreamQueue> first;
  for (const std::shared_ptr<StreamQueue>& stream : host.busy()) {
    if (stream->failure() == nullptr) continue;
    if (first == nullptr || place_of(stream) < place_of(first)) first = stream;
  }
  return first;
}

// A kernel has no streams, and what acts for a rank must not wait for it.
bool may_have_queued(Simulation& simulation) {
  if (!simulation.queues_launches()) return false;
  const FiberLocal::Kind kind = simulation.local().kind;
  return kind == FiberLocal::Kind::rank || kind == FiberLocal::Kind::unbound;
}

// Waits for what `wanted` is true for.
template <class Wanted>
void wait_for_all(Simulation& simulation, Wanted wanted) {
  RankStreams& own = streams_of_caller(simulation);
  const std::shared_ptr<StreamHost> host = own.host;
  // The list is a copy, because another fiber of the rank may use a stream while this one waits.
  for (const auto& stream : busy_streams(*host)) {
    if (wanted(stream->device())) wait_for(simulation, *stream);
  }
  for (const auto& [device, streams] : own.devices) {
    if (wanted(device)) host->know_ended(device);
  }
  // Operations may be noted while this one waits, so the list is copied too.
  for (const auto& [marker, what] : std::deque(own.beside)) {
    marker->wait_until_known(simulation, [&] { return what; });
  }
  own.beside.clear();
  throw_queued_failure(simulation);
  host->let_go();
}

}  // namespace

const std::shared_ptr<StreamQueue>& shared_current_stream(Simulation& simulation, int device) {
  return on_device(simulation, device).current;
}

StreamQueue& current_stream(Simulation& simulation, int device) {
  return *on_device(simulation, device).current;
}

const std::shared_ptr<StreamQueue>& default_stream(Simulation& simulation, int device) {
  return on_device(simulation, device).standard;
}

std::shared_ptr<StreamQueue> make_stream(Simulation& simulation, int device) {
  on_device(simulation, device);  // which a kernel has none of, and the first is the default one
  // Races need two streams.  Programs with one stream do not pay for the search.
  simulation.attachments().get<StreamRaces>().watch();
  return make_queue(simulation, device);
}

void set_current_stream(Simulation& simulation, std::shared_ptr<StreamQueue> stream) {
  on_device(simulation, stream->device()).current = std::move(stream);
}

std::shared_ptr<StreamScope> enter_scope(Simulation& simulation,
                                         const std::shared_ptr<StreamQueue>& stream) {
  const int device = stream->device();
  const auto scope = std::make_shared<StreamScope>(
      StreamScope{shared_current_stream(simulation, device), simulation.local().device});
  streams_of_caller(simulation).scopes.push_back(scope);
  simulation.local().device = device;
  set_current_stream(simulation, stream);
  return scope;
}

void leave_scope(Simulation& simulation, const std::shared_ptr<StreamScope>& scope) {
  if (simulation.local().kind == FiberLocal::Kind::kernel) return;
  auto& scopes = streams_of_caller(simulation).scopes;
  const auto own = std::ranges::find(scopes, scope);
  if (own == scopes.end()) return;
  // An inner scope that hides this one restores what was current before this one.
  const auto next = std::next(own);
  (next == scopes.end() ? simulation.local().device : (*next)->device) = scope->device;
  const auto hiding = std::find_if(next, scopes.end(), [&](const auto& inner) {
    return inner->stream->device() == scope->stream->device();
  });
  if (hiding == scopes.end()) {
    set_current_stream(simulation, scope->stream);
  } else {
    (*hiding)->stream = scope->stream;
  }
  scopes.erase(own);
}

void note_beside_streams(Simulation& simulation, std::shared_ptr<Marker> marker, std::string what) {
  auto& beside = streams_of_caller(simulation).beside;
  // The list would grow with the length of the run if the ends that the host knows of stayed in it.
  while (!beside.empty() && beside.front().marker->is_known()) beside.pop_front();
  beside.push_back({std::move(marker), std::move(what)});
}

void synchronize(Simulation& simulation, StreamQueue& stream) {
  if (!may_have_queued(simulation)) return;
  wait_for(simulation, stream);
  throw_queued_failure(simulation);
}

StreamQueue& synchronize_current_stream(Simulation& simulation, int device) {
  StreamQueue& stream = current_stream(simulation, device);
  synchronize(simulation, stream);
  return stream;
}

void synchronize(Simulation& simulation, int device) {
  if (!may_have_queued(simulation)) return;
  wait_for_all(simulation, [&](int of) { return of == device; });
}

void synchronize(Simulation& simulation) {
  if (!may_have_queued(simulation)) return;
  wait_for_all(simulation, [](int) { return true; });
}

void host_knows(Simulation& simulation, const StreamClock& done) {
  streams_of_caller(simulation).host->know(done);
}

void throw_queued_failure(Simulation& simulation) {
  if (!may_have_queued(simulation)) return;
  const std::shared_ptr<StreamHost> host = streams_of_caller(simulation).host;
  const std::shared_ptr<StreamQueue> failed = find_failed(*host);
  if (failed == nullptr) return;
  const std::exception_ptr first = failed->take_failure();
  // Every failure is taken, so that an old one does not appear at a later synchronize(), but only
  // the first can be thrown.
  for (const auto& stream : host->busy()) stream->take_failure();
  if (first != nullptr) std::rethrow_exception(first);
}

void take_failure(Simulation& simulation, Marker& marker) {
  const std::exception_ptr failure = marker.take_failure();
  for (const auto& stream : streams_of_caller(simulation).host->busy()) {
    if (stream->failure() == failure) stream->take_failure();
  }
}

std::exception_ptr unnoticed_queued_failure(Simulation& simulation, const std::set<int>& dead) {
  std::exception_ptr first;
  const auto look = [&](const RankStreams& own) {
    if (const auto failed = find_failed(*own.host); failed != nullptr && first == nullptr) {
      first = failed->failure();
    }
  };
  streams_of_all(simulation).for_each(look, dead);
  return first;
}

void wait_for_streams_of(Simulation& simulation, int dead) {
  RankStreams* const own = streams_of_all(simulation).find_of_rank(dead);
  if (own == nullptr) return;
  for (const auto& stream : busy_streams(*own->host)) {
    if (stream->is_idle()) continue;
    stream->last()->wait_until_known(simulation, [&] { return stream->describe_next(); });
  }
}

const StreamSlots& stream_slots(Simulation& simulation) {
  return *streams_of_all(simulation).slots;
}

void issue(Simulation& simulation) {
  simulation.sleep(
      simulation.topology().system.host_issue, [] { return std::string("the issue of launches"); },
      sim::Cause::host);
}

}  // namespace kernbench::runtime
