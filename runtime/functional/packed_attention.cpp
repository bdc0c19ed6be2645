#include "runtime/functional/packed_attention.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/functional/attention_shares.h"
#include "runtime/functional/packed_rows.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/elements.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::ops {

namespace {

constexpr std::string_view kName = "varlen_attn";
constexpr std::string_view kBackward = "varlen_attn_backward";

// The commands of about four tiles: loads of the next tiles run while the arrays work.
constexpr int kCommandsUnderWay = 64;

// The rows and columns of a tile of scores, as large as scratch allows.
std::int64_t choose_tile(const tl::Context& tl, std::int64_t depth, DType dtype) {
  constexpr std::int64_t kScores = 5;   // tiles of scores in f32 that exist at a time
  constexpr std::int64_t kSums = 3;     // tiles of rows in f32
  constexpr std::int64_t kFactors = 8;  // tiles of rows in the operands' type, three of them ahead
  const Bytes scratch = tl.run().scratch_capacity();
  const auto fits = [&](std::int64_t tile) {
    const Bytes in_f32 = (kScores * tile + kSums * depth) * tile * size_of(DType::f32);
    return in_f32 + kFactors * depth * tile * size_of(dtype) <= scratch;
  };
  std::int64_t tile = 128;
  while (tile > 1 && !fits(tile)) tile /= 2;
  return tile;
}

// A tile of scores of one head: these rows of a sequence's query and of its keys.
struct ScoreTile {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t key = 0;
  std::int64_t keys = 0;
};

class Attention {
 public:
  Attention(const PackedAttention& attention, const AttentionInputs& inputs)
      : attention_(attention),
        query_(kName, inputs.query),
        key_(kName, inputs.key),
        value_(kName, inputs.value),
        dtype_(inputs.query.dtype()) {}

  const PackedSequence& sequence(const AttentionShare& share) const {
    return attention_.sequences[share.sequence];
  }
  std::int64_t group() const { return attention_.group(); }
  std::int64_t tile(const tl::Context& tl) const {
    return choose_tile(tl, attention_.depth, dtype_);
  }

  tl::Tensor query(tl::Context& tl, const PackedSequence& of, const ScoreTile& at,
                   std::int64_t head, const tl::LoadOptions& options = {}) const {
    return query_.load(tl, of.query + at.row, at.rows, head, options);
  }
  tl::Tensor key(tl::Context& tl, const PackedSequence& of, const ScoreTile& at,
                 std::int64_t key_head, const tl::LoadOptions& options = {}) const {
    return key_.load(tl, of.key + at.key, at.keys, key_head, options);
  }
  tl::Tensor value(tl::Context& tl, const PackedSequence& of, const ScoreTile& at,
                   std::int64_t key_head, const tl::LoadOptions& options = {}) const {
    return value_.load(tl, of.key + at.key, at.keys, key_head, options);
  }

  // Keys and values that several blocks of rows need come by way of SRAM.
  tl::LoadOptions loads_of_keys(const AttentionShare& share, std::int64_t tile) const {
    const std::int64_t rows = sequence(share).query_rows;
    return {.is_shared = group() > 1 || rows > tile || rows > share.end - share.first};
  }
  // Rows that several blocks of keys need come by way of SRAM.
  tl::LoadOptions loads_of_rows(const AttentionShare& share, std::int64_t tile) const {
    const std::int64_t keys = sequence(share).key_rows;
    return {.is_shared = keys > tile || keys > share.end - share.first};
  }

  // Calls use(tile) for the tiles of keys that some of these rows see.  Each head begins at another
  // tile, since PEs that begin at the same one wait for the memory that has it.  Tiles that not all
  // rows see are last, so that each row has a score when it comes to keys that are hidden from it.
  template <class Use>
  void for_each_tile_of_keys(const PackedSequence& of, const AttentionShare& share,
                             const ScoreTile& rows, std::int64_t size, const Use& use) const {
    const std::int64_t seen_by_all = count_seen_keys(attention_, of, rows.row);
    const std::int64_t seen = count_seen_keys(attention_, of, rows.row + rows.rows - 1);
    const std::int64_t whole =
        seen_by_all == of.key_rows ? sim::ceil_divide(seen, size) : seen_by_all / size;
    for (std::int64_t i = 0; i * size < seen; ++i) {
      const std::int64_t key = (i < whole ? (i + share.head) % whole : i) * size;
      use(ScoreTile{rows.row, rows.rows, key, std::min(size, of.key_rows - key)});
    }
  }
  // Calls use(tile) for the tiles of rows that see some of these keys, likewise.
  template <class Use>
  void for_each_tile_of_rows(const PackedSequence& of, std::int64_t head, const ScoreTile& keys,
                             std::int64_t size, const Use& use) const {
    const std::int64_t first =
        (of.query_rows - count_rows_that_see(attention_, of, keys.key)) / size;
    const std::int64_t count = sim::ceil_divide(of.query_rows, size) - first;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = (first + (i + head) % count) * size;
      use(ScoreTile{row, std::min(size, of.query_rows - row), keys.key, keys.keys});
    }
  }

  // Scales products of rows and keys, or of keys and rows, and hides keys that a row does not see.
  tl::Tensor scores(tl::Context& tl, const PackedSequence& of, const ScoreTile& at,
                    const tl::Tensor& products, bool are_rows_first) const {
    tl::Tensor scaled = products * attention_.scale;
    if (count_seen_keys(attention_, of, at.row) >= at.key + at.keys) return scaled;
    const std::int64_t last = of.key_rows - of.query_rows + at.row;  // key that the first row sees
    const tl::Tensor seen = tl.arange(last, last + at.rows);
    const tl::Tensor keys = tl.arange(at.key, at.key + at.keys);
    const tl::Tensor mask = are_rows_first ? keys <= tl.reshape(seen, {at.rows, 1})
                                           : tl.reshape(keys, {at.keys, 1}) <= seen;
    return tl.where(mask, scaled, -std::numeric_limits<double>::infinity());
  }

  tl::Tensor as_factor(tl::Context& tl, const tl::Tensor& x) const { return tl.cast(x, dtype_); }
  double scale() const { return attention_.scale; }

 private:
  PackedAttention attention_;
  PackedRows query_;
  PackedRows key_;
  PackedRows value_;
  DType dtype_;
};

// The softmax of a row's scores and its product with the values, as far as tiles have been seen.
struct RunningSoftmax {
  tl::Tensor largest;  // score of each row
  tl::Tensor sum;      // of exp(score - largest)
  tl::Tensor output;   // the same sum, times the values
};

class Forward {
 public:
  Forward(const PackedAttention& attention, const AttentionInputs& inputs,
          const AttentionResult& result)
      : attention_(attention, inputs),
        output_(kName, result.output),
        log_sums_(kName, result.log_sums) {}

  void run(tl::Context& tl, const AttentionShare& share) const {
    const PackedSequence& of = attention_.sequence(share);
    const std::int64_t tile = attention_.tile(tl);
    for_each_block(share.end - share.first, tile, [&](std::int64_t begin, std::int64_t rows) {
      const std::int64_t row = share.first + begin;
      const ScoreTile own{row, rows};
      const tl::Tensor query = attention_.query(tl, of, own, share.head);
      std::optional<RunningSoftmax> softmax;
      attention_.for_each_tile_of_keys(of, share, own, tile, [&](const ScoreTile& at) {
        softmax = add_tile(tl, share, at, query, std::move(softmax));
      });
      output_.store(tl, of.query + row, share.head, softmax->output / softmax->sum);
      log_sums_.store(tl, of.query + row, share.head, softmax->largest + tl.log(softmax->sum));
    });
  }

 private:
  RunningSoftmax add_tile(tl::Context& tl, const AttentionShare& share, const ScoreTile& at,
                          const tl::Tensor& query, std::optional<RunningSoftmax> before) const {
    const PackedSequence& of = attention_.sequence(share);
    const tl::LoadOptions options = attention_.loads_of_keys(share, attention_.tile(tl));
    const std::int64_t key_head = share.head / attention_.group();
    const tl::Tensor key = attention_.key(tl, of, at, key_head, options);
    const tl::Tensor value = attention_.value(tl, of, at, key_head, options);
    tl::Tensor scores = attention_.scores(tl, of, at, tl.dot(query, tl.trans(key)), true);
    tl::Tensor largest = tl.max(scores, 1, {.keep_dims = true});
    if (before) largest = tl.maximum(before->largest, largest);
    // One name for each step's values: what is no longer named gives its scratch back.
    scores = scores - largest;
    scores = tl.exp(scores);
    tl::Tensor sum = tl.sum(scores, 1, {.keep_dims = true});
    const tl::Tensor factor = attention_.as_factor(tl, scores);
    if (!before) return {largest, sum, tl.dot(factor, value)};
    const tl::Tensor fading = tl.exp(before->largest - largest);
    return {largest, before->sum * fading + sum, tl.dot(factor, value, before->output * fading)};
  }

  Attention attention_;
  PackedRows output_;
  PackedRows log_sums_;
};

// The gradient's inputs besides query, key and value.
struct GradientRows {
  PackedRows dy;
  PackedRows log_sums;
  PackedRows products;  // of each row and head, the sum of dy times the output
};

class BackwardOfQuery {
 public:
  BackwardOfQuery(const PackedAttention& attention, const AttentionInputs& inputs,
                  GradientRows rows, const Tensor& gradient)
      : attention_(attention, inputs), rows_(std::move(rows)), gradient_(kBackward, gradient) {}

  void run(tl::Context& tl, const AttentionShare& share) const {
    const PackedSequence& of = attention_.sequence(share);
    const std::int64_t tile = attention_.tile(tl);
    for_each_block(share.end - share.first, tile, [&](std::int64_t begin, std::int64_t rows) {
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
      gradient_.store(tl, of.query + row, share.head, *sum * attention_.scale());
    });
  }

 private:
  Attention attention_;
  GradientRows rows_;
  PackedRows gradient_;
};

class BackwardOfKeys {
 public:
  BackwardOfKeys(const PackedAttention& attention, const AttentionInputs& inputs, GradientRows rows,
                 const Tensor& of_key, const Tensor& of_value)
      : attention_(attention, inputs),
        rows_(std::move(rows)),
        of_key_(kBackward, of_key),
        of_value_(kBackward, of_value),
        depth_(attention.depth) {}

  void run(tl::Context& tl, const AttentionShare& share) const {
    const PackedSequence& of = attention_.sequence(share);
    const std::int64_t tile = attention_.tile(tl);
    for_each_block(share.end - share.first, tile, [&](std::int64_t begin, std::int64_t keys) {
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

  Attention attention_;
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
  Tensor products = make_like(dy, kBackward, {dy.size(0), dy.size(1)}, DType::f32, placement);
  launch(kBackward, {products}, {dy, output}, [=](tl::Context& tl) {
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

AttentionResult attend(const PackedAttention& attention, const AttentionInputs& inputs) {
  const Tensor& query = inputs.query;
  const Placement placement = placement_of(query);
  const AttentionResult result{
      make_like(query, kName, query.shape(), query.dtype(), placement),
      make_like(query, kName, {query.size(0), query.size(1)}, DType::f32, placement)};
  launch_shares(kName, {result.output, result.log_sums}, {query, inputs.key, inputs.value},
                share_rows(attention, result.output), Forward(attention, inputs, result));
  return result;
}

AttentionGradients attend_backward(const PackedAttention& attention, const AttentionInputs& inputs,
                                   const AttentionResult& result, const Tensor& dy) {
  const auto gradient_of = [&](const Tensor& x) {
    return make_like(x, kBackward, x.shape(), x.dtype(),
                     gradient_placement(placement_of(dy), placement_of(x)));
  };
  const AttentionGradients gradients{gradient_of(inputs.query), gradient_of(inputs.key),
                                     gradient_of(inputs.value)};
  const Tensor products = sum_products(dy, result.output);
  const GradientRows rows{{kBackward, dy}, {kBackward, result.log_sums}, {kBackward, products}};
  const std::vector<Tensor> operands = {inputs.query, inputs.key,      inputs.value,
                                        dy,           result.log_sums, products};
  launch_shares(kBackward, {gradients.query}, operands, share_rows(attention, gradients.query),
                BackwardOfQuery(attention, inputs, rows, gradients.query));
  launch_shares(kBackward, {gradients.key, gradients.value}, operands,
                share_keys(attention, gradients.key),
                BackwardOfKeys(attention, inputs, rows, gradients.key, gradients.value));
  return gradients;
}

}  // namespace kernbench::ops
