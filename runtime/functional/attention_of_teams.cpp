#include "runtime/functional/attention_of_teams.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/functional/attention_parts.h"
#include "runtime/functional/attention_rows.h"
#include "runtime/functional/attention_shares.h"
#include "runtime/functional/attention_team_tiles.h"
#include "runtime/functional/attention_tiles.h"
#include "runtime/functional/packed_rows.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ops {

namespace {

// The kernels of all teams read and write these tensors.
struct TeamBackward {
  PackedAttention attention;
  PackedRows query;
  PackedRows key;
  PackedRows value;
  PackedRows dy;
  PackedRows output;
  PackedRows log_sums;
  PackedRows of_query;
  PackedRows of_key;
  PackedRows of_value;
  std::optional<PackedRows> sums;  // of the query's gradient in f32; if keys take several passes
  DType dtype = DType::f32;
  AttentionTeams teams;
};

// The part of a team's work that one member does.
class Member {
 public:
  Member(tl::Context& tl, const TeamBackward& of, const AttentionTeam& team,
         runtime::Simulation& simulation)
      : tl_(tl),
        of_(of),
        team_(team),
        count_(std::ssize(team.members)),
        self_(std::ranges::find(team.members, tl.location()) - team.members.begin()),
        ports_(connect(team, self_, simulation)),
        tiles_(tiles_of_team(simulation.machine())) {}

  void run() {
    for (const AttentionUnit& unit : team_.units) run_unit(unit);
    finish_step();
  }

 private:
  // Some stripes of all members, of which each has those with its own number.
  struct Pass {
    PackedSequence of;
    std::int64_t key_head = 0;
    std::int64_t first = 0;
    std::int64_t stripes = 0;
  };
  // The keys of some of the own stripes, one after the other, and the sums of their gradients.
  struct Chunk {
    std::vector<RowRange> stripes;
    std::optional<tl::Tensor> key = std::nullopt;  // loaded when the first rows need it
    std::optional<tl::Tensor> value = std::nullopt;
    SumOfProducts of_key;
    SumOfProducts of_value;
  };
  // A block of rows of a head, and what the rows need beside the query.
  struct Block {
    RowRange rows;  // in the sequence
    tl::Tensor query;
    tl::Tensor query_columns;
    tl::Tensor dy;
    tl::Tensor dy_columns;
    tl::Tensor log_sums;  // [1, rows], as are the products
    tl::Tensor products;  // the sum of dy times the output
  };
  // A block whose parts of the gradient are still to be exchanged.
  struct Step {
    RowRange rows;  // in the packed query
    std::int64_t head = 0;
    bool is_first = false;
    bool is_last = false;
    std::optional<tl::Tensor> part = std::nullopt;
    std::vector<tl::RecvFuture> others = {};
  };

  // The member's ports to another one.
  struct Ports {
    sim::Port out = sim::Direction::east;
    sim::Port in = sim::Direction::east;
  };

  // Queues come first: a PE that has any has less scratch for kernels (ADR-0120).
  static std::vector<Ports> connect(const AttentionTeam& team, std::int64_t self,
                                    runtime::Simulation& simulation) {
    TeamQueues& queues = simulation.attachments().get<TeamQueues>();
    const sim::PeLocation& own = team.members[index(self)];
    std::vector<Ports> ports(team.members.size());
    for (std::size_t i = 0; i < ports.size(); ++i) {
      const sim::PeLocation& other = team.members[i];
      if (other == own) continue;
      ports[i] = {queues.between(simulation.machine(), own, other).out,
                  queues.between(simulation.machine(), other, own).in};
    }
    return ports;
  }

  const TeamTiles& tiles_of_team(sim::Machine& machine) const {
    if (!team_.tiles) {
      team_.tiles = choose_team_tiles(machine, team_.members, of_.attention, of_.dtype);
    }
    return *team_.tiles;
  }

  std::int64_t first_key(std::int64_t stripe, std::int64_t member) const {
    return (stripe * count_ + member) * tiles_.stripe;
  }
  std::int64_t seen_by_last(const PackedSequence& of, const RowRange& rows) const {
    return count_seen_keys(of_.attention, of, rows.first + rows.count - 1);
  }

  // Heads begin with different passes, blocks of rows and chunks of keys, and so at different
  // memories.
  void run_unit(const AttentionUnit& unit) {
    const PackedSequence& sequence = of_.attention.sequences[unit.sequence];
    const std::int64_t stripes = sim::ceil_divide(sequence.key_rows, tiles_.stripe * count_);
    const std::int64_t passes = sim::ceil_divide(stripes, tiles_.pass);
    passes_.clear();
    for (std::int64_t i = 0; i < passes; ++i) {
      const std::int64_t first = (i + unit.key_head) % passes * tiles_.pass;
      passes_.push_back({sequence, unit.key_head, first, std::min(tiles_.pass, stripes - first)});
    }
    for (const Pass& pass : passes_) run_pass(pass);
  }

  void run_pass(const Pass& pass) {
    std::vector<Chunk> chunks = make_chunks(pass);
    const std::int64_t hidden =
        pass.of.query_rows - count_rows_that_see(of_.attention, pass.of, first_key(pass.first, 0));
    const std::int64_t blocks = sim::ceil_divide(pass.of.query_rows, tiles_.rows);
    const std::int64_t first = std::min(hidden / tiles_.rows, blocks);
    for (std::int64_t i = 0; i < of_.attention.group(); ++i) {
      const std::int64_t head = pass.key_head * of_.attention.group() + i;
      for (std::int64_t j = 0; j < blocks - first; ++j) {
        const std::int64_t row = (first + (j + head) % (blocks - first)) * tiles_.rows;
        run_step(head, pass, {row, std::min(tiles_.rows, pass.of.query_rows - row)}, chunks);
      }
    }
    for (const Chunk& chunk : chunks) store_chunk(pass, chunk);
  }

  std::vector<Chunk> make_chunks(const Pass& pass) {
    std::vector<RowRange> own;
    for (std::int64_t i = pass.first; i < pass.first + pass.stripes; ++i) {
      const std::int64_t first = first_key(i, self_);
      if (first >= pass.of.key_rows) break;
      own.push_back({first, std::min(tiles_.stripe, pass.of.key_rows - first)});
    }
    std::vector<Chunk> chunks;
    for_each_block(std::ssize(own), tiles_.chunk, [&](std::int64_t begin, std::int64_t count) {
      std::vector<RowRange> stripes{own.begin() + begin, own.begin() + begin + count};
      const Shape shape{count_rows(stripes), of_.attention.depth};
      chunks.push_back({.stripes = std::move(stripes),
                        .of_key = SumOfProducts(tl_, shape),
                        .of_value = SumOfProducts(tl_, shape)});
    });
    return chunks;
  }

  static std::int64_t count_rows(const std::vector<RowRange>& of) {
    std::int64_t count = 0;
    for (const RowRange& rows : of) count += rows.count;
    return count;
  }

  void load_key(const Pass& pass, Chunk& chunk) {
    if (!chunk.key) chunk.key = load_stripes(of_.key, pass, chunk.stripes);
  }
  tl::Tensor load_stripes(const PackedRows& from, const Pass& pass,
                          const std::vector<RowRange>& stripes) {
    std::vector<tl::Tensor> parts;
    for (const RowRange& stripe : stripes) {
      parts.push_back(
          flat(tl_, from.load(tl_, pass.of.key + stripe.first, stripe.count, pass.key_head)));
    }
    return as_rows(tl_, tl_.cat(parts), of_.attention.depth);
  }

  void store_chunk(const Pass& pass, const Chunk& chunk) {
    const tl::Tensor of_key = chunk.of_key.join(tl_) * of_.attention.scale;
    const tl::Tensor of_value = chunk.of_value.join(tl_);
    std::int64_t done = 0;
    for (const RowRange& stripe : chunk.stripes) {
      const std::int64_t row = pass.of.key + stripe.first;
      const RowRange rows{done, stripe.count};
      of_.of_key.store(tl_, row, pass.key_head, narrowed(tl_, of_key, rows));
      of_.of_value.store(tl_, row, pass.key_head, narrowed(tl_, of_value, rows));
      done += stripe.count;
    }
  }

  // The receives are posted before others need to send, and the step before ends when the arrays
  // have work.
  void run_step(std::int64_t head, const Pass& pass, const RowRange& rows,
                std::vector<Chunk>& chunks) {
    const std::int64_t seen = seen_by_last(pass.of, rows);
    const auto adds = [&](const Pass& other) { return first_key(other.first, 0) < seen; };
    const auto self = passes_.begin() + (&pass - passes_.data());
    Step step{{pass.of.query + rows.first, rows.count},
              head,
              std::none_of(passes_.begin(), self, adds),
              std::none_of(std::next(self), passes_.end(), adds)};
    if (own_rows(rows, self_).count > 0) {
      for (std::int64_t member = 0; member < count_; ++member) {
        if (member != self_ && first_key(pass.first, member) < seen) post(step, member);
      }
    }
    if (first_key(pass.first, self_) < seen) step.part = multiply(head, pass, rows, chunks);
    finish_step();
    step_ = std::move(step);
  }

  // The rows of a block that a member sums.
  RowRange own_rows(const RowRange& of, std::int64_t member) const {
    const std::int64_t each = sim::ceil_divide(of.count, count_);
    const std::int64_t begin = std::min(member * each, of.count);
    return {begin, std::min(each, of.count - begin)};
  }

  void post(Step& step, std::int64_t member) {
    const Shape shape{own_rows(step.rows, self_).count, of_.attention.depth};
    step.others.push_back(tl_.recv_async(ports_[index(member)].in, shape, DType::f32));
  }

  void finish_step() {
    if (!step_) return;
    Step step = std::move(*step_);
    step_.reset();
    if (step.part) send_parts(step);
    const RowRange own = own_rows(step.rows, self_);
    if (own.count == 0) return;
    std::optional<tl::Tensor> sum;
    const auto add = [&](const tl::Tensor& part) { sum = sum ? *sum + part : part; };
    if (step.part) add(narrowed(tl_, *step.part, own));
    step.part.reset();
    for (tl::RecvFuture& other : step.others) add(tl_.wait(other));
    const std::int64_t row = step.rows.first + own.first;
    if (!step.is_first) add(of_.sums->load(tl_, row, own.count, step.head));
    if (step.is_last) {
      tl::Tensor gradient = *sum * of_.attention.scale;
      if (of_.attention.continues) {
        gradient = gradient + of_.of_query.load(tl_, row, own.count, step.head);
      }
      of_.of_query.store(tl_, row, step.head, gradient);
    } else {
      of_.sums->store(tl_, row, step.head, *sum);
    }
  }

  void send_parts(const Step& step) {
    for (std::int64_t i = 1; i < count_; ++i) {
      const std::int64_t member = (self_ + i) % count_;
      const RowRange rows = own_rows(step.rows, member);
      if (rows.count == 0) continue;
      tl_.send(ports_[index(member)].out, narrowed(tl_, *step.part, rows), tl::copy_to);
    }
  }

  Block load_block(std::int64_t head, const Pass& pass, const RowRange& rows) {
    const tl::LoadOptions shared{.is_shared = true};
    const std::int64_t row = pass.of.query + rows.first;
    const auto load = [&](const PackedRows& from) {
      return from.load(tl_, row, rows.count, head, shared);
    };
    const tl::Tensor query = load(of_.query);
    const tl::Tensor query_columns = tl_.trans(query);
    const tl::Tensor dy = load(of_.dy);
    const tl::Tensor products =
        tl_.sum(tl_.cast(load(of_.output), DType::f32) * tl_.cast(dy, DType::f32), 1);
    const Shape as_row{1, rows.count};
    return {rows,
            query,
            query_columns,
            dy,
            tl_.trans(dy),
            tl_.reshape(load(of_.log_sums), as_row),
            tl_.reshape(products, as_row)};
  }

  // Returns the own keys' part of the gradient of these rows, and adds to those of the keys.
  tl::Tensor multiply(std::int64_t head, const Pass& pass, const RowRange& rows,
                      std::vector<Chunk>& chunks) {
    const std::int64_t seen = seen_by_last(pass.of, rows);
    const std::int64_t count = std::ranges::count_if(
        chunks, [&](const Chunk& chunk) { return chunk.stripes.front().first < seen; });
    const auto chunk_at = [&](std::int64_t i) -> Chunk& {
      return chunks[index((i + head) % count)];
    };
    load_key(pass, chunk_at(0));  // first, as the first product needs it
    const Block block = load_block(head, pass, rows);
    std::optional<tl::Tensor> sum;
    for (std::int64_t i = 0; i < count; ++i) {
      Chunk& chunk = chunk_at(i);
      const auto end = std::ranges::find_if(
          chunk.stripes, [&](const RowRange& stripe) { return stripe.first >= seen; });
      const std::vector<RowRange> stripes(chunk.stripes.begin(), end);
      const auto [factor, key] = add_tile(pass, block, stripes, chunk);
      sum = sum ? tl_.dot(factor, key, std::move(*sum)) : tl_.dot(factor, key);
    }
    return *sum;
  }

  // Scores are turned, keys by rows: only one tile of them needs to be transposed for a product.
  // Returns the gradient of the scores, rows by keys, and the keys.
  std::pair<tl::Tensor, tl::Tensor> add_tile(const Pass& pass, const Block& block,
                                             const std::vector<RowRange>& stripes, Chunk& chunk) {
    const RowRange keys{0, count_rows(stripes)};
    load_key(pass, chunk);
    const tl::Tensor key = narrowed(tl_, *chunk.key, keys);
    tl::Tensor weights = tl_.dot(key, block.query_columns) * of_.attention.scale;
    weights = hide(pass, block.rows, stripes, std::move(weights));
    weights = weights - block.log_sums;
    weights = tl_.exp(weights);
    if (!chunk.value) chunk.value = load_stripes(of_.value, pass, chunk.stripes);
    tl::Tensor ds = tl_.dot(narrowed(tl_, *chunk.value, keys), block.dy_columns);
    chunk.of_value.add(tl_, tl_.cast(weights, of_.dtype), block.dy);
    ds = ds - block.products;
    ds = ds * weights;
    const tl::Tensor factor = tl_.cast(ds, of_.dtype);
    chunk.of_key.add(tl_, factor, block.query);
    return {tl_.trans(factor), key};
  }

  // Hides keys that a row does not see.
  tl::Tensor hide(const Pass& pass, const RowRange& rows, const std::vector<RowRange>& stripes,
                  tl::Tensor scores) {
    const std::int64_t seen = count_seen_keys(of_.attention, pass.of, rows.first);
    if (seen >= stripes.back().first + stripes.back().count) return scores;
    std::vector<tl::Tensor> numbers;
    for (const RowRange& stripe : stripes) {
      numbers.push_back(tl_.arange(stripe.first, stripe.first + stripe.count));
    }
    const tl::Tensor keys = tl_.reshape(tl_.cat(numbers), {scores.shape()[0], 1});
    const tl::Tensor last = tl_.arange(seen - 1, seen - 1 + rows.count);
    return tl_.where(keys <= last, scores, -std::numeric_limits<double>::infinity());
  }

  static std::size_t index(std::int64_t member) { return static_cast<std::size_t>(member); }

  tl::Context& tl_;
  const TeamBackward& of_;
  const AttentionTeam& team_;
  const std::int64_t count_;
  const std::int64_t self_;
  const std::vector<Ports> ports_;
  const TeamTiles& tiles_;
  std::vector<Pass> passes_;  // of the unit
  std::optional<Step> step_;
};

}  // namespace

void attend_backward_in_teams(const PackedAttention& attention, const BackwardParts& parts,
                              AttentionTeams teams) {
  const auto rows_of = [&](const std::vector<Tensor>& of) {
    return PackedRows(kAttentionBackward, of, attention.layout);
  };
  const auto placement = placement_of(parts.of_query.front());
  std::vector<Tensor> sums;
  for (const Tensor& query : parts.query) {
    sums.push_back(make_like(query, kAttentionBackward, query.shape(), DType::f32, placement));
  }
  auto kernel = std::make_shared<const TeamBackward>(
      TeamBackward{attention, rows_of(parts.query), rows_of(parts.key), rows_of(parts.value),
                   rows_of(parts.dy), rows_of(parts.output), rows_of(parts.log_sums),
                   rows_of(parts.of_query), rows_of(parts.of_key), rows_of(parts.of_value),
                   rows_of(sums), parts.query.front().dtype(), std::move(teams)});
  const std::vector<Tensor> results = joined({parts.of_key, parts.of_query, parts.of_value, sums});
  const std::vector<Tensor> operands =
      joined({parts.query, parts.key, parts.value, parts.dy, parts.output, parts.log_sums});
  runtime::Simulation& simulation = *parts.query.front().storage()->simulation;
  launch_on_views(kAttentionBackward, results, operands,
                  [results, operands, kernel, &simulation](tl::Context& tl) {
                    tl.limit_commands_under_way(kCommandsUnderWay);
                    const auto team = std::ranges::find_if(kernel->teams, [&](const auto& one) {
                      return std::ranges::find(one.members, tl.location()) != one.members.end();
                    });
                    if (team != kernel->teams.end()) Member(tl, *kernel, *team, simulation).run();
                  });
}

}  // namespace kernbench::ops
