#include "runtime/expert_parallel/row_moves.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <span>

#include "runtime/functional/spread_matrix.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"

namespace kernbench::moe {

namespace {

// Rows of the result that each row of the source becomes.
class Targets {
 public:
  Targets(const RowSources& sources, std::int64_t rows_of_source)
      : begins_(static_cast<std::size_t>(rows_of_source) + 1), targets_(sources.size()) {
    for (const std::int64_t source : sources) {
      if (source != kNoRow) ++begins_[static_cast<std::size_t>(source) + 1];
    }
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    std::vector<std::size_t> next(begins_.begin(), std::prev(begins_.end()));
    for (std::size_t row = 0; row < sources.size(); ++row) {
      if (sources[row] == kNoRow) continue;
      targets_[next[static_cast<std::size_t>(sources[row])]++] = static_cast<std::int64_t>(row);
    }
  }

  std::span<const std::int64_t> of(std::int64_t source) const {
    const auto at = static_cast<std::size_t>(source);
    return std::span(targets_).subspan(begins_[at], begins_[at + 1] - begins_[at]);
  }

 private:
  std::vector<std::size_t> begins_;  // by source
  std::vector<std::int64_t> targets_;
};

// Rows of one width that follow each other in the memory of a PE.
struct HeldRows {
  std::int64_t first = 0;
  std::int64_t count = 0;
  tl::Pointer data;
};

// The places of the result's rows that one PE writes: if each holder has a copy, those of its own.
class HeldRowsOf {
 public:
  HeldRowsOf(const ops::SpreadMatrix& matrix, const sim::PeLocation& pe, std::int64_t rows,
             std::int64_t abreast) {
    const auto blocks = matrix.rows_for(pe, 0, rows, 0).blocks;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::int64_t end = i + 1 < blocks.size() ? blocks[i + 1].row : rows;
      held_.push_back(
          {blocks[i].row * abreast, (end - blocks[i].row) * abreast, blocks[i].pointer});
    }
  }

  const HeldRows& holder_of(std::int64_t row) const {
    return *std::prev(std::ranges::upper_bound(held_, row, {}, &HeldRows::first));
  }

 private:
  std::vector<HeldRows> held_;
};

// Moves the rows that one PE has of the source.
class RowMove {
 public:
  RowMove(tl::Context& tl, const HeldRowsOf& held, const Targets& targets, std::int64_t width)
      : tl_(tl), held_(held), targets_(targets), width_(width) {}

  // `from` is where row `first` of the source lies, and `count` rows behind each other.
  void run(const tl::Pointer& from, std::int64_t first, std::int64_t count) {
    const std::int64_t most =
        std::max<std::int64_t>(4 * ops::block_elements(tl_) / std::max<std::int64_t>(width_, 1), 1);
    ops::for_each_block(count, most, [&](std::int64_t begin, std::int64_t rows) {
      move_block(from + begin * width_, first + begin, rows);
    });
  }

 private:
  struct Run {
    std::int64_t source = 0;
    std::int64_t target = 0;
    std::int64_t count = 0;
  };

  void move_block(const tl::Pointer& from, std::int64_t first, std::int64_t rows) {
    // Rows that are wanted nowhere are not loaded, if they are the first or the last of the block.
    std::int64_t begin = first;
    std::int64_t end = first + rows;
    while (begin < end && targets_.of(begin).empty()) ++begin;
    while (begin < end && targets_.of(end - 1).empty()) --end;
    if (begin == end) return;
    const tl::Tensor block =
        tl_.load(from + (begin - first) * width_, {(end - begin) * width_}, from.dtype());
    Run run;
    for (std::int64_t row = begin; row < end; ++row) {
      for (const std::int64_t target : targets_.of(row)) {
        if (follows(run, row, target)) {
          ++run.count;
          continue;
        }
        store(block, begin, run);
        run = {row, target, 1};
      }
    }
    store(block, begin, run);
  }

  bool follows(const Run& run, std::int64_t row, std::int64_t target) const {
    if (run.count == 0 || row != run.source + run.count || target != run.target + run.count) {
      return false;
    }
    const HeldRows& held = held_.holder_of(run.target);
    return target < held.first + held.count;
  }

  void store(const tl::Tensor& block, std::int64_t begin, const Run& run) {
    if (run.count == 0) return;
    const HeldRows& held = held_.holder_of(run.target);
    tl_.store(held.data + (run.target - held.first) * width_,
              tl_.narrow(block, (run.source - begin) * width_, run.count * width_));
  }

  tl::Context& tl_;
  const HeldRowsOf& held_;
  const Targets& targets_;
  const std::int64_t width_;
};

// Zeros where a PE's rows of the result have no source.
void fill_rest(tl::Context& tl, const tl::Pointer& to, std::int64_t width,
               std::span<const std::int64_t> sources) {
  const std::int64_t most =
      std::max<std::int64_t>(ops::block_elements(tl) / std::max<std::int64_t>(width, 1), 1);
  for (auto at = sources.begin(); at != sources.end();) {
    const auto first = std::find(at, sources.end(), kNoRow);
    at = std::find_if(first, sources.end(), [](std::int64_t source) { return source != kNoRow; });
    ops::for_each_block(at - first, most, [&](std::int64_t begin, std::int64_t rows) {
      tl.store(to + (first - sources.begin() + begin) * width,
               tl.zeros({rows * width}, to.dtype()));
    });
  }
}

struct RowsOfSource {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Rows of the source on PEs that have no row of the result, where no kernel runs.
std::vector<RowsOfSource> find_orphans(const Tensor& x, const Tensor& result) {
  std::vector<RowsOfSource> orphans;
  std::set<std::int64_t> found;  // one copy of each
  for (std::size_t i = 0; i < x.shards().size(); ++i) {
    const ShardInfo& shard = x.shards()[i];
    const bool is_orphan = shard.shape.numel() > 0 && result.shards()[i].shape.numel() == 0;
    if (!is_orphan || !found.insert(shard.offset[0]).second) continue;
    orphans.push_back({shard.offset[0], shard.offset[0] + shard.shape[0]});
  }
  return orphans;
}

// A move, as all PEs of its launch know it.
struct MoveOfRows {
  ops::SpreadMatrix source;
  ops::SpreadMatrix result;
  std::vector<RowsOfSource> orphans;
  RowSources sources;
  Targets targets;
  std::int64_t width = 1;
  std::int64_t abreast = 1;            // in a row of the result
  std::int64_t abreast_in_source = 1;  // in a row of the source
};

void move(tl::Context& tl, const Tensor& result, const Tensor& x, const MoveOfRows& of) {
  const ops::LocalPart from = ops::local_part(x, tl);
  const ops::LocalPart into = ops::local_part(result, tl);
  if (into.rows > 0) {
    fill_rest(tl, into.data, of.width,
              std::span(of.sources)
                  .subspan(static_cast<std::size_t>(into.offset[0] * of.abreast),
                           static_cast<std::size_t>(into.rows * of.abreast)));
  }
  const HeldRowsOf held(of.result, tl.location(), result.size(0), of.abreast);
  RowMove rows(tl, held, of.targets, of.width);
  if (from.rows > 0) {
    rows.run(from.data, from.offset[0] * of.abreast_in_source, from.rows * of.abreast_in_source);
  }
  if (into.offset[0] != 0) return;
  for (const auto& [begin, end] : of.orphans) {
    const tl::Pointer data = of.source.rows_for(tl.location(), begin, end, 0).first();
    rows.run(data, begin * of.abreast_in_source, (end - begin) * of.abreast_in_source);
  }
}

}  // namespace

Tensor move_rows(std::string_view name, const Tensor& x, std::int64_t width, RowSources sources,
                 std::int64_t abreast) {
  const std::int64_t rows = std::ssize(sources) / abreast;
  const Tensor result =
      ops::make_like(x, name, {rows, abreast * width}, x.dtype(), ops::placement_of(x));
  if (result.numel() == 0) return result;
  const std::int64_t abreast_in_source = x.size(1) / width;
  Targets targets(sources, x.size(0) * abreast_in_source);
  const auto of = std::make_shared<const MoveOfRows>(MoveOfRows{
      ops::SpreadMatrix(name, x), ops::SpreadMatrix(name, result), find_orphans(x, result),
      std::move(sources), std::move(targets), width, abreast, abreast_in_source});
  ops::launch(name, {result}, {x}, [result, x, of](tl::Context& tl) { move(tl, result, x, *of); });
  return result;
}

}  // namespace kernbench::moe
