#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "sim_engine/values/data_executor.h"
#include "sim_engine/values/memory_store.h"
#include "test/sim_engine/values/soft_float.h"

namespace kernbench::sim::random_program_test {

namespace {

using soft_float::canonical;
using Elements = std::vector<float>;

// Executes a random program twice at once: on a store, and at once on plain arrays.  The program
// depends on the seed alone.
class RandomProgram {
 public:
  RandomProgram(unsigned seed, bool reads_on_the_way)
      : random_(seed), reads_on_the_way_(reads_on_the_way), dtype_(kDTypes[seed % 3]) {
    for (Memory& memory : memories_) allocate(memory);
    add_literal();
  }

  void step() {
    switch (below(12)) {
      case 0:
        return add_literal();
      case 10:
        return load_rows();
      case 11:
        return store_rows();
      case 1:
      case 2:
        return load(false);
      case 3:
        return load(true);
      case 4:
      case 5:
      case 6:
        return store();
      case 7:
        return compute();
      case 8:
        return rearrange();
      default:
        return forget_or_read();
    }
  }

  // Compares everything that is still there.
  int finish() {
    bind_pending();
    for (const Named& named : values_) check(named);
    for (Memory& memory : memories_) {
      const auto count = static_cast<std::int64_t>(memory.elements.size());
      check({store_.load(memory.region, 0, count), memory.elements});
    }
    return wrong_;
  }

 private:
  struct Memory {
    RegionId region;
    Elements elements;
  };
  struct Named {
    Value value;
    Elements elements;
  };
  struct Pending {
    Value placeholder;
    Value source;
  };

  std::size_t below(std::size_t limit) { return random_() % limit; }
  static std::int64_t as_count(std::size_t value) { return static_cast<std::int64_t>(value); }

  void allocate(Memory& memory) {
    memory.elements.assign(below(40), std::numeric_limits<float>::quiet_NaN());
    memory.region = store_.create_region(dtype_, as_count(memory.elements.size()));
  }

  void add_literal() {
    Elements elements(below(12));
    for (float& element : elements) {
      element = soft_float::round_to(dtype_, static_cast<float>(below(2000)) / 16 - 40);
    }
    const bool constant = below(3) == 0 && !elements.empty();
    if (constant) elements.assign(elements.size(), elements[0]);
    values_.push_back({constant ? store_.constant(dtype_, as_count(elements.size()), elements[0])
                                : store_.literal(dtype_, elements),
                       elements});
  }

  // A load that was issued earlier than it reads has its value bound later.
  void load(bool issued_earlier) {
    const Memory& memory = memories_[below(memories_.size())];
    const std::size_t begin = below(memory.elements.size() + 1);
    const std::size_t count = below(memory.elements.size() - begin + 1);
    Value value = store_.load(memory.region, as_count(begin), as_count(count));
    if (issued_earlier) {
      const Value placeholder = store_.declare(dtype_, value.element_count());
      pending_.push_back({placeholder, value});
      value = placeholder;
    }
    const auto first = memory.elements.begin() + as_count(begin);
    values_.push_back({value, Elements(first, first + as_count(count))});
  }

  void store() {
    const Named& named = values_[below(values_.size())];
    Memory& memory = memories_[below(memories_.size())];
    if (named.elements.size() > memory.elements.size()) return;
    const std::size_t begin = below(memory.elements.size() - named.elements.size() + 1);
    store_.store(memory.region, as_count(begin), named.value);
    std::ranges::copy(named.elements, memory.elements.begin() + as_count(begin));
  }

  // Rows that lie in the memory, at random.
  ElementRange some_rows(const Memory& memory) {
    const std::size_t size = memory.elements.size();
    const std::size_t columns = below(size / 3 + 1);
    const std::size_t pitch = columns + below(5);
    const std::size_t fit = pitch == 0 ? 1 : (size - columns) / pitch + 1;
    const std::size_t rows = below(fit + 1);
    const std::size_t extent = rows == 0 ? 0 : (rows - 1) * pitch + columns;
    return {as_count(below(size - extent + 1)), as_count(columns), as_count(rows), as_count(pitch)};
  }

  void load_rows() {
    const Memory& memory = memories_[below(memories_.size())];
    const ElementRange range = some_rows(memory);
    Elements elements;
    for (std::int64_t i = 0; i < range.rows; ++i) {
      const auto row = memory.elements.begin() + range.row(i).begin;
      elements.insert(elements.end(), row, row + range.columns);
    }
    values_.push_back({store_.load(memory.region, range), elements});
  }

  void store_rows() {
    const Named& named = values_[below(values_.size())];
    Memory& memory = memories_[below(memories_.size())];
    const ElementRange range = some_rows(memory);
    if (range.count() == 0 || range.count() > as_count(named.elements.size())) return;
    store_.store(memory.region, range, store_.slice(named.value, 0, range.count()));
    for (std::int64_t i = 0; i < range.rows; ++i) {
      std::copy_n(named.elements.begin() + i * range.columns, range.columns,
                  memory.elements.begin() + range.row(i).begin);
    }
  }

  void compute() {
    const Named& a = values_[below(values_.size())];
    const Named& b = values_[below(values_.size())];
    if (a.elements.size() != b.elements.size()) return;
    const auto op = static_cast<MathOp>(below(6));
    Elements elements;
    for (std::size_t i = 0; i < a.elements.size(); ++i) {
      elements.push_back(soft_float::math(dtype_, op, a.elements[i], b.elements[i]));
    }
    values_.push_back({store_.math(op, a.value, b.value), elements});
  }

  // An operation along an axis, or of one operand.
  void rearrange() {
    const Named& a = values_[below(values_.size())];
    const std::size_t count = a.elements.size();
    if (count == 0) return;
    const std::size_t length = 1 + below(3);
    const std::size_t inner = count % 3 == 0 ? 3 : 1;
    const AxisForm form{as_count(count / inner), as_count(length), as_count(inner)};
    Elements elements;
    switch (below(3)) {
      case 0:
        for (const float x : a.elements) elements.push_back(-x);
        values_.push_back(
            {store_.math(MathOp::negate, dtype_, std::array{a.value}), std::move(elements)});
        return;
      case 1:
        if (count * length > 40) return;
        for (std::size_t i = 0; i < count * length; ++i) {
          elements.push_back(a.elements[i / (length * inner) * inner + i % inner]);
        }
        values_.push_back(
            {store_.along_axis(AxisOp::broadcast, a.value, form), std::move(elements)});
        return;
      default:
        for (std::size_t i = 0; i < count; ++i) {
          elements.push_back(a.elements[i % (count / inner) * inner + i / (count / inner)]);
        }
        values_.push_back({store_.along_axis(AxisOp::transpose, a.value,
                                             {1, as_count(count / inner), as_count(inner)}),
                           std::move(elements)});
    }
  }

  void forget_or_read() {
    const std::size_t index = below(values_.size());
    const std::size_t choice = below(4);
    if (choice == 0 && values_.size() > 1) {
      values_.erase(values_.begin() + as_count(index));
    } else if (choice == 1) {
      Memory& memory = memories_[below(memories_.size())];
      store_.destroy_region(memory.region);
      allocate(memory);
    } else if (reads_on_the_way_) {
      bind_pending();
      check(values_[index]);
    }
  }

  void bind_pending() {
    for (const Pending& pending : pending_) store_.bind(pending.placeholder, pending.source);
    pending_.clear();
  }

  void check(const Named& named) {
    Elements out(named.elements.size());
    executor_.read(named.value, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      wrong_ += canonical(out[i]) != canonical(named.elements[i]);
    }
  }

  std::mt19937 random_;
  bool reads_on_the_way_;
  DType dtype_;
  MemoryStore store_{true};
  DataExecutor executor_{store_};
  std::array<Memory, 4> memories_;
  std::vector<Named> values_;
  std::vector<Pending> pending_;
  int wrong_ = 0;
};

}  // namespace

TEST_CASE("random programs compute what an interpreter on plain arrays does", "[executor]") {
  const bool reads_on_the_way = GENERATE(true, false);
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomProgram program(seed, reads_on_the_way);
    for (int i = 0; i < 200; ++i) program.step();
    INFO("seed " << seed);
    REQUIRE(program.finish() == 0);
  }
}

}  // namespace kernbench::sim::random_program_test
