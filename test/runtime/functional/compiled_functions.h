// Functions with and without kb::compile: their values, their gradients, and what kernels do.

#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/functional/compile.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::compiled {

using Tensors = std::vector<Tensor>;

// The work that the kernels on a device of one PE have done.
struct Work {
  std::size_t kernels = 0;
  Bytes loaded = 0;
  Bytes stored = 0;

  friend bool operator==(const Work&, const Work&) = default;
};

inline std::ostream& operator<<(std::ostream& out, const Work& work) {
  return out << work.kernels << " kernels, " << work.loaded << " B loaded, " << work.stored
             << " B stored";
}

class Counted : public OperatorsUnderTest {
 public:
  explicit Counted(DType type = DType::f32) : OperatorsUnderTest(free_topology()), dtype(type) {}

  Tensor input(int seed, const Shape& shape = {16, 64}) {
    return tensor(shape, sixteenths(shape.numel(), seed), DPPolicy::on_one_pe(), dtype);
  }
  template <class Action>
  Work of(const Action& action) {
    const std::size_t before = torch.engine().results().size();
    action();
    torch.ahbm.synchronize();
    Work work;
    const auto& results = torch.engine().results();
    for (std::size_t i = before; i < results.size(); ++i) {
      work = {work.kernels + 1, work.loaded + results[i].loaded, work.stored + results[i].stored};
    }
    return work;
  }
  Bytes bytes(std::int64_t tensors, const Shape& shape = {16, 64}) const {
    return tensors * shape.numel() * size_of(dtype);
  }

  DType dtype;
};

struct Case {
  std::string name;
  std::function<Tensor(const Tensor& a, const Tensor& b, const Tensor& row)> of;
  bool is_linear = false;  // also of partial tensors
};

// The bits of each element: -0 is not 0.
inline std::vector<std::uint32_t> bits(const Floats& elements) {
  std::vector<std::uint32_t> all;
  for (const float element : elements) all.push_back(std::bit_cast<std::uint32_t>(element));
  return all;
}

struct Outcome {
  Floats y;
  std::vector<Floats> gradients;
  std::size_t kernels = 0;

  bool has_values_of(const Outcome& other) const {
    const auto same = [](const Floats& a, const Floats& b) { return bits(a) == bits(b); };
    return same(y, other.y) && std::ranges::equal(gradients, other.gradients, same);
  }
};

inline Outcome run(const Case& of, const DPPolicy& dp, DType dtype, bool is_compiled) {
  OperatorsUnderTest dut;
  const auto leaf = [&](const Shape& shape, int seed, const DPPolicy& where) {
    return dut.tensor(shape, sixteenths(shape.numel(), seed), where, dtype).requires_grad_();
  };
  DPPolicy of_row = dp;
  if (dp.cube == kRow) of_row.cube = kR;
  if (dp.pe == kRow) of_row.pe = kR;
  const Tensor a = leaf({4, 12}, 1, dp);
  const Tensor b = leaf({4, 12}, 2, dp);
  const Tensor row = leaf({12}, 3, of_row);
  const Tensor dy = dut.tensor({4, 12}, sixteenths(48, 4), gradient_policy(dp), dtype);
  const Tensor y = is_compiled ? compile(of.of)(a, b, row) : of.of(a, b, row);
  y.backward(y.dtype() == dtype ? dy : dy.to(y.dtype()));
  Outcome outcome{y.to_vector(), {}, 0};
  for (const Tensor& each : {a, b, row}) {
    outcome.gradients.push_back(each.grad().defined() ? each.grad().to_vector() : Floats{});
  }
  outcome.kernels = dut.torch.engine().results().size();
  return outcome;
}

}  // namespace kernbench::test::compiled
