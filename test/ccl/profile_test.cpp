// Where the time of programs went whose answer is known.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>

#include "runtime/simulation/run_log.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/profiler.h"
#include "runtime/torch/run_ranks.h"
#include "sim_engine/components/fabric.h"
#include "test/ccl/ring_with_array.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::profile_test {
namespace {

using Json = nlohmann::json;
using runtime::OperationRow;
using runtime::RankTime;
using runtime::TraceLevel;

constexpr Time kAlpha{500'000};

// Runs a program on `p` ranks of a ring, each with a tensor of 4096 elements.
using Program = std::function<void(RuntimeContext& torch, int rank, const Tensor& x)>;
void run_on_ring(RuntimeContext& torch, int p, const Program& program) {
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, p, [&](int rank) {
    program(torch, rank, torch.zeros({4096}, {.dp = DPPolicy::on_one_pe()}));
  });
  torch.distributed.destroy_process_group();
}

const OperationRow& row_of(const runtime::Profile& profile, std::string_view name) {
  const auto row = std::ranges::find(profile.operations, name, &OperationRow::name);
  REQUIRE(row != profile.operations.end());
  return *row;
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_CASE("one slow rank: it computes, and the others' all_reduce is exposed for as long",
          "[ccl][profile]") {
  RuntimeContext torch(ring_with_array(4), {.profile = true});
  run_on_ring(torch, 4, [](RuntimeContext& own, int rank, const Tensor& x) {
    if (rank == 2) own.launch("multiply", multiply, x, std::int64_t{512});
    own.distributed.all_reduce(x);
  });
  const runtime::Profile profile = torch.engine().profile();
  const OperationRow& slow = row_of(profile, "multiply");
  CHECK(slow.count == 1);
  CHECK(slow.kind == "kernel");
  CHECK(slow.where.starts_with("profile_test.cpp:"));
  for (const RankTime& rank : profile.ranks) {
    CHECK(rank.total() == profile.duration());
    CHECK(rank.compute_only == (rank.rank == 2 ? slow.total : Time{0}));
    CHECK(rank.both == Time{0});
    CHECK(rank.exposed == profile.duration() - rank.compute_only);
  }
  const OperationRow& sum = row_of(profile, "all_reduce");
  CHECK(sum.count == 4);
  CHECK(sum.bytes == 4 * 4096 * 4);
  CHECK(sum.group == 0);
  CHECK(sum.total == 4 * profile.duration() - slow.total);
  CHECK(sum.exposed == sum.total);
  CHECK(sum.longest == profile.duration());
}

TEST_CASE("the slack of an operation is what it may be late without delaying the run",
          "[ccl][profile]") {
  // Rank `rank` multiplies `size`; the others 64.
  const auto profile_with = [](int rank, std::int64_t size) {
    RuntimeContext torch(ring_with_array(4), {.profile = true});
    run_on_ring(torch, 4, [&](RuntimeContext& own, int at, const Tensor& x) {
      const std::string name = "multiply" + std::to_string(at);
      own.launch(name, multiply, x, at == rank ? size : at == 2 ? 256 : 64);
      own.distributed.all_reduce(x);
      own.launch("after", multiply, x, std::int64_t{64});
    });
    return torch.engine().profile();
  };
  const runtime::Profile profile = profile_with(2, 256);
  const Time slow = row_of(profile, "multiply2").total;
  const Time slack = slow - row_of(profile, "multiply0").total;
  CHECK(slack > Time{0});
  CHECK(row_of(profile, "multiply2").slack == Time{0});
  CHECK(row_of(profile, "multiply0").slack == slack);
  CHECK(row_of(profile, "multiply3").slack == slack);
  CHECK(row_of(profile, "all_reduce").slack == Time{0});

  const runtime::Profile as_late_as_possible = profile_with(0, 256);
  CHECK(row_of(as_late_as_possible, "multiply0").total == slow);
  CHECK(as_late_as_possible.duration() == profile.duration());
  CHECK(profile_with(0, 272).duration() > profile.duration());
}

TEST_CASE("what a kernel hides of a collective is no exposed time", "[ccl][profile]") {
  RuntimeContext torch(ring_with_array(4), {.profile = true});
  run_on_ring(torch, 4, [](RuntimeContext& own, int, const Tensor& x) {
    const Tensor y = own.zeros({1}, {.dp = DPPolicy::on_one_pe()});
    const distributed::Work work = own.distributed.all_reduce(x, {.async_op = true});
    own.launch("multiply", multiply, y, std::int64_t{32});
    work.wait();
  });
  const runtime::Profile profile = torch.engine().profile();
  const Time multiplied = row_of(profile, "multiply").longest;
  const OperationRow& sum = row_of(profile, "all_reduce");
  REQUIRE(multiplied < profile.duration());
  CHECK(sum.total == 4 * profile.duration());
  CHECK(sum.exposed == 4 * (profile.duration() - multiplied));
  for (const RankTime& rank : profile.ranks) {
    CHECK(rank.both == multiplied);
    CHECK(rank.exposed == profile.duration() - multiplied);
    CHECK(rank.compute_only + rank.idle == Time{0});
  }
}

TEST_CASE("a launch's time is launch, skew, kernel and return", "[ccl][profile]") {
  Topology topology = round_topology();
  topology.sip.io_cpu_dispatch = Time{7'000};
  topology.cube.m_cpu_dispatch = Time{3'000};
  RuntimeContext torch(topology, {.profile = true, .launch_blocking = true});
  const Tensor x = torch.zeros({2}, {.dp = {.pe = Shard::row_wise}});
  torch.launch(
      "nothing", [](tl::Context&, tl::Pointer) {}, x);
  const runtime::LaunchTime time = torch.engine().profile().launches;
  CHECK(time.total() == torch.engine().now());
  CHECK(time.skew == Time{3'000});  // the M_CPU starts the second PE so much later
  CHECK(time.kernel == Time{0});
  CHECK(time.launch >= topology.system.host_link.latency + Time{10'000});
  CHECK(time.back >= topology.system.host_link.latency);
}

TEST_CASE("units are told by class, with the busiest of each", "[ccl][profile]") {
  RuntimeContext torch(ring_with_array(4));
  run_on_ring(torch, 4, [](RuntimeContext& own, int rank, const Tensor& x) {
    if (rank == 1) own.launch("multiply", multiply, x, std::int64_t{64});
    if (rank == 0) own.distributed.send(x, 1);
    if (rank == 1) own.distributed.recv(x, 0);
  });
  const runtime::Profile profile = torch.engine().profile();
  const auto use_of = [&](sim::UnitClass unit_class) {
    return profile.units.at(static_cast<std::size_t>(unit_class));
  };
  const sim::UnitClassUse gemm = use_of(sim::UnitClass::gemm);
  CHECK(gemm.count == 4);
  CHECK(gemm.total == gemm.busiest.busy);
  CHECK(gemm.busiest.unit == "sip1.cube0.pe0.gemm");
  const sim::UnitClassUse link = use_of(sim::UnitClass::link);
  CHECK(link.count == 4 * 4);
  CHECK(link.busiest.unit == "sip0.link.east");
  CHECK(link.busiest.busy == Time{4096 * 4 * 20});
  CHECK(torch.engine().busiest_unit().busy ==
        std::ranges::max_element(profile.units, {}, [](const auto& use) {
          return use.busiest.busy;
        })->busiest.busy);
}

TEST_CASE("an explanation is one screen, however many ranks and kernels there are",
          "[ccl][profile]") {
  RuntimeContext torch(ring_with_array(12), {.profile = true});
  run_on_ring(torch, 12, [](RuntimeContext& own, int rank, const Tensor& x) {
    for (int i = 0; i <= rank; ++i) {
      own.launch("kernel" + std::to_string(i), multiply, x, std::int64_t{16});
    }
    own.distributed.all_reduce(x);
  });
  const std::string text = torch.engine().explain();
  CHECK(std::ranges::count(text, '\n') <= 40);
  CHECK(text.find("all_reduce") != std::string::npos);
}

TEST_CASE("a summary has every rank, operation, unit class and wait", "[ccl][profile]") {
  RuntimeContext torch(ring_with_array(12));
  const profiler::profile prof(torch);
  run_on_ring(torch, 12, [](RuntimeContext& own, int rank, const Tensor& x) {
    own.launch("kernel" + std::to_string(rank), multiply, x, std::int64_t{16});
    own.distributed.all_reduce(x);
  });
  const std::string text = prof.summary();
  for (int rank = 0; rank < 12; ++rank) {
    CHECK(text.find("\nkernel" + std::to_string(rank) + " ") != std::string::npos);
    CHECK(text.find("\n" + fmt::format("{:>6} ", rank)) != std::string::npos);
  }
  for (const char* words : {"\nlink ", "\ngemm ", "\nmessage ", "launches of rank 0: ",
                            "\nranks waited for ", "kernel 'kernel7' at "}) {
    CAPTURE(words, text);
    CHECK(text.find(words) != std::string::npos);
  }
}

TEST_CASE("a profile of a part of the run has what happened in it", "[ccl][profile]") {
  RuntimeContext torch(ring_with_array(2));
  const Tensor x = torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
  torch.launch("before", multiply, x, std::int64_t{64});
  torch.ahbm.synchronize();
  const Time begin = torch.engine().now();
  const profiler::profile prof(torch);
  {
    const profiler::record_function scope(torch, "forward");
    torch.launch("inside", multiply, x, std::int64_t{64});
  }
  const profiler::Profile profile = prof.result();
  CHECK(profile.parts.front().from == begin);
  CHECK(profile.duration() == begin);  // it did the same again
  REQUIRE(prof.key_averages().rows().size() == 1);
  CHECK(prof.key_averages().rows().front().name == "inside");
  CHECK(profile.ranks[0].compute_only == row_of(profile, "inside").total);
  CHECK(prof.key_averages().rows().front().phase == "forward");
  CHECK(prof.key_averages().table().find("inside, forward") != std::string::npos);
}

TEST_CASE("a run that is recorded from its middle on is explained from there", "[ccl][profile]") {
  RuntimeContext torch(ring_with_array(2));
  const Tensor x = torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
  torch.launch("before", multiply, x, std::int64_t{64});
  torch.ahbm.synchronize();
  const Time begin = torch.engine().now();
  const profiler::profile prof(torch);
  torch.launch("inside", multiply, x, std::int64_t{64});
  torch.ahbm.synchronize();
  const runtime::Profile whole = torch.engine().profile();
  CHECK(whole.parts.front().from == begin);
  CHECK(whole.ranks[0].compute_only == row_of(whole, "inside").total);
}

TEST_CASE("a profile ends with its scope, and its steps are marked", "[ccl][profile]") {
  RuntimeContext torch(ring_with_array(2));
  const Tensor x = torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
  profiler::profile prof(torch);
  torch.launch("inside", multiply, x, std::int64_t{64});
  prof.step();
  prof.stop();
  const Time duration = prof.result().duration();
  torch.launch("behind", multiply, x, std::int64_t{256});
  torch.ahbm.synchronize();
  CHECK(prof.result().duration() == duration);
  REQUIRE(prof.key_averages().rows().size() == 1);
  const runtime::RunLog& log = *simulation_of(torch).run_log();
  CHECK(std::ranges::count(log.spans(), "ProfilerStep#0", &runtime::RunSpan::name) == 1);
  prof.start();
  torch.launch("again", multiply, x, std::int64_t{64});
  CHECK(prof.key_averages().rows().front().name == "again");
}

TEST_CASE("operations are sorted by torch's names of figures", "[ccl][profile]") {
  RuntimeContext torch(ring_with_array(2));
  const Tensor x = torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
  const profiler::profile prof(torch);
  torch.launch("slow", multiply, x, std::int64_t{64});
  for (int i = 0; i < 20; ++i) torch.launch("often", multiply, x, std::int64_t{32});
  const profiler::KeyAverages averages = prof.key_averages();
  const auto first_by = [&](std::string_view name) {
    const std::string table = averages.table(name, 1);
    const std::size_t line = table.find('\n') + 1;
    return table.substr(line, table.find(' ', line) - line);
  };
  CHECK(first_by("cuda_time_total") == "often");
  CHECK(first_by("self_device_time_total") == "often");
  CHECK(first_by("cuda_time") == "slow");
  CHECK(first_by("device_time") == "slow");
  CHECK(first_by("longest") == "slow");
  CHECK(first_by("count") == "often");
  CHECK_THROWS_MATCHES(averages.table("cpu_time_total"), CollectiveError,
                       Says("KB-R031", "sort_by 'cpu_time_total'", "cuda_time_total"));
}

TEST_CASE("what a link was busy for is the sum over time, of each link", "[ccl][profile]") {
  RuntimeContext torch(ring_with_array(4), {.profile = true});
  run_on_ring(torch, 4, [](RuntimeContext& own, int rank, const Tensor& x) {
    if (rank == 2) own.launch("multiply", multiply, x, std::int64_t{512});
    own.distributed.all_reduce(x);
  });
  const sim::Fabric& fabric = simulation_of(torch).machine().fabric();
  const auto use = fabric.use_over_time();
  REQUIRE(use != nullptr);
  int used = 0;
  for (sim::LinkId link = 0; link < fabric.routing().link_count(); ++link) {
    const auto busy = use->of(link);
    if (fabric.routing().find_class(link) != sim::UnitClass::link) continue;
    CHECK(std::accumulate(busy.begin(), busy.end(), Time{0}) == fabric.busy(link));
    used += busy.empty() ? 0 : 1;
  }
  CHECK(used >= 4);
}

// The trace of a program with a scope, a mark, a kernel, a collective and a message.
Json trace_at(TraceLevel level) {
  RuntimeContext torch(ring_with_array(2), {.trace = true});
  run_on_ring(torch, 2, [](RuntimeContext& own, int rank, const Tensor& x) {
    {
      const profiler::record_function scope(own, "forward");
      own.launch("multiply", multiply, x, std::int64_t{64});
    }
    profiler::mark(own, "step 1");
    own.distributed.all_reduce(x);
    if (rank == 0) own.distributed.send(x, 1);
    if (rank == 1) own.distributed.recv(x, 0);
  });
  const std::string path = std::filesystem::temp_directory_path() / "profile_test_trace.json";
  torch.engine().write_trace(path, level);
  Json events = Json::parse(contents_of(path))["traceEvents"];
  std::filesystem::remove(path);
  return events;
}

const Json& event_of(const Json& events, std::string_view name, int process) {
  const auto found = std::ranges::find_if(events, [&](const Json& event) {
    return event["name"] == name && event["pid"] == process && event["ph"] != "M";
  });
  REQUIRE(found != events.end());
  return *found;
}

TEST_CASE("a trace shows what the user wrote, by rank", "[ccl][profile][trace]") {
  const Json events = trace_at(TraceLevel::kernels);
  std::map<std::pair<int, int>, std::string> tracks;
  for (const Json& event : events) {
    if (event["name"] == "thread_name")
      tracks[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  for (const int rank : {1, 2}) {  // processes of ranks 0 and 1
    const auto track_of = [&](std::string_view name) {
      const Json& event = event_of(events, name, rank);
      return tracks.at({event["pid"], event["tid"]});
    };
    CHECK(track_of("forward") == "program");
    CHECK(track_of("step 1") == "program");
    CHECK(track_of("multiply") == "kernels");
    CHECK(track_of("all_reduce") == "group 0");
    CHECK(track_of(rank == 1 ? "send" : "recv") == "messages");
  }
  const Json& sum = event_of(events, "all_reduce", 1)["args"];
  CHECK(sum["bytes"] == 4096 * 4);
  CHECK(sum["group"] == 0);
  CHECK(sum["sequence"] == 0);
  CHECK(sum["line"].get<std::string>().starts_with("profile_test.cpp:"));
  CHECK(event_of(events, "send", 1)["args"]["peer"] == 1);
  CHECK(event_of(events, "multiply", 1)["args"]["PEs"] == 1);
}

TEST_CASE("the levels of a trace: ranks, then kernels, then units", "[ccl][profile][trace]") {
  const auto names_at = [](TraceLevel level) {
    std::set<std::string> names;
    for (const Json& event : trace_at(level)) names.insert(event["name"]);
    return names;
  };
  const std::set<std::string> ranks = names_at(TraceLevel::ranks);
  const std::set<std::string> kernels = names_at(TraceLevel::kernels);
  const std::set<std::string> units = names_at(TraceLevel::units);
  CHECK(ranks.contains("all_reduce"));
  CHECK(!ranks.contains("multiply"));
  CHECK(kernels.contains("multiply"));
  const auto has_products = [](const std::set<std::string>& names) {
    return std::ranges::any_of(names, [](const auto& name) { return name.starts_with("gemm ["); });
  };
  CHECK(!has_products(kernels));
  CHECK(has_products(units));
}

TEST_CASE("a message's arrow goes from inside its send to inside its receive",
          "[ccl][profile][trace]") {
  std::map<std::string, Json> ends;
  for (const Json& event : trace_at(TraceLevel::kernels)) {
    if (event["name"] == "message") ends[event["ph"]] = event;
  }
  REQUIRE(ends.size() == 2);
  CHECK(ends["s"]["pid"] == 1);
  CHECK(ends["f"]["pid"] == 2);
  CHECK(ends["s"]["id"] == ends["f"]["id"]);
  CHECK(ends["f"]["ts"].get<double>() - ends["s"]["ts"].get<double>() >= to_ns(kAlpha) / 1e3);
}

TEST_CASE("a run that records nothing writes no trace", "[ccl][profile][trace][misuse]") {
  RuntimeContext torch(ring_with_array(2));
  CHECK_THROWS_MATCHES(torch.engine().write_trace("/nowhere/t.json"), CollectiveError,
                       Says("KB-R030", "RuntimeOptions::profile"));
  const profiler::profile prof(torch);
  CHECK_THROWS_MATCHES(prof.export_chrome_trace("/nowhere/t.json"), IoError, Says("KB-I010"));
}

}  // namespace
}  // namespace kernbench::test::profile_test
