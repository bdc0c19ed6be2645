// Ranks that do alike, one of which is simulated for others: as if each were.

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ccl/backend/ahbm_registration.h"
#include "ccl/core/config.h"
#include "runtime/functional/functional.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "test/ccl/group_under_test.h"
#include "test/ccl/random_machine.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::folding_test {
namespace {

struct Run {
  std::vector<Time> ends;  // by rank
  std::uint64_t fingerprint = 0;
  std::vector<Bytes> carried;  // by link
  int sips_of_each = 1;
};

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Program = std::function<void(RuntimeContext& torch, int rank)>;

// `ccl` is the text of ccl.yaml.
Run simulate(const Topology& topology, int fold, const Program& program,
             const std::string& ccl = "{}") {
  ccl::prepare_program();
  RuntimeContext torch(topology,
                       {.ccl = std::make_shared<const ccl::Config>(ccl::Config::parse(ccl)),
                        .data = false,
                        .fold = fold});
  torch.distributed.init_process_group("ahbm");
  const auto worker = [&](int rank) {
    torch.ahbm.set_device(rank);
    program(torch, rank);
    torch.ahbm.synchronize();
    return torch.engine().now();
  };
  Run run{torch.multiprocessing.spawn(worker, {}, topology.system.sip_count), 0, {}, 1};
  torch.distributed.destroy_process_group();
  run.fingerprint = torch.engine().fingerprint();
  const sim::Machine& machine = simulation_of(torch).machine();
  const sim::Routing& routing = machine.fabric().routing();
  for (sim::LinkId link = 0; link < routing.link_count(); ++link) {
    run.carried.push_back(machine.fabric().carried(link));
  }
  run.sips_of_each = machine.folding().sips_of_each();
  return run;
}

// nullopt: ranks that stand for others are unlike them.
std::optional<Run> simulate_folded(const Topology& topology, int fold, const Program& program) {
  try {
    return simulate(topology, fold, program);
  } catch (const CollectiveMismatchError& error) {
    if (error.code() != "KB-C026") throw;
    return std::nullopt;
  }
}

// A program in which each rank does the same, on groups of ranks that lie equally far apart.
class RandomProgram {
 public:
  RandomProgram(Pick& pick, int ranks) : ranks_(ranks) {
    std::vector<int> strides;
    for (int i = 1; i < ranks; ++i) {
      if (ranks % i == 0) strides.push_back(i);
    }
    for (int i = pick(1, 6); i > 0; --i) {
      steps_.push_back({.kind = static_cast<Kind>(pick(0, 6)),
                        .count = std::int64_t{pick(1, 40)} * (pick.coin() ? 1 : 30) * ranks,
                        .stride = strides[static_cast<std::size_t>(
                            pick(0, static_cast<int>(strides.size()) - 1))],
                        .is_async = pick.coin(),
                        .dp = placements()[static_cast<std::size_t>(
                            pick(0, static_cast<int>(placements().size()) - 1))]});
    }
  }

  void operator()(RuntimeContext& torch, int rank) const {
    auto& dist = torch.distributed;
    std::vector<distributed::Work> works;
    std::vector<Tensor> kept;
    for (const Step& step : steps_) {
      distributed::ProcessGroup own;
      for (int first = 0; first < step.stride; ++first) {
        std::vector<int> members;
        for (int i = first; i < ranks_; i += step.stride) members.push_back(i);
        const distributed::ProcessGroup group = dist.new_group(members);
        if (rank % step.stride == first) own = group;
      }
      run(torch, step, own, works, kept);
    }
    for (const distributed::Work& work : works) work.wait();
  }

 private:
  enum class Kind { all_reduce, all_gather, reduce_scatter, all_to_all, lists, compute, barrier };
  struct Step {
    Kind kind;
    std::int64_t count;
    int stride;
    bool is_async;
    DPPolicy dp;
  };

  void run(RuntimeContext& torch, const Step& step, const distributed::ProcessGroup& group,
           std::vector<distributed::Work>& works, std::vector<Tensor>& kept) const {
    auto& dist = torch.distributed;
    const int size = ranks_ / step.stride;
    const auto tensor = [&](std::int64_t count) {
      kept.push_back(torch.empty({count}, {.dp = step.dp}));
      return kept.back();
    };
    const auto keep = [&](distributed::Work work) {
      if (step.is_async) works.push_back(std::move(work));
    };
    const bool async = step.is_async;
    const std::int64_t count = step.count;
    switch (step.kind) {
      case Kind::all_reduce:
        return keep(dist.all_reduce(tensor(count), {.group = group, .async_op = async}));
      case Kind::all_gather:
        return keep(dist.all_gather_into_tensor(tensor(count * size), tensor(count),
                                                {.group = group, .async_op = async}));
      case Kind::reduce_scatter:
        return keep(dist.reduce_scatter_tensor(tensor(count), tensor(count * size),
                                               {.group = group, .async_op = async}));
      case Kind::all_to_all:
        return keep(dist.all_to_all_single(tensor(count), tensor(count),
                                           {.group = group, .async_op = async}));
      case Kind::lists: {
        std::vector<Tensor> all;
        for (int i = 0; i < size; ++i) all.push_back(tensor(count));
        return keep(dist.all_gather(all, tensor(count), {.group = group, .async_op = async}));
      }
      case Kind::compute:
        kept.push_back(nn::functional::relu(torch.empty({count}, {.dp = kOnEachPe})));
        return;
      case Kind::barrier:
        dist.barrier({.group = group});
        return;
    }
  }

  static constexpr DPPolicy kOnEachPe = {.cube = Shard::column_wise, .pe = Shard::column_wise};

  int ranks_;
  std::vector<Step> steps_;
};

// A machine of a kind, or one with nodes, in which SIPs stand alike.
Topology draw_machine(Pick& pick) {
  constexpr std::array kKinds = {SipTopology::ring_1d, SipTopology::torus_2d, SipTopology::torus_3d,
                                 SipTopology::full_mesh, SipTopology::switched};
  const SipTopology kind = kKinds[static_cast<std::size_t>(pick(0, 4))];
  Topology topology = random_machine(kind, pick);
  const bool divides = kind == SipTopology::full_mesh && topology.system.sip_count % 2 == 0;
  return divides && pick.coin() ? in_nodes(std::move(topology), 2) : topology;
}

TEST_CASE("a SIP that is simulated for others shows what each of them does", "[ccl][folding]") {
  constexpr int kRuns = 300;
  int folded = 0;
  for (unsigned seed = 0; seed < kRuns; ++seed) {
    Pick pick(seed);
    const Topology topology = draw_machine(pick);
    if (topology.system.sip_count < 2) continue;
    const RandomProgram program(pick, topology.system.sip_count);
    const Run each = simulate(topology, 0, program);
    for (int period = 1; period <= sim::Folding::kLargestPeriod; ++period) {
      const std::optional<Run> run = simulate_folded(topology, period, program);
      if (!run || run->sips_of_each == 1) continue;
      ++folded;
      CAPTURE(seed, period, topology.system.sip_count, topology.system.topology);
      CHECK(run->ends == each.ends);
      CHECK(run->fingerprint == each.fingerprint);
      CHECK(run->carried == each.carried);
    }
  }
  CHECK(folded > kRuns / 6);  // of the others ranks are unlike
}

// A program of each kind that ranks cannot do alike.
TEST_CASE("what ranks cannot do alike is refused where one stands for others", "[ccl][folding]") {
  const Topology topology = round_topology(SipTopology::ring_1d, 4);
  const auto refusal = [&](const Program& program) {
    return error_of<CollectiveMismatchError>([&] { simulate(topology, 1, program); });
  };
  const auto tensor = [](RuntimeContext& torch, std::int64_t count) {
    return torch.zeros({count}, {.dp = DPPolicy::on_one_pe()});
  };
  CHECK_THAT(refusal([&](RuntimeContext& torch, int) {
               torch.distributed.broadcast(tensor(torch, 8), 0);
             }),
             Equals("[KB-C026] broadcast: its root does something else, so that no rank can stand "
                    "for another one; run all of them, without `fold`"));
  CHECK_THAT(refusal([&](RuntimeContext& torch, int) {
               torch.distributed.send(tensor(torch, 8), {.dst = 1});
             }),
             Contains("[KB-C026] send: each rank names a peer"));
  CHECK_THAT(refusal([&](RuntimeContext& torch, int) {
               torch.distributed.all_to_all_single(tensor(torch, 8), tensor(torch, 8), {1, 3, 2, 2},
                                                   {1, 3, 2, 2});
             }),
             Contains("[KB-C026] all_to_all_single: its blocks have unequal sizes"));
  CHECK_THAT(refusal([&](RuntimeContext& torch, int) {  // the chunk of one rank has it
               torch.distributed.all_reduce(tensor(torch, 1));
             }),
             Contains("its members take unlike steps"));
  CHECK_THAT(error_of<CollectiveMismatchError>([&] {
               RuntimeContext torch(topology, {.data = false, .fold = 1});
               torch.multiprocessing.spawn([](int) {}, {}, 3);
             }),
             Contains("[KB-C026] spawn: it starts 3 ranks on 4 SIPs"));
}

// A rank's own chunk is as large as its stand-in's only where all chunks are.
TEST_CASE("chunks of unequal sizes are seen in large groups", "[ccl][folding]") {
  const int sips = GENERATE(20, 24, 28, 42);
  const auto all_reduce = [](std::int64_t count) {
    return [count](RuntimeContext& torch, int) {
      torch.distributed.all_reduce(torch.zeros({count}, {.dp = DPPolicy::on_one_pe()}));
    };
  };
  const Topology topology = round_topology(SipTopology::ring_1d, sips);
  for (const std::int64_t count : {sips * 100, sips * 100 + 6, sips * 100 + sips / 2}) {
    const Program program = all_reduce(count);
    const Run each = simulate(topology, 0, program);
    for (int period = 1; period <= sim::Folding::kLargestPeriod; ++period) {
      const std::optional<Run> run = simulate_folded(topology, period, program);
      CAPTURE(sips, count, period);
      if (run) CHECK((run->ends == each.ends && run->fingerprint == each.fingerprint));
    }
  }
}

// Halves that members exchange lie at other places on each, in the order of their numbers.
TEST_CASE("exchanges of halves fold where all chunks are equal", "[ccl][folding]") {
  const auto [kind, width, height] =
      GENERATE(std::tuple(SipTopology::ring_1d, 8, 1), std::tuple(SipTopology::ring_1d, 16, 1),
               std::tuple(SipTopology::torus_2d, 4, 8));
  const Topology topology = round_topology(kind, width, height);
  const Program program = [](RuntimeContext& torch, int) {
    torch.distributed.all_reduce(torch.zeros({1 << 14}, {.dp = DPPolicy::on_one_pe()}));
  };
  const std::string swing = "defaults: {algorithm: swing_allreduce}";
  const Run each = simulate(topology, 0, program, swing);
  const Run folded = simulate(topology, 2, program, swing);
  CAPTURE(width, height);
  CHECK(folded.sips_of_each > 1);
  CHECK(folded.ends == each.ends);
  CHECK(folded.fingerprint == each.fingerprint);
  CHECK(folded.carried == each.carried);
}

TEST_CASE("each rank that another stands for has a group like its own", "[ccl][folding]") {
  using Groups = std::vector<std::vector<int>>;
  const auto all_reduce_in = [](const Groups& groups) {
    return [groups](RuntimeContext& torch, int rank) {
      distributed::ProcessGroup own = distributed::ProcessGroup::non_member();
      for (const std::vector<int>& ranks : groups) {
        const distributed::ProcessGroup group = torch.distributed.new_group(ranks);
        if (std::ranges::find(ranks, rank) != ranks.end()) own = group;
      }
      if (own.is_non_member()) return;
      torch.distributed.all_reduce(torch.zeros({600}, {.dp = DPPolicy::on_one_pe()}),
                                   {.group = own});
    };
  };
  const Topology topology = round_topology(SipTopology::ring_1d, 6);
  for (const auto& [groups, period] :
       {std::pair(Groups{{0, 1}, {2, 3, 4, 5}}, 2), std::pair(Groups{{0, 3}, {1, 2, 4, 5}}, 1),
        std::pair(Groups{{0, 2, 4}}, 1), std::pair(Groups{{0, 3}}, 1)}) {
    CHECK_THAT(error_of<CollectiveMismatchError>(
                   [&] { simulate(topology, period, all_reduce_in(groups)); }),
               Contains("[KB-C026]"));
  }
  for (const auto& [groups, period] :
       {std::pair(Groups{{0, 1}, {2, 3}, {4, 5}}, 2), std::pair(Groups{{0, 3}, {1, 4}, {2, 5}}, 1),
        std::pair(Groups{{0, 2, 4}}, 2)}) {
    const Run each = simulate(topology, 0, all_reduce_in(groups));
    const Run folded = simulate(topology, period, all_reduce_in(groups));
    CHECK(folded.ends == each.ends);
    CHECK(folded.fingerprint == each.fingerprint);
  }
}

// A mesh: each `tp` neighbours form a group, and so do ranks of the same place in those.
TEST_CASE("groups of neighbours fold by the period of their size", "[ccl][folding]") {
  struct Mesh {
    Topology topology;
    int tp;
  };
  const Mesh mesh = GENERATE(Mesh{round_topology(SipTopology::ring_1d, 12), 3},
                             Mesh{round_topology(SipTopology::ring_1d, 16), 4},
                             Mesh{round_topology(SipTopology::torus_2d, 8, 3), 4},
                             Mesh{round_topology(SipTopology::ring_1d, 16), 8});
  const int ranks = mesh.topology.system.sip_count;
  const Program program = [&](RuntimeContext& torch, int rank) {
    auto& dist = torch.distributed;
    distributed::ProcessGroup neighbours;
    distributed::ProcessGroup alike;
    for (int first = 0; first < ranks; first += mesh.tp) {
      std::vector<int> members(static_cast<std::size_t>(mesh.tp));
      std::iota(members.begin(), members.end(), first);
      const auto group = dist.new_group(members);
      if (rank / mesh.tp * mesh.tp == first) neighbours = group;
    }
    for (int place = 0; place < mesh.tp; ++place) {
      std::vector<int> members;
      for (int i = place; i < ranks; i += mesh.tp) members.push_back(i);
      const auto group = dist.new_group(members);
      if (rank % mesh.tp == place) alike = group;
    }
    const Tensor x = torch.zeros({ranks * 240}, {.dp = DPPolicy::on_one_pe()});
    const Tensor part = torch.zeros({240 * mesh.tp}, {.dp = DPPolicy::on_one_pe()});
    const auto work = dist.all_reduce(x, {.group = neighbours, .async_op = true});
    dist.reduce_scatter_tensor(part, torch.zeros({ranks * 240}, {.dp = DPPolicy::on_one_pe()}),
                               {.group = alike});
    work.wait();
    dist.all_reduce(x, {.group = neighbours});
  };
  const Run each = simulate(mesh.topology, 0, program);
  const Run folded = simulate(mesh.topology, mesh.tp, program);
  CAPTURE(ranks, mesh.tp);
  CHECK(folded.sips_of_each > 1);
  CHECK(folded.ends == each.ends);
  CHECK(folded.fingerprint == each.fingerprint);
}

TEST_CASE("a machine that no shift takes to itself is simulated rank by rank", "[ccl][folding]") {
  const auto sips_of_each = [](const Topology& topology, int fold) {
    return simulate(topology, fold, [](RuntimeContext&, int) {}).sips_of_each;
  };
  CHECK(sips_of_each(round_topology(SipTopology::ring_1d, 4), 1) == 4);
  CHECK(sips_of_each(round_topology(SipTopology::ring_1d, 4), 2) == 2);
  CHECK(sips_of_each(round_topology(SipTopology::ring_1d, 5), 2) == 1);
  CHECK(sips_of_each(round_topology(SipTopology::torus_2d, 4, 2), 2) == 2);
  CHECK(sips_of_each(round_topology(SipTopology::mesh_2d_no_wrap, 2, 2), 1) == 1);
  CHECK(sips_of_each(in_nodes(joined_topology(SipTopology::full_mesh, 6), 2), 1) == 1);
  CHECK(sips_of_each(in_nodes(joined_topology(SipTopology::full_mesh, 6), 2), 2) == 3);
}

}  // namespace
}  // namespace kernbench::test::folding_test
