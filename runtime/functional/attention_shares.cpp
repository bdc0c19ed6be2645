#include "runtime/functional/attention_shares.h"

#include <algorithm>
#include <functional>

#include "runtime/ops/placement.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ops {

std::int64_t count_seen_keys(const PackedAttention& attention, const PackedSequence& of,
                             std::int64_t row) {
  return attention.is_causal ? of.key_rows - of.query_rows + row + 1 : of.key_rows;
}

std::int64_t count_rows_that_see(const PackedAttention& attention, const PackedSequence& of,
                                 std::int64_t key) {
  if (!attention.is_causal) return of.query_rows;
  return of.query_rows - std::max<std::int64_t>(key - (of.key_rows - of.query_rows), 0);
}

std::vector<std::vector<sim::PeLocation>> find_holders_of_copies(const Tensor& tensor) {
  const Placement placement = placement_of(tensor);
  std::map<std::pair<int, int>, std::vector<sim::PeLocation>> groups;
  for (const ShardInfo& shard : tensor.shards()) {
    if (shard.shape.numel() == 0) continue;
    const std::pair copy(placement.cube.is_cut() ? 0 : shard.cube,
                         placement.pe.is_cut() ? 0 : shard.pe);
    groups[copy].push_back({shard.sip, shard.cube, shard.pe});
  }
  std::vector<std::vector<sim::PeLocation>> all;
  for (auto& [copy, pes] : groups) all.push_back(std::move(pes));
  return all;
}

namespace {

// All rows that are to be computed, in units of consecutive rows of one head.
class SharedWork {
 public:
  struct Unit {
    AttentionShare rows;
    std::int64_t cost = 0;
  };
  // The rows of a sequence, and the cost of each.
  using CountRows = std::function<std::int64_t(const PackedSequence& of)>;
  using Cost = std::function<std::int64_t(const PackedSequence& of, std::int64_t row)>;

  SharedWork(const PackedAttention& attention, std::int64_t heads, const CountRows& count_rows,
             const Cost& cost, std::int64_t rows_of_unit) {
    for (std::size_t s = 0; s < attention.sequences.size(); ++s) {
      const PackedSequence& of = attention.sequences[s];
      std::vector<Unit> units;
      for (std::int64_t first = 0; first < count_rows(of); first += rows_of_unit) {
        const std::int64_t end = std::min(first + rows_of_unit, count_rows(of));
        units.push_back({{s, 0, first, end}});
        for (std::int64_t row = first; row < end; ++row) {
          // A row that sees nothing is stored too.
          units.back().cost += std::max<std::int64_t>(cost(of, row), 1);
        }
      }
      for (std::int64_t head = 0; head < heads; ++head) {
        for (Unit& unit : units) {
          unit.rows.head = head;
          units_.push_back(unit);
          cost_ += unit.cost;
        }
      }
    }
  }

  // A unit belongs to the PE in whose stretch its middle lies.
  void share(const std::vector<sim::PeLocation>& pes, AttentionShares& shares) const {
    for (const sim::PeLocation& pe : pes) shares[pe];
    std::int64_t before = 0;
    for (const Unit& unit : units_) {
      const std::int64_t middle = before + unit.cost / 2;
      const auto index =
          static_cast<std::size_t>(static_cast<double>(middle) * static_cast<double>(pes.size()) /
                                   static_cast<double>(cost_));
      std::vector<AttentionShare>& own = shares[pes[std::min(index, pes.size() - 1)]];
      const bool follows = !own.empty() && own.back().sequence == unit.rows.sequence &&
                           own.back().head == unit.rows.head;
      follows ? void(own.back().end = unit.rows.end) : own.push_back(unit.rows);
      before += unit.cost;
    }
  }

 private:
  std::vector<Unit> units_;
  std::int64_t cost_ = 0;
};

AttentionShares share_work(const PackedAttention& attention, const Tensor& result,
                           std::int64_t heads, const SharedWork::CountRows& count_rows,
                           const SharedWork::Cost& cost) {
  AttentionShares shares;
  const GemmSpec& array = result.storage()->simulation->machine().topology().pe.gemm;
  std::int64_t rows = 0;
  for (const PackedSequence& of : attention.sequences) rows += count_rows(of);
  for (const std::vector<sim::PeLocation>& group : find_holders_of_copies(result)) {
    // Whole rows of the array where each PE can have some, and fewer where there are few rows.
    const std::int64_t each = rows * heads / std::ssize(group);
    const std::int64_t unit = std::clamp<std::int64_t>(each, 1, array.rows);
    SharedWork(attention, heads, count_rows, cost, unit).share(group, shares);
  }
  return shares;
}

}  // namespace

AttentionShares share_rows(const PackedAttention& attention, const Tensor& result) {
  return share_work(
      attention, result, attention.heads, [](const PackedSequence& of) { return of.query_rows; },
      [&](const PackedSequence& of, std::int64_t row) {
        return count_seen_keys(attention, of, row);
      });
}

AttentionShares share_keys(const PackedAttention& attention, const Tensor& result) {
  return share_work(
      attention, result, attention.key_heads, [](const PackedSequence& of) { return of.key_rows; },
      [&](const PackedSequence& of, std::int64_t key) {
        return count_rows_that_see(attention, of, key);
      });
}

}  // namespace kernbench::ops
