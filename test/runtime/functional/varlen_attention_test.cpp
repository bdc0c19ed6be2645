// Attention over packed sequences: values, gradients, and that placements do not matter.

#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/functional/attention_shares.h"
#include "runtime/functional/attention_teams.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/components/processing_element.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::varlen_attention_test {
namespace {

using nn::attention::varlen_attn;
using Positions = std::vector<std::int64_t>;

struct Sizes {
  Positions queries;
  Positions keys;
  std::int64_t heads;
  std::int64_t key_heads;
  std::int64_t depth;
  bool is_causal;

  Shape query() const { return {queries.back(), heads, depth}; }
  Shape key() const { return {keys.back(), key_heads, depth}; }
};

std::int64_t longest(const Positions& positions) {
  std::int64_t most = 0;
  for (std::size_t i = 1; i < positions.size(); ++i) {
    most = std::max(most, positions[i] - positions[i - 1]);
  }
  return most;
}

Tensor attend(const Sizes& sizes, const Tensor& q, const Tensor& k, const Tensor& v,
              std::optional<double> scale = {}) {
  const auto positions = [](const Positions& of) {
    return RuntimeContext::tensor(of, {std::ssize(of)});
  };
  return varlen_attn(
      q, k, v, positions(sizes.queries), positions(sizes.keys), longest(sizes.queries),
      longest(sizes.keys),
      {.is_causal = sizes.is_causal, .scale = scale, .enable_gqa = sizes.heads != sizes.key_heads});
}

// Sums in double, each with the sum of the magnitudes of what was added.
struct Sums {
  std::vector<double> values;
  std::vector<double> magnitudes;

  explicit Sums(std::int64_t count)
      : values(static_cast<std::size_t>(count)), magnitudes(static_cast<std::size_t>(count)) {}
  void add(std::int64_t at, double value, double magnitude) {
    values[static_cast<std::size_t>(at)] += value;
    magnitudes[static_cast<std::size_t>(at)] += magnitude;
  }
  void add(std::int64_t at, double value) { add(at, value, std::abs(value)); }
};

struct Reference {
  Sums y;
  Sums dq;
  Sums dk;
  Sums dv;
};

// One row of one head after the other, as the formula has it.
class RowByRow {
 public:
  RowByRow(const Sizes& its_sizes, const Floats& q, const Floats& k, const Floats& v,
           const Floats& dy)
      : sizes(its_sizes),
        result{Sums(std::ssize(q)), Sums(std::ssize(q)), Sums(std::ssize(k)), Sums(std::ssize(k))},
        q_(q),
        k_(k),
        v_(v),
        dy_(dy) {
    for (std::size_t s = 0; s + 1 < sizes.queries.size(); ++s) {
      const std::int64_t rows = sizes.queries[s + 1] - sizes.queries[s];
      const std::int64_t keys = sizes.keys[s + 1] - sizes.keys[s];
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t seen = sizes.is_causal ? keys - rows + row + 1 : keys;
        for (std::int64_t head = 0; head < sizes.heads; ++head) {
          add_row(sizes.queries[s] + row, head, sizes.keys[s], seen);
        }
      }
    }
  }

  const Sizes sizes;
  Reference result;

 private:
  double at(const Floats& of, std::int64_t row, std::int64_t i) const {
    return of[static_cast<std::size_t>(row * sizes.depth + i)];
  }
  double dot(const Floats& a, std::int64_t row, const Floats& b, std::int64_t other,
             bool of_magnitudes = false) const {
    double sum = 0;
    for (std::int64_t i = 0; i < sizes.depth; ++i) {
      const double product = at(a, row, i) * at(b, other, i);
      sum += of_magnitudes ? std::abs(product) : product;
    }
    return sum;
  }

  void add_row(std::int64_t token, std::int64_t head, std::int64_t first_key, std::int64_t seen) {
    const std::int64_t d = sizes.depth;
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    const std::int64_t row = token * sizes.heads + head;
    const auto key_row = [&](std::int64_t key) {
      return (first_key + key) * sizes.key_heads + head / (sizes.heads / sizes.key_heads);
    };
    std::vector<double> p;
    double sum = 0;
    for (std::int64_t key = 0; key < seen; ++key) {
      p.push_back(std::exp(scale * dot(q_, row, k_, key_row(key))));
      sum += p.back();
    }
    double of_row = 0;  // sum of dy y
    double size_of_row = 0;
    for (std::int64_t key = 0; key < seen; ++key) {
      double& weight = p[static_cast<std::size_t>(key)];
      weight /= sum;
      of_row += weight * dot(dy_, row, v_, key_row(key));
      size_of_row += weight * dot(dy_, row, v_, key_row(key), true);
    }
    for (std::int64_t key = 0; key < seen; ++key) {
      const double weight = p[static_cast<std::size_t>(key)];
      const double factor = scale * weight * (dot(dy_, row, v_, key_row(key)) - of_row);
      const double size = scale * weight * (dot(dy_, row, v_, key_row(key), true) + size_of_row);
      for (std::int64_t i = 0; i < d; ++i) {
        result.y.add(row * d + i, weight * at(v_, key_row(key), i));
        result.dv.add(key_row(key) * d + i, weight * at(dy_, row, i));
        const double k = at(k_, key_row(key), i);
        const double q = at(q_, row, i);
        result.dq.add(row * d + i, factor * k, size * std::abs(k));
        result.dk.add(key_row(key) * d + i, factor * q, size * std::abs(q));
      }
    }
  }

  const Floats& q_;
  const Floats& k_;
  const Floats& v_;
  const Floats& dy_;
};

// Each rounding is at most 2^-24 of the magnitudes.
void check_sums(const Floats& computed, const Sums& expected, double roundings) {
  REQUIRE(computed.size() == expected.values.size());
  for (std::size_t i = 0; i < computed.size(); ++i) {
    INFO("element " << i << ": " << computed[i] << ", expected " << expected.values[i]);
    CHECK(std::abs(computed[i] - expected.values[i]) <=
          std::ldexp(roundings, -24) * expected.magnitudes[i]);
  }
}

struct Values {
  Floats y;
  Floats dq;
  Floats dk;
  Floats dv;
};

Values run(OperatorsUnderTest& dut, const Sizes& sizes, const DPPolicy& dp) {
  const auto leaf = [&](const Shape& shape, int seed) {
    return dut.tensor(shape, sixteenths(shape.numel(), seed), dp).requires_grad_();
  };
  const Tensor q = leaf(sizes.query(), 1);
  const Tensor k = leaf(sizes.key(), 2);
  const Tensor v = leaf(sizes.key(), 3);
  const Tensor y = attend(sizes, q, k, v);
  CHECK(y.dp() == dp);
  y.backward(dut.tensor(sizes.query(), sixteenths(q.numel(), 4), dp));
  CHECK(k.grad().dp() == dp);
  return {y.to_vector(), q.grad().to_vector(), k.grad().to_vector(), v.grad().to_vector()};
}

const std::vector<Sizes>& all_sizes() {
  static const std::vector<Sizes> all = {
      {{0, 1}, {0, 1}, 1, 1, 1, true},
      {{0, 5, 6, 6, 17}, {0, 5, 6, 6, 17}, 4, 2, 3, true},
      {{0, 5, 9}, {0, 7, 20}, 2, 2, 4, true},
      {{0, 5, 9}, {0, 3, 20}, 3, 1, 4, false},
      {{0}, {0}, 2, 1, 2, true},
      {{0, 0}, {0, 3}, 1, 1, 2, false},
      {{0, 0, 4}, {0, 2, 5}, 1, 1, 2, false},  // the keys of the first sequence are not seen
      {{0, 300, 611}, {0, 300, 611}, 2, 1, 8, true}};
  return all;
}

// The roundings of any order of sums: of a score's products, whose error exp passes on times the
// score, over keys, and over rows; and 32 for the functions.
double count_roundings(const Sizes& sizes) {
  const auto d = static_cast<double>(sizes.depth);
  const double score = 4 * std::sqrt(d);  // elements are at most 2
  return 2 * score * (d + 3) +
         static_cast<double>(longest(sizes.keys) + longest(sizes.queries) * sizes.heads) + 32;
}

TEST_CASE("attention of packed sequences is that of each row, however PEs share tokens",
          "[attention][varlen]") {
  const Bytes scratch = GENERATE(8192, 1 << 21);  // tiles of 8 scores by 8 or fewer, and of 128
  for (const Sizes& sizes : all_sizes()) {
    const Floats q = sixteenths(sizes.query().numel(), 1);
    const Floats k = sixteenths(sizes.key().numel(), 2);
    const Floats v = sixteenths(sizes.key().numel(), 3);
    const Floats dy = sixteenths(sizes.query().numel(), 4);
    const Reference expected = RowByRow(sizes, q, k, v, dy).result;
    Topology topology = six_pe_topology();
    topology.pe.tcm.capacity = scratch;
    OperatorsUnderTest dut(topology);
    for (const DPPolicy& dp : {DPPolicy::on_one_pe(), on_all(kRow, kRow), on_pes(kRow),
                               on_all(kR, kRow), on_all(kRow, kR), on_all(kR, kR)}) {
      INFO(to_string(dp));
      const Values computed = run(dut, sizes, dp);
      check_sums(computed.y, expected.y, count_roundings(sizes));
      check_sums(computed.dq, expected.dq, count_roundings(sizes));
      check_sums(computed.dk, expected.dk, count_roundings(sizes));
      check_sums(computed.dv, expected.dv, count_roundings(sizes));
    }
  }
}

TEST_CASE("a scale of 0 gives the mean of the values that a row sees", "[attention][varlen]") {
  OperatorsUnderTest dut;
  const Sizes sizes{{0, 4}, {0, 4}, 1, 1, 1, true};
  const Tensor x = dut.tensor({4, 1, 1}, {8, 4, 0, 4});
  CHECK(attend(sizes, x, x, x, 0.0).to_vector() == Floats{8, 6, 4, 4});
}

// The products of each PE, in scores.
TEST_CASE("PEs share a causal sequence in parts of equal work", "[attention][varlen]") {
  OperatorsUnderTest dut;
  ops::PackedAttention attention;
  attention.sequences = {{0, 4096, 0, 4096}};
  attention.heads = attention.key_heads = 2;
  attention.is_causal = true;
  const Tensor x = dut.torch.empty({4096, 2, 1}, {.dp = on_all(kRow, kRow)});
  for (const bool are_keys : {false, true}) {
    const ops::AttentionShares shares =
        are_keys ? ops::share_keys(attention, x) : ops::share_rows(attention, x);
    std::int64_t rows = 0;
    const std::int64_t all = std::int64_t{2} * 4096 * 4097 / 2;
    for (const ShardInfo& shard : x.shards()) {
      std::int64_t scores = 0;
      for (const ops::AttentionShare& share : shares.at({shard.sip, shard.cube, shard.pe})) {
        rows += share.end - share.first;
        for (std::int64_t i = share.first; i < share.end; ++i)
          scores += are_keys ? 4096 - i : i + 1;
      }
      // A part ends at rows of the array: at most so many rows of 4,096 scores too many or few.
      const std::int64_t unit = dut.torch.topology().pe.gemm.rows * std::int64_t{4096};
      CHECK(std::abs(scores - all / 6) <= unit);
    }
    CHECK(rows == 2 * 4096);
  }
}

// Each pair is the size of a team and the number of its units.
TEST_CASE("PEs form the teams in which the busiest has the least work", "[attention][varlen]") {
  OperatorsUnderTest dut;
  const std::int64_t fold = dut.torch.topology().pe.gemm.rows;
  const auto teams_of = [&](std::int64_t heads, std::int64_t rows, std::int64_t other_rows) {
    ops::PackedAttention attention;
    attention.sequences = {{0, rows, 0, rows}, {rows, other_rows, rows, other_rows}};
    attention.heads = attention.key_heads = heads;
    return ops::form_teams(attention, dut.torch.empty({96, heads, 1}, {.dp = on_all(kRow, kRow)}));
  };
  using Teams = std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>>;
  const auto sizes = [&](std::int64_t heads, std::int64_t rows) {
    Teams all;
    const auto teams = teams_of(heads, rows, rows);
    REQUIRE(teams);
    for (const ops::AttentionTeam& team : *teams) {
      all.emplace_back(std::ssize(team.members), std::ssize(team.units));
    }
    return all;
  };
  CHECK(sizes(1, 6 * fold) == Teams{{3, 1}, {3, 1}});
  CHECK(sizes(3, 6 * fold) == Teams(6, {1, 1}));
  CHECK(sizes(2, 6 * fold) == Teams{{3, 2}, {3, 2}});  // rather than 4 of 6 PEs
  CHECK(sizes(1, 1) == Teams(2, {1, 1}));              // one row of the array needs one PE
  CHECK_FALSE(teams_of(1, 6 * fold, fold));
}

// A queue's slots leave one PE half of the scratch of the others.
TEST_CASE("members of a team with unlike scratch use the same tiles", "[attention][varlen]") {
  const Sizes sizes{{0, 96}, {0, 96}, 1, 1, 8, true};
  Topology topology = six_pe_topology();
  topology.pe.tcm.capacity = 1 << 16;
  topology.communication.scratch = 0;
  OperatorsUnderTest dut(topology);
  sim::Machine& machine = simulation_of(dut.torch).machine();
  const Bytes slot = 1 << 15;
  machine.connect({{0, 1, 0}, sim::Direction::east, {0, 0, 0}, sim::Direction::west},
                  {.depth = 1, .slot_bytes = slot});
  CHECK(machine.pe({0, 0, 0}).scratch_capacity(false) + slot ==
        machine.pe({0, 1, 0}).scratch_capacity(false));
  const Reference expected =
      RowByRow(sizes, sixteenths(sizes.query().numel(), 1), sixteenths(sizes.key().numel(), 2),
               sixteenths(sizes.key().numel(), 3), sixteenths(sizes.query().numel(), 4))
          .result;
  const Values computed = run(dut, sizes, on_all(kRow, kRow));
  check_sums(computed.dq, expected.dq, count_roundings(sizes));
  check_sums(computed.dk, expected.dk, count_roundings(sizes));
  check_sums(computed.dv, expected.dv, count_roundings(sizes));
}

TEST_CASE("what does not fit packed attention is refused", "[attention][varlen]") {
  OperatorsUnderTest dut;
  const auto refused = [&](const Sizes& sizes) {
    return error([&] {
      attend(sizes, dut.tensor(sizes.query(), sixteenths(sizes.query().numel(), 1)),
             dut.tensor(sizes.key(), sixteenths(sizes.key().numel(), 2)),
             dut.tensor(sizes.key(), sixteenths(sizes.key().numel(), 3)));
    });
  };
  using Catch::Contains;
  CHECK_THAT(refused({{0, 4}, {0, 4}, 3, 2, 1, true}), Contains("KB-F001") && Contains("divide"));
  CHECK_THAT(refused({{0, 4}, {0, 3}, 1, 1, 1, true}),
             Contains("4 rows of the query and 3 keys: some rows would see none"));
  CHECK_THAT(refused({{0, 2, 4}, {0, 4}, 1, 1, 1, true}), Contains("2 sequences, and cu_seq_k 1"));
  CHECK_THAT(refused({{0, 3, 2, 4}, {0, 3, 3, 4}, 1, 1, 1, true}), Contains("must ascend"));

  const Tensor x = dut.tensor({4, 1, 1}, {1, 2, 3, 4});
  const Tensor host = RuntimeContext::tensor(Positions{0, 4}, {2});
  const Tensor device = dut.torch.tensor(Positions{0, 4}, {2}, {});
  CHECK_THAT(error([&] { varlen_attn(x, x, x, device, host, 4, 4); }), Contains("host tensor"));
  CHECK_THAT(error([&] { varlen_attn(x, x, x, host, host, 3, 4); }),
             Contains("4 tokens, more than max_q = 3"));
  const Tensor columns = dut.tensor({4, 1, 4}, Floats(16, 1), on_pes(kColumn));
  CHECK_THAT(error([&] { varlen_attn(columns, columns, columns, host, host, 4, 4); }),
             Contains("KB-F003") && Contains("cut by tokens"));
  CHECK_THAT(error([&] { varlen_attn(host, host, host, host, host, 4, 4); }), Contains("KB-M019"));
}

}  // namespace
}  // namespace kernbench::test::varlen_attention_test
