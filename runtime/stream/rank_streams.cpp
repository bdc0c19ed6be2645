#include "runtime/stream/rank_streams.h"

#include <utility>

#include "runtime/stream/stream_races.h"
#include "sim_engine/base/error.h"

namespace kernbench::runtime {

namespace {

struct OnDevice {
  std::vector<std::shared_ptr<StreamQueue>> all;  // the first is the default one
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
  StreamClock host_knows;
};

struct AllStreams : PerRank<RankStreams> {
  int count = 0;
};

AllStreams& streams_of_all(Simulation& simulation) {
  return simulation.attachments().get<AllStreams>();
}

RankStreams& streams_of_caller(Simulation& simulation) {
  return streams_of_all(simulation).of(simulation.local());
}

OnDevice& on_device(Simulation& simulation, int device) {
  const FiberLocal& caller = simulation.local();
  if (caller.kind == FiberLocal::Kind::kernel) {
    throw CollectiveError("KB-R012", "torch.ahbm's streams inside kernel '{}'", caller.kernel);
  }
  OnDevice& own = streams_of_caller(simulation).devices[device];
  // Most ranks use one stream of one device, so streams are made when they are first asked for.
  if (own.all.empty()) {
    own.current = std::make_shared<StreamQueue>(simulation, simulation.local().rank, device,
                                                streams_of_all(simulation).count++);
    own.all.push_back(own.current);
  }
  return own;
}

void wait_for(Simulation& simulation, StreamQueue& stream) {
  const StreamPosition position = stream.position();
  if (!stream.is_idle())
    stream.last()->wait_until_known(simulation, [&] { return stream.describe_next(); });
  streams_of_caller(simulation).host_knows.add(position.upto());
}

// The host's knowledge comes before all that it issues from now on.
void tell_streams(RankStreams& own) {
  for (auto& [device, streams] : own.devices) {
    for (const auto& stream : streams.all) stream->host_knows(own.host_knows);
  }
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
  for (auto& [device, streams] : own.devices) {
    if (!wanted(device)) continue;
    // The list is copied, because another fiber of the rank may make a stream while this one waits.
    for (const auto& stream : std::vector(streams.all)) wait_for(simulation, *stream);
  }
  // Operations may be noted while this one waits, so the list is copied too.
  for (const auto& [marker, what] : std::deque(own.beside)) {
    marker->wait_until_known(simulation, [&] { return what; });
  }
  own.beside.clear();
  tell_streams(own);
  throw_queued_failure(simulation);
}

}  // namespace

const std::shared_ptr<StreamQueue>& shared_current_stream(Simulation& simulation, int device) {
  return on_device(simulation, device).current;
}

StreamQueue& current_stream(Simulation& simulation, int device) {
  return *on_device(simulation, device).current;
}

const std::shared_ptr<StreamQueue>& default_stream(Simulation& simulation, int device) {
  return on_device(simulation, device).all.front();
}

std::shared_ptr<StreamQueue> make_stream(Simulation& simulation, int device) {
  OnDevice& own = on_device(simulation, device);
  // Races need two streams.  Programs with one stream do not pay for the search.
  simulation.attachments().get<StreamRaces>().watch();
  own.all.push_back(std::make_shared<StreamQueue>(simulation, simulation.local().rank, device,
                                                  streams_of_all(simulation).count++));
  own.all.back()->host_knows(streams_of_caller(simulation).host_knows);
  return own.all.back();
}

void set_current_stream(Simulation& simulation, std::shared_ptr<StreamQueue> stream) {
  on_device(simulation, stream->device()).current = std::move(stream);
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
  tell_streams(streams_of_caller(simulation));
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
  RankStreams& own = streams_of_caller(simulation);
  own.host_knows.add(done);
  tell_streams(own);
}

void throw_queued_failure(Simulation& simulation) {
  if (!may_have_queued(simulation)) return;
  std::exception_ptr first;
  for (auto& [device, streams] : streams_of_caller(simulation).devices) {
    for (const auto& stream : streams.all) {
      // Every failure is taken, so that an old one does not appear at a later synchronize(), but
      // only the first can be thrown.
      const std::exception_ptr failure = stream->take_failure();
      if (first == nullptr) first = failure;
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

std::exception_ptr unnoticed_queued_failure(Simulation& simulation) {
  std::exception_ptr first;
  streams_of_all(simulation).for_each([&](const RankStreams& own) {
    for (const auto& [device, streams] : own.devices) {
      for (const auto& stream : streams.all) {
        if (first == nullptr) first = stream->failure();
      }
    }
  });
  return first;
}

void issue(Simulation& simulation) {
  simulation.sleep(
      simulation.topology().system.host_issue, [] { return std::string("the issue of launches"); },
      sim::Cause::host);
}

}  // namespace kernbench::runtime
