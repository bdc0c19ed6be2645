#include "runtime/functional/packed_attention.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/functional/attention_of_teams.h"
#include "runtime/functional/attention_parts.h"
#include "runtime/functional/attention_rows.h"
#include "runtime/functional/attention_shares.h"
#include "runtime/functional/attention_teams.h"
#include "runtime/functional/attention_tiles.h"
#include "runtime/functional/packed_rows.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/elements.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::ops {

namespace {

constexpr std::string_view kName = "varlen_attn";

// The softmax of a row's scores and its product with the values, as far as tiles have been seen.
struct RunningSoftmax {
  tl::Tensor largest;  // score of each row
  tl::Tensor sum;      // of exp(score - largest)
  tl::Tensor output;   // the same sum, times the values
};

class Forward {
 public:
  Forward(const PackedAttention& attention, const std::vector<AttentionInputs>& inputs,
          const std::vector<AttentionResult>& results)
      : attention_(attention, parts_of(inputs, &AttentionInputs::query),
                   parts_of(inputs, &AttentionInputs::key),
                   parts_of(inputs, &AttentionInputs::value)),
        output_(kName, parts_of(results, &AttentionResult::output), attention.layout),
        log_sums_(kName, parts_of(results, &AttentionResult::log_sums), attention.layout),
        continues_(attention.continues) {}

  // A tile of keys serves a group of blocks of rows: few keys are loaded, and the softmax of one
  // block overlaps the products of another one (FlashAttention-3, arXiv 2407.08608).  Blocks have
  // fewer rows than tiles have keys, so that less is computed that causal rows do not see.
  void run(tl::Context& tl, const AttentionShare& share) const {
    const std::int64_t tile = attention_.tile(tl);
    const std::int64_t height = std::max<std::int64_t>(tile / 2, 1);
    const std::int64_t count = share.end - share.first;
    const std::int64_t groups = sim::ceil_divide(count, kBlocksOfGroup * height);
    const std::int64_t fold = std::max<std::int64_t>(height / 2, 1);
    const std::int64_t most = sim::ceil_divide(sim::ceil_divide(count, groups), fold) * fold;
    for_each_block_from(share.head, count, most, [&](std::int64_t begin, std::int64_t rows) {
      run_group(tl, share, {share.first + begin, rows}, {height, 2 * tile});
    });
  }

 private:
  static constexpr std::int64_t kBlocksOfGroup = 4;

  struct TileSize {
    std::int64_t rows = 1;
    std::int64_t keys = 1;
  };
  struct Block {
    ScoreTile rows;
    tl::Tensor query;
    std::optional<RunningSoftmax> softmax = std::nullopt;
  };
  struct Keys {
    tl::Tensor key;
    tl::Tensor columns;  // the key, transposed
    tl::Tensor value;
  };

  void run_group(tl::Context& tl, const AttentionShare& share, const ScoreTile& group,
                 const TileSize& size) const {
    const PackedSequence& of = attention_.sequence(share);
    std::vector<Block> blocks;
    for_each_block(group.rows, size.rows, [&](std::int64_t begin, std::int64_t rows) {
      const ScoreTile own{group.row + begin, rows};
      blocks.push_back({own, attention_.query(tl, of, own, share.head)});
      if (continues_) blocks.back().softmax = load_softmax(tl, of, own, share.head);
    });
    const tl::LoadOptions options = attention_.loads_of_keys(share, group.rows);
    const std::int64_t key_head = share.head / attention_.group();
    attention_.for_each_tile_of_keys(of, share, group, size.keys, [&](const ScoreTile& at) {
      const tl::Tensor key = attention_.key(tl, of, at, key_head, options);
      const tl::Tensor value = attention_.value(tl, of, at, key_head, options);
      const Keys keys{key, tl.trans(key), value};
      for (Block& block : blocks) add_tile(tl, of, at, keys, block);
    });
    for (const Block& block : blocks) {
      const std::int64_t row = of.query + block.rows.row;
      const RunningSoftmax& softmax = *block.softmax;
      output_.store(tl, row, share.head, softmax.output / softmax.sum);
      log_sums_.store(tl, row, share.head, softmax.largest + tl.log(softmax.sum));
    }
  }

  // The softmax of keys that are known by their result counts as that of a tile, whose largest
  // score is the logarithm of its sum.
  RunningSoftmax load_softmax(tl::Context& tl, const PackedSequence& of, const ScoreTile& rows,
                              std::int64_t head) const {
    const std::int64_t row = of.query + rows.row;
    return {log_sums_.load(tl, row, rows.rows, head), tl.full({rows.rows, 1}, 1, DType::f32),
            output_.load(tl, row, rows.rows, head)};
  }

  // Adds as many keys of a tile as the last row of the block sees.
  void add_tile(tl::Context& tl, const PackedSequence& of, const ScoreTile& tile, const Keys& keys,
                Block& block) const {
    const std::int64_t seen = attention_.seen_by_last(of, block.rows);
    if (tile.key >= seen) return;
    const ScoreTile at{block.rows.row, block.rows.rows, tile.key,
                       std::min(tile.keys, seen - tile.key)};
    if (at.keys == tile.keys) {
      block.softmax = add_scores(tl, of, at, keys, block);
      return;
    }
    const tl::Tensor key = narrowed(tl, keys.key, {0, at.keys});
    const Keys some{key, tl.trans(key), narrowed(tl, keys.value, {0, at.keys})};
    block.softmax = add_scores(tl, of, at, some, block);
  }

  RunningSoftmax add_scores(tl::Context& tl, const PackedSequence& of, const ScoreTile& at,
                            const Keys& keys, Block& block) const {
    const std::optional<RunningSoftmax> before = std::exchange(block.softmax, std::nullopt);
    tl::Tensor scores = attention_.scores(tl, of, at, tl.dot(block.query, keys.columns), true);
    tl::Tensor largest = tl.max(scores, 1, {.keep_dims = true});
    if (before) largest = tl.maximum(before->largest, largest);
    // One name for each step's values: what is no longer named gives its scratch back.
    scores = scores - largest;
    scores = tl.exp(scores);
    tl::Tensor sum = tl.sum(scores, 1, {.keep_dims = true});
    const tl::Tensor factor = attention_.as_factor(tl, scores);
    if (!before) return {largest, sum, tl.dot(factor, keys.value)};
    const tl::Tensor fading = tl.exp(before->largest - largest);
    return {largest, before->sum * fading + sum,
            tl.dot(factor, keys.value, before->output * fading)};
  }

  AttentionTiles attention_;
  PackedRows output_;
  PackedRows log_sums_;
  bool continues_;
};

class BackwardOfQuery {
 public:
  BackwardOfQuery(const PackedAttention& attention, const BackwardParts& parts, GradientRows rows)
      : attention_(attention, parts.query, parts.key, parts.value),
        rows_(std::move(rows)),
        gradient_(kAttentionBackward, parts.of_query, attention.layout),
        continues_(attention.continues) {}

  void run(tl::Context& tl, const AttentionShare& share) const {
    const PackedSequence& of = attention_.sequence(share);
    const std::int64_t tile = attention_.tile(tl);
    for_each_block_from(
        share.head, share.end - share.first, tile, [&](std::int64_t begin, std::int64_t rows) {
          const std::int64_t row = share.first + begin;
          const ScoreTile own{row, rows};
          const tl::Tensor query = attention_.query(tl, of, own, share.head);
          const tl::Tensor dy = rows_.dy.load(tl, of.query + row, rows, share.head);
          const tl::Tensor log_sums = rows_.log_sums.load(tl, of.query + row, rows, share.head);
          const tl::Tensor products = rows_.products.load(tl, of.query + row, rows, share.head);
          const tl::LoadOptions options = attention_.loads_of_keys(share, tile);
          std::optional<tl::Tensor> sum;
          attention_.for_each_tile_of_keys(of, share, own, tile, [&](const ScoreTile& at) {
            const std::int64_t key_head = share.head / attention_.group();
            const tl::Tensor key = attention_.key(tl, of, at, key_head, options);
            const tl::Tensor value = attention_.value(tl, of, at, key_head, options);
            tl::Tensor ds = attention_.scores(tl, of, at, tl.dot(query, tl.trans(key)), true);
            ds = ds - log_sums;
            ds = tl.exp(ds);
            tl::Tensor of_weights = tl.dot(dy, tl.trans(value));
            of_weights = of_weights - products;
            ds = ds * of_weights;
            const tl::Tensor factor = attention_.as_factor(tl, ds);
            sum = sum ? tl.dot(factor, key, std::move(*sum)) : tl.dot(factor, key);
          });
          tl::Tensor gradient = *sum * attention_.scale();
          if (continues_) {
            gradient = gradient + gradient_.load(tl, of.query + row, rows, share.head);
          }
          gradient_.store(tl, of.query + row, share.head, gradient);
        });
  }

 private:
  AttentionTiles attention_;
  GradientRows rows_;
  PackedRows gradient_;
  bool continues_;
};

class BackwardOfKeys {
 public:
  BackwardOfKeys(const PackedAttention& attention, const BackwardParts& parts, GradientRows rows)
      : attention_(attention, parts.query, parts.key, parts.value),
        rows_(std::move(rows)),
        of_key_(kAttentionBackward, parts.of_key, attention.layout),
        of_value_(kAttentionBackward, parts.of_value, attention.layout),
        depth_(attention.depth) {}

  void run(tl::Context& tl, const AttentionShare& share) const {
    const PackedSequence& of = attention_.sequence(share);
    const std::int64_t tile = attention_.tile(tl);
    for_each_block_from(
        share.head, share.end - share.first, tile, [&](std::int64_t begin, std::int64_t keys) {
          const ScoreTile own{0, 0, share.first + begin, keys};
          const tl::Tensor key = attention_.key(tl, of, own, share.head);
          const tl::Tensor value = attention_.value(tl, of, own, share.head);
          Sums sums{tl.zeros({keys, depth_}, DType::f32), tl.zeros({keys, depth_}, DType::f32)};
          for (std::int64_t i = 0; i < attention_.group(); ++i) {
            const std::int64_t head = share.head * attention_.group() + i;
            attention_.for_each_tile_of_rows(of, head, own, tile, [&](const ScoreTile& at) {
              sums = add_tile(tl, share, at, head, {key, value}, std::move(sums));
            });
          }
          of_key_.store(tl, of.key + own.key, share.head, sums.of_key * attention_.scale());
          of_value_.store(tl, of.key + own.key, share.head, sums.of_value);
        });
  }

 private:
  struct Factors {
    const tl::Tensor& key;
    const tl::Tensor& value;
  };
  struct Sums {
    tl::Tensor of_key;
    tl::Tensor of_value;
  };

  // The scores are turned, so that no tile of them needs to be transposed for a product.
  Sums add_tile(tl::Context& tl, const AttentionShare& share, const ScoreTile& at,
                std::int64_t head, const Factors& own, Sums before) const {
    const PackedSequence& of = attention_.sequence(share);
    const tl::LoadOptions options = attention_.loads_of_rows(share, attention_.tile(tl));
    const std::int64_t row = of.query + at.row;
    const tl::Tensor query = attention_.query(tl, of, at, head, options);
    const tl::Tensor dy = rows_.dy.load(tl, row, at.rows, head, options);
    const Shape as_row{1, at.rows};
    const tl::Tensor log_sums = tl.reshape(rows_.log_sums.load(tl, row, at.rows, head), as_row);
    const tl::Tensor products = tl.reshape(rows_.products.load(tl, row, at.rows, head), as_row);
    tl::Tensor weights = attention_.scores(tl, of, at, tl.dot(own.key, tl.trans(query)), false);
    weights = weights - log_sums;
    weights = tl.exp(weights);
    before.of_value = tl.dot(attention_.as_factor(tl, weights), dy, std::move(before.of_value));
    tl::Tensor ds = tl.dot(own.value, tl.trans(dy));
    ds = ds - products;
    ds = ds * weights;
    before.of_key = tl.dot(attention_.as_factor(tl, ds), query, std::move(before.of_key));
    return before;
  }

  AttentionTiles attention_;
  GradientRows rows_;
  PackedRows of_key_;
  PackedRows of_value_;
  std::int64_t depth_;
};

// Runs a kernel's part of each share on the PE that has it.
template <class Kernel>
void launch_shares(std::string_view name, const std::vector<Tensor>& results,
                   const std::vector<Tensor>& operands, AttentionShares shares, Kernel kernel) {
  launch_on_views(name, results, operands,
                  [results, operands,
                   kept = std::make_shared<const std::pair<AttentionShares, Kernel>>(
                       std::move(shares), std::move(kernel))](tl::Context& tl) {
                    tl.limit_commands_under_way(kCommandsUnderWay);
                    for (const AttentionShare& share : kept->first.at(tl.location())) {
                      kept->second.run(tl, share);
                    }
                  });
}

// Returns the sum of dy times the output for each row and head: [tokens, heads] in f32.
Tensor sum_products(const Tensor& dy, const Tensor& output) {
  const Placement placement = gradient_placement(placement_of(dy), placement_of(output));
  Tensor products =
      make_like(dy, kAttentionBackward, {dy.size(0), dy.size(1)}, DType::f32, placement);
  launch(kAttentionBackward, {products}, {dy, output}, [=](tl::Context& tl) {
    const LocalPart of_dy = local_part(dy, tl);
    const LocalPart of_output = local_part(output, tl);
    const LocalPart into = local_part(products, tl);
    for_each_row_block(tl, of_dy, [&](std::int64_t row, std::int64_t count) {
      const auto load = [&](const LocalPart& from) {
        const tl::Pointer at = from.data + row * from.columns;
        return tl.cast(tl.load(at, {count, from.columns}, at.dtype()), DType::f32);
      };
      tl.store(into.data + row, tl.sum(load(of_dy) * load(of_output), 1));
    });
  });
  return products;
}

}  // namespace

void check_lie_alike(std::string_view name, const AttentionInputs& inputs) {
  for (const Tensor* const x : {&inputs.query, &inputs.key, &inputs.value}) {
    check_is_whole(name, *x);
    const Placement placement = placement_of(*x);
    const auto is_by_rows = [](const Level& level) {
      return level.is_replicate() || level.dimension == 0;
    };
    if (!is_by_rows(placement.cube) || !is_by_rows(placement.pe) ||
        !(placement == placement_of(inputs.query))) {
      refuse_placements(name, inputs.query, *x,
                        "query, key and value lie alike: as copies, or cut by tokens");
    }
  }
}

AttentionResult attend(const PackedAttention& attention, const AttentionInputs& inputs) {
  const Tensor& query = inputs.query;
  const Placement placement = placement_of(query);
  const AttentionResult result{
      make_like(query, kName, query.shape(), query.dtype(), placement),
      make_like(query, kName, {query.size(0), query.size(1)}, DType::f32, placement)};
  attend_into(attention, {inputs}, {result});
  return result;
}

void attend_into(const PackedAttention& attention, const std::vector<AttentionInputs>& inputs,
                 const std::vector<AttentionResult>& results) {
  const std::vector<Tensor> written = joined(
      {parts_of(results, &AttentionResult::output), parts_of(results, &AttentionResult::log_sums)});
  const std::vector<Tensor> operands =
      joined({parts_of(inputs, &AttentionInputs::query), parts_of(inputs, &AttentionInputs::key),
              parts_of(inputs, &AttentionInputs::value)});
  launch_shares(kName, written, operands, share_rows(attention, results.front().output),
                Forward(attention, inputs, results));
}

AttentionGradients attend_backward(const PackedAttention& attention, const AttentionInputs& inputs,
                                   const AttentionResult& result, const Tensor& dy) {
  const auto gradient_of = [&](const Tensor& x) {
    return make_like(x, kAttentionBackward, x.shape(), x.dtype(),
                     gradient_placement(placement_of(dy), placement_of(x)));
  };
  const AttentionGradients gradients{gradient_of(inputs.query), gradient_of(inputs.key),
                                     gradient_of(inputs.value)};
  BackwardParts parts;
  parts.add(inputs, result, dy, gradients);
  attend_backward_into(attention, parts);
  return gradients;
}

void attend_backward_into(const PackedAttention& attention, const BackwardParts& parts) {
  const Tensor& of_key = parts.of_key.front();
  if (auto teams = form_teams(attention, of_key)) {
    attend_backward_in_teams(attention, parts, *std::move(teams));
    return;
  }
  std::vector<Tensor> products;
  for (std::size_t i = 0; i < parts.dy.size(); ++i) {
    products.push_back(sum_products(parts.dy[i], parts.output[i]));
  }
  const auto rows_of = [&](const std::vector<Tensor>& of) {
    return PackedRows(kAttentionBackward, of, attention.layout);
  };
  const GradientRows rows{rows_of(parts.dy), rows_of(parts.log_sums), rows_of(products)};
  const std::vector<Tensor> operands =
      joined({parts.query, parts.key, parts.value, parts.dy, parts.log_sums, products});
  launch_shares(kAttentionBackward, parts.of_query, operands,
                share_rows(attention, parts.of_query.front()),
                BackwardOfQuery(attention, parts, rows));
  launch_shares(kAttentionBackward, joined({parts.of_key, parts.of_value}), operands,
                share_keys(attention, of_key), BackwardOfKeys(attention, parts, rows));
}

}  // namespace kernbench::ops
