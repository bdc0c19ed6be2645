#include "test/ccl/all_reduce_under_test.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <optional>

#include "runtime/torch/run_ranks.h"

namespace kernbench::test {

namespace {

// The number of the summand that a holder brings.
int part_of(const DPPolicy& dp, const Topology& topology, const ShardInfo& shard) {
  const int cube = dp.cube == Shard::partial ? shard.cube : 0;
  const int pe = dp.pe == Shard::partial ? shard.pe : 0;
  return cube * topology.pe_count() + pe;
}

Tensor make_tensor(const AllReduce& all_reduce, RuntimeContext& torch, int rank) {
  torch.ahbm.set_device(rank);
  Tensor x =
      torch.empty(all_reduce.shape, {.dtype = all_reduce.dtype, .dp = all_reduce.dp, .name = "x"});
  for (std::size_t i = 0; all_reduce.summand && i < x.shards().size(); ++i) {
    const ShardInfo& shard = x.shards()[i];
    const int part = part_of(all_reduce.dp, all_reduce.topology, shard);
    std::vector<float> elements;
    for (const std::int64_t position : positions_of(shard, all_reduce.shape)) {
      elements.push_back(all_reduce.summand(rank, part, position));
    }
    x.copy_shard_(i, RuntimeContext::tensor(elements, shard.shape));
  }
  return x;
}

void replicated_if_partial(Shard& shard) {
  if (shard == Shard::partial) shard = Shard::replicate;
}

}  // namespace

float small_integer(int rank, int part, std::int64_t position) {
  std::uint64_t hash = static_cast<std::uint64_t>(rank) * 0x9e3779b97f4a7c15 +
                       static_cast<std::uint64_t>(part) * 0xbf58476d1ce4e5b9 +
                       static_cast<std::uint64_t>(position) * 0x94d049bb133111eb;
  hash = (hash ^ (hash >> 29)) * 0xff51afd7ed558ccd;
  return static_cast<float>(static_cast<int>((hash >> 40) % 3) - 1);
}

std::string AllReduce::text() const {
  const sim::IpcqParams queue = config.ipcq();
  return fmt::format(
      "{}: {} {} x {} SIPs, {} x {} cubes of {} PEs, {} {} [{}], {} depth {} slot {}",
      config.algorithm_name(), name_of(topology.system.topology), topology.system.w,
      topology.system.h, topology.sip.cubes_w, topology.sip.cubes_h, topology.pe_count(),
      to_string(shape), name_of(dtype), to_string(dp), name_of(queue.buffer_kind), queue.depth,
      queue.slot_bytes);
}

AllReduceResult run(const AllReduce& all_reduce) {
  RuntimeContext torch(
      all_reduce.topology,
      {.ccl = all_reduce.config, .data = all_reduce.data, .shuffle_ties = all_reduce.shuffle_ties});
  torch.distributed.init_process_group("ahbm");
  const int world_size = torch.distributed.get_world_size();
  std::vector<Tensor> tensors(static_cast<std::size_t>(world_size));
  run_ranks(torch, world_size, [&](int rank) {
    tensors[static_cast<std::size_t>(rank)] = make_tensor(all_reduce, torch, rank);
  });
  AllReduceResult result;
  const Time begin = torch.engine().now();
  run_ranks(torch, world_size, [&](int rank) {
    for (int i = 0; i < all_reduce.repetitions; ++i) {
      torch.distributed.all_reduce(tensors[static_cast<std::size_t>(rank)]);
    }
  });
  result.took = torch.engine().now() - begin;
  result.now = torch.engine().now();
  result.kernels = torch.engine().last_results();
  result.events = torch.engine().event_count();
  result.fingerprint = torch.engine().fingerprint();
  for (const Tensor& x : tensors) {
    result.shards.push_back(x.shards());
    result.dp.push_back(x.dp());
    result.elements.emplace_back();
    for (std::size_t i = 0; all_reduce.data && i < x.shards().size(); ++i) {
      result.elements.back().push_back(x.shard_to_vector(i));
    }
  }
  return result;
}

std::vector<std::int64_t> positions_of(const ShardInfo& shard, const Shape& shape) {
  std::vector<std::int64_t> positions{0};
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    std::vector<std::int64_t> finer;
    for (const std::int64_t outer : positions) {
      for (std::int64_t i = 0; i < shard.shape[d]; ++i) {
        finer.push_back(outer * shape[d] + shard.offset[d] + i);
      }
    }
    positions = std::move(finer);
  }
  return positions;
}

std::vector<double> summands_of(const AllReduce& all_reduce, std::int64_t position) {
  const Topology& topology = all_reduce.topology;
  const DPPolicy& dp = all_reduce.dp;
  const int cubes = dp.num_cubes == 0 ? topology.cube_count() : dp.num_cubes;
  const int pes = dp.num_pes == 0 ? topology.pe_count() : dp.num_pes;
  std::vector<double> summands;
  for (int rank = 0; rank < topology.system.sip_count; ++rank) {
    for (int cube = 0; cube < (dp.cube == Shard::partial ? cubes : 1); ++cube) {
      for (int pe = 0; pe < (dp.pe == Shard::partial ? pes : 1); ++pe) {
        const int part = cube * topology.pe_count() + pe;
        summands.push_back(static_cast<double>(all_reduce.summand(rank, part, position)));
      }
    }
  }
  return summands;
}

std::string wrong_sums(const AllReduce& all_reduce, const AllReduceResult& result) {
  DPPolicy expected_dp = all_reduce.dp;
  replicated_if_partial(expected_dp.cube);
  replicated_if_partial(expected_dp.pe);
  std::vector<double> sums;
  for (std::int64_t i = 0; i < all_reduce.shape.numel(); ++i) {
    double sum = 0;
    for (const double summand : summands_of(all_reduce, i)) sum += summand;
    // The sum of one repetition is the summand of every rank in the next.
    for (int k = 1; k < all_reduce.repetitions; ++k) sum *= all_reduce.topology.system.sip_count;
    sums.push_back(sum);
  }
  std::vector<bool> is_held(static_cast<std::size_t>(all_reduce.shape.numel()));
  for (std::size_t rank = 0; rank < result.shards.size(); ++rank) {
    if (result.dp[rank] != expected_dp) {
      return fmt::format("{}: rank {} ends as {}", all_reduce.text(), rank,
                         to_string(result.dp[rank]));
    }
    for (std::size_t i = 0; i < result.shards[rank].size(); ++i) {
      const auto positions = positions_of(result.shards[rank][i], all_reduce.shape);
      for (std::size_t k = 0; k < positions.size(); ++k) {
        const float got = result.elements[rank][i].at(k);
        const double wanted = sums[static_cast<std::size_t>(positions[k])];
        is_held[static_cast<std::size_t>(positions[k])] = true;
        if (static_cast<double>(got) == wanted) continue;
        return fmt::format("{}: rank {} shard {} element {} is {}, not {}", all_reduce.text(), rank,
                           i, positions[k], got, wanted);
      }
    }
  }
  const auto held = std::ranges::count(is_held, true);
  if (held == all_reduce.shape.numel()) return "";
  return fmt::format("{}: {} elements have a holder", all_reduce.text(), held);
}

std::string differing_copies(const AllReduce& all_reduce, const AllReduceResult& result) {
  std::vector<std::optional<std::uint32_t>> bits(
      static_cast<std::size_t>(all_reduce.shape.numel()));
  for (std::size_t rank = 0; rank < result.shards.size(); ++rank) {
    for (std::size_t i = 0; i < result.shards[rank].size(); ++i) {
      const auto positions = positions_of(result.shards[rank][i], all_reduce.shape);
      for (std::size_t k = 0; k < positions.size(); ++k) {
        const auto own = std::bit_cast<std::uint32_t>(result.elements[rank][i].at(k));
        auto& first = bits[static_cast<std::size_t>(positions[k])];
        if (!first) first = own;
        if (*first == own) continue;
        return fmt::format("{}: rank {} shard {} element {} differs from another copy",
                           all_reduce.text(), rank, i, positions[k]);
      }
    }
  }
  return "";
}

void check_exact(const AllReduce& all_reduce) {
  const AllReduceResult result = run(all_reduce);
  REQUIRE(wrong_sums(all_reduce, result) == "");
  REQUIRE(differing_copies(all_reduce, result) == "");
}

}  // namespace kernbench::test
