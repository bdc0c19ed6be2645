// ipcq: a stream of messages from a PE to a neighbour, beside what can limit it.
//
// Each message fills its slot.  A slot is in use from the moment at which its credit is taken until
// that is back, so that no stream is faster than depth x slot per round trip; nor than the slowest
// link on the way into the buffer and out of it.  The rate is that of the messages after the first,
// a multiple of `depth`, from the first one's arrival until the last one has left its slot: it
// comes near the lower of the two bounds where nothing else takes time, and never exceeds it.

#include "benches/ipcq/ipcq.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "benches/bench/bench_run.h"
#include "benches/bench/table.h"
#include "runtime/launch/kernel_launch.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/profiler.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/fabric.h"
#include "sim_engine/components/ipcq.h"
#include "sim_engine/topology/direction.h"

namespace kernbench::benches::ipcq {

namespace {

using sim::Direction;

constexpr std::array kPorts = {Direction::east,         Direction::west,
                               Direction::north,        Direction::south,
                               Direction::global_east,  Direction::global_west,
                               Direction::global_north, Direction::global_south};
constexpr int kMaxDepth = 1024;
constexpr Bytes kMaxSlot = Bytes{1} << 20;
constexpr int kMaxMessages = 1 << 20;

struct Stream {
  sim::IpcqChannel::Ends ends;
  sim::IpcqParams params;
  int count = 1;  // messages

  std::int64_t elements() const { return params.slot_bytes / size_of(DType::f32); }
  Bytes bytes() const { return elements() * size_of(DType::f32); }
};

// The limits of a stream.
struct Limits {
  Time round_trip{0};
  double credits_gbs = 0;          // depth x slot per round trip
  std::optional<double> link_gbs;  // nullopt: no link is limited

  bool by_credits() const { return !link_gbs || credits_gbs < *link_gbs; }
  double gbs() const { return by_credits() ? credits_gbs : *link_gbs; }
};

// The ends of a queue from the SIP's first PE to its neighbour.
sim::IpcqChannel::Ends find_ends(const Topology& topology, Direction port) {
  const sim::Compass side = sim::to_compass(port);
  const bool global = port == sim::to_global(side);
  const int neighbour =
      (global ? sim::sip_grid(topology) : sim::cube_grid(topology)).neighbour(0, side);
  if (neighbour < 0) {
    throw UsageError("KB-U012", "--set port: {} of topology '{}' has no neighbour at {}",
                     to_string(sim::PeLocation{}), topology.name, name_of(port));
  }
  const sim::PeLocation to =
      global ? sim::PeLocation{neighbour, 0, 0} : sim::PeLocation{0, neighbour, 0};
  return {{}, port, to, opposite(port)};
}

// The rate of the slowest link.  A link on both the path into the buffer and the path out of it
// gives half its rate to each.
std::optional<double> slowest_link_gbs(const sim::Routing& routing,
                                       const sim::IpcqChannel& channel) {
  std::map<sim::LinkId, int> uses;
  for (const sim::LinkId link : channel.data_path().links) ++uses[link];
  for (const sim::LinkId link : channel.pop_path().links) ++uses[link];
  std::optional<double> slowest;
  for (const auto& [link, count] : uses) {
    const Bandwidth bandwidth = routing.spec(link).bandwidth;
    if (bandwidth.is_unlimited()) continue;
    const double gbs = static_cast<double>(bandwidth.per_second) / 1e9 / count;
    slowest = slowest ? std::min(*slowest, gbs) : gbs;
  }
  return slowest;
}

// The sender's PE_CPU issues a send when it has the credit; a receive is posted long before.
Limits compute_limits(sim::Machine& machine, const sim::IpcqChannel& channel,
                      const Stream& stream) {
  const Topology::Pe& pe = machine.topology().pe;
  const Time command = pe.scheduler_dispatch + pe.dma_setup + pe.ipcq_latency;
  Limits limits;
  limits.round_trip = pe.cpu_issue + 2 * command + channel.data_path().time_of(stream.bytes()) +
                      channel.pop_path().time_of(stream.bytes()) + channel.credit_time();
  limits.credits_gbs =
      static_cast<double>(stream.params.depth * stream.bytes()) / to_ns(limits.round_trip);
  limits.link_gbs = slowest_link_gbs(machine.fabric().routing(), channel);
  return limits;
}

// Message i is `elements` elements of x from the i-th on, so that each differs from the others.
void send_all(tl::Context& tl, const Stream& stream, const tl::Pointer& x) {
  const tl::Tensor values = tl.load(x, {stream.elements() + stream.count - 1}, DType::f32);
  for (int i = 0; i < stream.count; ++i) {
    tl.send(stream.ends.out, tl.narrow(values, i, stream.elements()));
  }
}

// Sums all messages on PE_MATH, which costs no DMA time.  The next receive is always posted.
void receive_all(tl::Context& tl, const Stream& stream, const tl::Pointer& sum_of_all) {
  const auto post = [&] { return tl.recv_async(stream.ends.in, {stream.elements()}, DType::f32); };
  std::optional<tl::Tensor> sum;
  tl::RecvFuture next = post();
  for (int i = 0; i < stream.count; ++i) {
    tl::RecvFuture current = std::move(next);
    if (i + 1 < stream.count) next = post();
    const tl::Tensor message = tl.wait(current);
    sum = sum ? *sum + message : message;
  }
  tl.store(sum_of_all, *sum);
}

// Elements are small integers, whose sums are exact.
float value_at(std::int64_t index) {
  return static_cast<float>(index * index % 7);
}

std::int64_t count_wrong(const Stream& stream, const std::vector<float>& sums) {
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < stream.elements(); ++i) {
    float expected = 0;
    for (int message = 0; message < stream.count; ++message) expected += value_at(i + message);
    wrong += sums[static_cast<std::size_t>(i)] != expected;
  }
  return wrong;
}

Tensor tensor_on(RuntimeContext& torch, int sip, std::int64_t elements) {
  torch.ahbm.set_device(sip);
  return torch.zeros({elements}, {.dtype = DType::f32, .dp = DPPolicy::on_one_pe()});
}

// Runs the stream; returns the number of wrong sums.
std::int64_t run_stream(RuntimeContext& torch, const Stream& stream) {
  Tensor x = tensor_on(torch, stream.ends.from.sip, stream.elements() + stream.count - 1);
  const Tensor sums = tensor_on(torch, stream.ends.to.sip, stream.elements());
  std::vector<float> values;
  for (std::int64_t i = 0; i < x.numel(); ++i) values.push_back(value_at(i));
  x.copy_shard_(0, RuntimeContext::tensor(values, x.shape()));

  runtime::Simulation& simulation = simulation_of(torch);
  const std::uint64_t operation = simulation.next_operation();
  simulation.begin(operation);
  const auto body = [&](tl::Context& tl) {
    if (tl.location() == stream.ends.from) {
      send_all(tl, stream, RuntimeContext::pointer_to(x, {stream.ends.from.sip, 0, 0}));
    } else {
      receive_all(tl, stream, RuntimeContext::pointer_to(sums, {stream.ends.to.sip, 0, 0}));
    }
  };
  runtime::launch(simulation,
                  {"stream", {stream.ends.from, stream.ends.to}, body, {x, sums}, operation});
  return count_wrong(stream, sums.to_vector<float>());
}

double measured_gbs(RuntimeContext& torch, const Stream& stream) {
  std::optional<Time> first_arrival;
  Time last_taken_out{0};
  for (const sim::OpRecord& op : torch.engine().op_log()) {
    if (op.kind == sim::OpKind::send && !first_arrival) first_arrival = op.end;
    if (op.kind == sim::OpKind::recv) last_taken_out = op.end;
  }
  const Time took = last_taken_out - first_arrival.value();
  if (took == Time{0}) return 0;  // nothing takes time
  profiler::timed(torch, "stream", *first_arrival, last_taken_out);
  return static_cast<double>((stream.count - 1) * stream.bytes()) / to_ns(took);
}

constexpr std::array kColumns = {
    TableColumn{"buffer", "", 6, "buffer_kind"},
    TableColumn{"depth", "", 6, "depth"},
    TableColumn{"slot", "(B)", 9, "slot_bytes"},
    TableColumn{"round trip", "(ns)", 11, "round_trip_ns", 1, 3},
    TableColumn{"measured", "(GB/s)", 9, "measured_gbs", 1, 2},
    TableColumn{"credits", "(GB/s)", 9, "credit_bound_gbs", 1, 2},
    TableColumn{"link", "(GB/s)", 9, "link_gbs", 1, 2},
    TableColumn{"limit", "", 9, "limit"},
    TableColumn{"reached", "(%)", 8, "reached", 100, 1},
    TableColumn{"#wrong", "", 7, "wrong"},
};

void measure(Bench& bench, const Stream& stream) {
  const auto torch = bench.make_context(
      bench.topology(), {.ccl = bench.ccl(), .op_log_limit = 0});  // measured_gbs() reads it whole
  sim::Machine& machine = simulation_of(*torch).machine();
  const sim::IpcqChannel& channel = machine.connect(stream.ends, stream.params);
  const Limits limits = compute_limits(machine, channel, stream);
  const std::int64_t wrong = run_stream(*torch, stream);
  const double measured = measured_gbs(*torch, stream);
  // Sums of nanoseconds in double; times themselves are exact.
  KB_CHECK(measured <= limits.gbs() * (1 + 1e-12), "{} GB/s over {}", measured, limits.gbs());
  const Row row = Row()
                      .set("port", to_string(stream.ends.out))
                      .set("buffer_kind", name_of(stream.params.buffer_kind))
                      .set("wait", name_of(stream.params.wait))
                      .set("depth", stream.params.depth)
                      .set("slot_bytes", stream.bytes())
                      .set("messages", stream.count)
                      .set("round_trip_ns", to_ns(limits.round_trip))
                      .set("measured_gbs", measured)
                      .set("credit_bound_gbs", limits.credits_gbs)
                      .set("link_gbs", limits.link_gbs)
                      .set("limit", limits.by_credits() ? "credits" : "link")
                      .set("reached", measured / limits.gbs())
                      .set("wrong", wrong);
  bench.print(table_line(kColumns, row, bench.run().console));
  bench.add_row(row, wrong == 0);
}

void run_ipcq(Bench& bench) {
  const Settings& settings = bench.settings();
  const auto messages = static_cast<int>(settings.integer("messages", 1, kMaxMessages));
  Stream stream{find_ends(bench.topology(), settings.choice("port", kPorts)), bench.ccl().ipcq()};
  if (settings.is_set("wait")) stream.params.wait = settings.choice("wait", sim::kWaitPolicies);
  bench.note("stream",
             fmt::format("{} {} -> {} {}", to_string(stream.ends.from), to_string(stream.ends.out),
                         to_string(stream.ends.to), to_string(stream.ends.in)));
  bench.print("#\n" + table_head(kColumns));
  for (const sim::BufferKind kind : settings.choices("buffer_kind", sim::kBufferKinds)) {
    for (const std::int64_t slot : settings.integers("slot", size_of(DType::f32), kMaxSlot)) {
      for (const std::int64_t depth : settings.integers("depth", 1, kMaxDepth)) {
        stream.params.buffer_kind = kind;
        stream.params.slot_bytes = slot;
        stream.params.depth = static_cast<int>(depth);
        stream.count =
            1 + (messages + stream.params.depth - 1) / stream.params.depth * stream.params.depth;
        measure(bench, stream);
      }
    }
  }
}

}  // namespace

BenchInfo ipcq_bench() {
  return {"ipcq",
          "a stream of messages between two PEs, beside its bounds by credits and links",
          {{"port", "global_east", "where the neighbour lies: east, global_east, ...",
            SettingType::name},
           {"messages", "256", "how many at least, after the first", SettingType::integer},
           {"buffer_kind", "tcm,sram,hbm", "where the queue lies, a list", SettingType::names},
           {"depth", "1,2,4,8", "slots, a list", SettingType::integers},
           {"slot", "4096,16384", "bytes of a slot, a list", SettingType::integers},
           {"wait", "", "sleep or poll; else ccl.yaml's", SettingType::name}},
          run_ipcq,
          nullptr,
          BenchRanks::own};
}

}  // namespace kernbench::benches::ipcq
