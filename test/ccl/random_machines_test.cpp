// This must hold on every machine: sums are exact, no time is under its bound, more bandwidth is
// not slower, and neither names, nor the order of keys, nor the unit of time matter.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "runtime/torch/run_ranks.h"
#include "sim_engine/config/yaml_document.h"
#include "sim_engine/topology/unlike_links.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/ccl/group_under_test.h"
#include "test/ccl/random_machine.h"
#include "test/support/topology_yaml_text.h"

namespace kernbench::test::random_machines_test {
namespace {

constexpr int kMachines = 200;

ccl::Config by_name(std::string_view algorithm, const std::string& protocols) {
  return ccl::Config::parse(fmt::format("defaults: {{algorithm: {}}}\n{}", algorithm, protocols));
}

struct Drawn {
  explicit Drawn(int number)
      : pick(static_cast<unsigned>(number)),
        topology(random_machine(kKinds[static_cast<std::size_t>(number) % kKinds.size()], pick)),
        protocols(pick),
        all_reduce{.topology = topology,
                   .dp = {Shard::column_wise, Shard::column_wise},
                   .shape = {1, pick(1, 5000)},
                   .dtype = DType::f16,
                   .config = by_name("auto", protocols.text())} {}

  static constexpr std::array kKinds = {SipTopology::torus_3d,        SipTopology::full_mesh,
                                        SipTopology::switched,        SipTopology::ring_1d,
                                        SipTopology::mesh_2d_no_wrap, SipTopology::torus_2d};
  Pick pick;
  Topology topology;
  RandomProtocols protocols;
  AllReduce all_reduce;
};

// Every collective runs with a check that it takes no less than its lower bound (KB_CHECK in the
// communicator), so this fails if one does.
TEST_CASE("on 200 random machines of all kinds sums are exact, and no time is under its bound",
          "[ccl][random][network]") {
  for (int i = 0; i < kMachines; ++i) {
    const Drawn drawn(i);
    CAPTURE(i, drawn.all_reduce.text(), drawn.protocols.text());
    const AllReduceResult result = run(drawn.all_reduce);
    CHECK(wrong_sums(drawn.all_reduce, result) == "");
    CHECK(differing_copies(drawn.all_reduce, result) == "");
  }
}

// The machine's SIPs in nodes, some of which may share a link between nodes.
Topology in_random_nodes(Topology topology, Pick& pick) {
  const int in_node = pick(1, 4);
  topology.system.sip_count = in_node * pick(2, 4);
  topology.system.network_switch.sums.reset();
  topology = in_nodes(topology, in_node);
  topology.system.nodes.link = {pick.gigabytes(5, 50), Time{pick(0, 900) * 1000}};
  if (in_node % 2 == 0 && pick.coin()) topology.system.nodes.sips_per_link = 2;
  if (topology.system.nodes.count == 4 && pick.coin()) {  // two in each of two
    NodesSpec& nodes = topology.system.nodes;
    nodes.count = 2;
    nodes.inner = {{2, {pick.gigabytes(5, 90), Time{pick(0, 900) * 1000}}}};
    nodes.through_inner = pick.coin();
    const bool is_switched = topology.system.topology == SipTopology::switched;
    nodes.inner.front().through_inner = is_switched && pick.coin();
  }
  return topology;
}

TEST_CASE("on 100 random machines of nodes sums are exact, and no bound is beaten",
          "[ccl][random][network]") {
  int machines = 0;
  for (int i = 0; i < 300; ++i) {
    Drawn drawn(i);
    if (!joins_all(drawn.topology.system.topology)) continue;
    ++machines;
    AllReduce& all_reduce = drawn.all_reduce;
    all_reduce.topology = in_random_nodes(drawn.topology, drawn.pick);
    for (const char* name : {"auto", "hierarchical_allreduce", "ring_allreduce"}) {
      const bool has_pairs = all_reduce.topology.system.w > 1;
      if (!has_pairs && std::string_view(name) == "hierarchical_allreduce") continue;
      all_reduce.config = by_name(name, drawn.protocols.text());
      CAPTURE(i, all_reduce.text(), drawn.protocols.text());
      const AllReduceResult result = run(all_reduce);
      CHECK(wrong_sums(all_reduce, result) == "");
      CHECK(differing_copies(all_reduce, result) == "");
    }
    CHECK(Topology::parse(to_yaml(all_reduce.topology), "links.yaml") == all_reduce.topology);
  }
  CHECK(machines == 100);
}

// The machine with one or two kinds of links unlike the others.
Topology with_random_links(Topology topology, Pick& pick) {
  Topology::System& system = topology.system;
  const std::size_t count = pick.coin() ? 2 : 1;
  for (int tries = 0; tries < 40 && system.unlike_links.size() < count; ++tries) {
    UnlikeLinks links{static_cast<UnlikeLinks::Of>(pick(0, 2)),
                      pick(0, system.sip_count - 1),
                      0,
                      {pick.gigabytes(5, 90), Time{pick(0, 900) * 1000}}};
    if (links.of == UnlikeLinks::Of::pair) links.second = pick(links.first, system.sip_count - 1);
    if (links.of == UnlikeLinks::Of::dimension && links.first > 2) continue;
    const auto has_its_name = [&](const UnlikeLinks& one) {
      return to_string(one) == to_string(links);
    };
    const bool is_new = std::ranges::none_of(system.unlike_links, has_its_name);
    if (is_new && describe_missing_links(system, links).empty()) {
      system.unlike_links.push_back(links);
    }
  }
  return topology;
}

TEST_CASE("on 150 random machines with unlike links sums are exact, and no bound is beaten",
          "[ccl][random][network][exhaustive]") {
  for (int i = 0; i < 150; ++i) {
    Drawn drawn(i);
    if (drawn.topology.system.sip_count < 2) continue;
    AllReduce& all_reduce = drawn.all_reduce;
    all_reduce.topology = with_random_links(drawn.topology, drawn.pick);
    for (const char* name : {"auto", "intercube_allreduce", "ring_allreduce", "tree_allreduce"}) {
      all_reduce.config = by_name(name, drawn.protocols.text());
      CAPTURE(i, all_reduce.text(), drawn.protocols.text());
      const AllReduceResult result = run(all_reduce);
      CHECK(wrong_sums(all_reduce, result) == "");
      CHECK(differing_copies(all_reduce, result) == "");
    }
    CHECK_FALSE(all_reduce.topology.system.unlike_links.empty());
    CHECK(Topology::parse(to_yaml(all_reduce.topology), "links.yaml") == all_reduce.topology);
  }
}

// Rates of a whole number of picoseconds for each byte, so that no time is rounded.
void make_round(Topology& topology) {
  constexpr std::array<std::int64_t, 7> kPicoseconds = {1, 2, 4, 10, 20, 40, 100};
  const auto round = [&](auto& rate) {
    if (rate.is_unlimited()) return;
    const auto next = std::ranges::lower_bound(kPicoseconds, 1'000'000'000'000 / rate.per_second);
    rate.per_second = 1'000'000'000'000 / (next == kPicoseconds.end() ? 200 : *next);
  };
  visit_rates_and_times(topology, round, [](Time&) {});
  HbmSpec& hbm = topology.cube.hbm;
  hbm.bandwidth.per_second = 1'000'000'000'000 / (hbm.efficiency.millionths % 2000 == 0 ? 40 : 200);
  hbm.efficiency.millionths =
      hbm.turn_around == Time{0} ? 800'000 : Share::kWhole;  // 5/4 of the time
  hbm.channels = topology.pe_count() * (hbm.channels / topology.pe_count());
  hbm.slices = 0;
}

void slow_down(Topology& topology, int factor) {
  visit_rates_and_times(
      topology,
      [&](auto& rate) {
        if (!rate.is_unlimited()) rate.per_second /= factor;
      },
      [&](Time& time) { time *= factor; });
}

TEST_CASE(
    "on 200 random machines a tenth of all rates, and ten times all latencies, take ten times "
    "as long to the picosecond",
    "[ccl][random][network][scaling][exhaustive]") {
  for (int i = 0; i < kMachines; ++i) {
    Drawn drawn(i);
    AllReduce& all_reduce = drawn.all_reduce;
    make_round(all_reduce.topology);
    CAPTURE(i, all_reduce.text(), drawn.protocols.text());
    const Time took = run(all_reduce).took;
    slow_down(all_reduce.topology, 10);
    all_reduce.config = by_name("auto", drawn.protocols.text(10));
    CHECK(run(all_reduce).took == 10 * took);
  }
}

std::string in_another_order(const YamlNode& node, Pick& pick) {
  if (node.children.empty()) return node.text;
  std::vector<std::string> parts;
  for (const YamlNode* child : node.children) {
    const bool is_map = node.kind == YamlNode::Kind::map;
    parts.push_back((is_map ? child->key + ": " : "") + in_another_order(*child, pick));
  }
  if (node.kind != YamlNode::Kind::map) return fmt::format("[{}]", fmt::join(parts, ", "));
  for (std::size_t i = parts.size(); i > 1; --i) {
    std::swap(parts[i - 1], parts[static_cast<std::size_t>(pick(0, static_cast<int>(i) - 1))]);
  }
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

TEST_CASE("200 random machines are the same whatever the order of the file's keys",
          "[ccl][random][network][topology]") {
  for (int i = 0; i < kMachines; ++i) {
    Drawn drawn(i);
    const std::string text = to_yaml(drawn.topology);
    const YamlDocument document = YamlDocument::parse(text, "links.yaml");
    const std::string other = in_another_order(document.root(), drawn.pick);
    CAPTURE(i, text, other);
    CHECK(text != other);
    AllReduce same = drawn.all_reduce;
    same.topology = Topology::parse(other, "links.yaml");
    CHECK(same.topology == drawn.topology);
    if (i % 8 == 0) CHECK(run(same).fingerprint == run(drawn.all_reduce).fingerprint);
  }
}

// SIPs renamed so that neighbours stay neighbours: turned, shifted, mirrored, or in any order where
// each is everybody's neighbour.
std::vector<int> renamed(const Topology::System& system, Pick& pick) {
  std::vector<int> all(static_cast<std::size_t>(system.sip_count));
  std::iota(all.begin(), all.end(), 0);
  if (system.topology == SipTopology::full_mesh || system.topology == SipTopology::switched) {
    for (std::size_t i = all.size(); i > 1; --i) {
      std::swap(all[i - 1], all[static_cast<std::size_t>(pick(0, static_cast<int>(i) - 1))]);
    }
    return all;
  }
  if (system.topology == SipTopology::mesh_2d_no_wrap) {
    std::ranges::reverse(all);
    return all;
  }
  const int x = pick(0, system.w - 1);
  const int y = pick(0, system.h - 1);
  const int z = pick(0, system.d - 1);
  for (int& sip : all) {
    const int plane = system.w * system.h;
    sip = (sip % system.w + x) % system.w + (sip % plane / system.w + y) % system.h * system.w +
          (sip / plane + z) % system.d * plane;
  }
  return all;
}

using Call = std::function<void(const Member&, const Tensor&)>;

// Returns how long `call` takes on a group of these ranks in this order.
Time time_of(const Drawn& drawn, const std::vector<int>& ranks, const Call& call,
             std::optional<std::uint64_t> shuffle_ties = std::nullopt) {
  RuntimeContext torch(drawn.topology,
                       {.ccl = std::make_shared<const ccl::Config>(drawn.all_reduce.config),
                        .shuffle_ties = shuffle_ties});
  torch.distributed.init_process_group("ahbm");
  Time begin{0};
  Time end{0};
  run_on_devices(torch, drawn.topology.system.sip_count, [&](int rank) {
    const auto group = torch.distributed.new_group(ranks, {.sort_ranks = false});
    const auto place = std::ranges::find(ranks, rank) - ranks.begin();
    const Member member{torch, group, static_cast<int>(place), ranks};
    const Tensor x = torch.full({1, drawn.all_reduce.shape[1]}, member.rank,
                                {.dtype = DType::f16, .dp = drawn.all_reduce.dp});
    torch.distributed.barrier();
    begin = std::max(begin, torch.engine().now());
    call(member, x);
    torch.ahbm.synchronize();
    end = std::max(end, torch.engine().now());
  });
  torch.distributed.destroy_process_group();
  return end - begin;
}

// The least and the largest time with simultaneous events in several orders.
struct Range {
  Time least = Time::max();
  Time most{0};
};
Range range_of(const Drawn& drawn, const std::vector<int>& ranks, const Call& call) {
  Range range;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const Time time = time_of(drawn, ranks, call, seed);
    range = {std::min(range.least, time), std::max(range.most, time)};
  }
  return range;
}

enum class Times { equal, of_ties, different };

// Where simultaneous events meet, the first in the order of ranks goes first.  Renamed ranks
// therefore take another time if that order matters: one that lies among the times of other orders.
Times compare_times(const Drawn& drawn, const std::vector<int>& others, const Call& call) {
  std::vector<int> ranks = others;
  std::ranges::sort(ranks);
  const Time time = time_of(drawn, ranks, call);
  const Time other = time_of(drawn, others, call);
  if (time == other) return Times::equal;
  const Range range = range_of(drawn, ranks, call);
  const Range other_range = range_of(drawn, others, call);
  const bool overlap = range.least <= other_range.most && other_range.least <= range.most;
  return overlap ? Times::of_ties : Times::different;
}

TEST_CASE("on 200 random machines ranks that are renamed take the same time",
          "[ccl][random][network][symmetry][exhaustive]") {
  const Call all_reduce = [](const Member& member, const Tensor& x) {
    member.torch.distributed.all_reduce(x, ReduceOp::sum, {.group = member.group});
  };
  const Call broadcast = [](const Member& member, const Tensor& x) {
    member.torch.distributed.broadcast(x, member.ranks.front(), {.group = member.group});
  };
  int equal = 0;
  for (int i = 0; i < kMachines; ++i) {
    Drawn drawn(i);
    const std::vector<int> others = renamed(drawn.topology.system, drawn.pick);
    CAPTURE(i, drawn.all_reduce.text(), drawn.protocols.text(), others);
    for (const Call& call : {all_reduce, broadcast}) {
      const Times times = compare_times(drawn, others, call);
      CHECK(times != Times::different);
      if (times == Times::equal) ++equal;
    }
  }
  CHECK(equal >= 2 * kMachines * 97 / 100);  // ties are rare: 390 of 400 are equal
}

std::vector<Topology> with_half_of_one_rate(const Topology& topology) {
  std::vector<Topology> slower;
  for (int which = 0, count = 1; which < count; ++which) {
    Topology one = topology;
    count = 0;
    const auto halve = [&](auto& rate) {
      if (rate.is_unlimited() || count++ != which) return;
      rate.per_second /= 2;
      slower.push_back(one);
    };
    visit_rates_and_times(one, halve, [](Time&) {});
  }
  return slower;
}

// Messages that are large enough pass no slots, which is faster.  Four times the bytes are
// therefore never faster, but twice the bytes may be.
TEST_CASE("on 200 random machines half of one rate, or four times the bytes, are not faster",
          "[ccl][random][network][doubling][exhaustive]") {
  int machines = 0;
  for (int i = 0; i < kMachines; ++i) {
    Drawn drawn(i);
    AllReduce one = drawn.all_reduce;
    one.config = by_name("ring_allreduce", drawn.protocols.text());
    CAPTURE(i, one.text(), drawn.protocols.text());
    const Time took = run(one).took;
    for (const Topology& slower : with_half_of_one_rate(one.topology)) {
      AllReduce other = one;
      other.topology = slower;
      CHECK(run(other).took >= took);
      ++machines;
    }
    if (drawn.protocols.are_there()) continue;  // one of large messages is faster
    AllReduce longer = one;
    longer.shape = {1, 4 * one.shape[1]};
    CHECK(run(longer).took >= took);
  }
  CHECK(machines > 4 * kMachines);
}

}  // namespace
}  // namespace kernbench::test::random_machines_test
