// What a public entry is called with: objects of all kinds, most of them wrong, drawn by a seed.
// Both ranks draw the same, so that what they call agrees.

#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/functional/functional.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/nn/layers.h"
#include "runtime/torch/runtime_context.h"
#include "test/fuzz/random.h"

namespace kernbench::test::wrong_objects {

// A context of two ranks that lives as long as a test, or has ended, and what it made.
struct Elsewhere {
  Tensor tensor;
  Tensor leaf;
  ahbm::Stream stream;
  ahbm::Event event;
  distributed::ProcessGroup group;
  nn::Linear linear = nullptr;
};

// A tensor of a kind, with the kind's name for reports.
struct Kind {
  std::string_view name;
  Tensor tensor;
};

// The objects of one rank.
struct Pool {
  std::vector<Kind> tensors;
  std::vector<ahbm::Stream> streams;
  std::vector<ahbm::Event> events;
  std::vector<distributed::ProcessGroup> groups;
  std::vector<nn::Linear> linears;
};

// Makes the objects of the calling rank; `elsewhere` are of other contexts.
Pool make_pool(RuntimeContext& torch, const std::vector<const Elsewhere*>& elsewhere);

class Given {
 public:
  Given(RuntimeContext& its_torch, int its_rank, Pool pool, std::uint64_t seed)
      : torch(its_torch), rank(its_rank), pool_(std::move(pool)), random_(seed) {}

  RuntimeContext& torch;
  const int rank;

  // Half of the tensors are right for most calls, so that the others are looked at, too.
  const Tensor& tensor();
  std::vector<Tensor> tensors();
  const ahbm::Stream& stream() { return random_.pick(pool_.streams); }
  const ahbm::Event& event() { return random_.pick(pool_.events); }
  const distributed::ProcessGroup& group() { return random_.pick(pool_.groups); }
  const nn::Linear& linear() { return random_.pick(pool_.linears); }
  int dim() { return static_cast<int>(random_.pick(std::vector{0, 0, 1, 1, -1, -2, 2, 7, -9})); }
  std::int64_t size() { return random_.pick(std::vector<std::int64_t>{1, 2, 3, 6, 0, -1, 1000}); }
  double number();
  DType dtype() { return random_.pick(std::vector{DType::f32, DType::f16, DType::i64}); }
  bool flag() { return random_.one_in(2); }
  std::size_t below(std::size_t limit) { return random_.below(limit); }

  // The kinds of what was drawn since the last call, for reports.
  std::string take_drawn() { return std::exchange(drawn_, {}); }

  // Other objects that were exchanged between ranks.
  Pool& pool() { return pool_; }

 private:
  Pool pool_;
  fuzz::Random random_;
  std::string drawn_;
};

struct Entry {
  std::string_view name;
  void (*call)(Given& g);
};

std::vector<Entry> operator_entries();
std::vector<Entry> tensor_entries();
std::vector<Entry> host_entries();
std::vector<Entry> module_entries();

// Reads what a call has returned, as a program would.
void look_at(const Tensor& result);
inline void look_at(const distributed::Work& work) {
  if (work) work.wait();
}
template <class Other>
requires(!std::derived_from<Other, Tensor>) void look_at(const Other&) {}
template <class Result>
void look_at(const std::vector<Result>& results) {
  for (const auto& result : results) look_at(result);
}
template <class First, class Second>
void look_at(const std::pair<First, Second>& result) {
  look_at(result.first);
  look_at(result.second);
}

template <class Call>
void perform(const Call& call) {
  if constexpr (std::is_void_v<std::invoke_result_t<Call>>) {
    call();
  } else {
    look_at(call());
  }
}

}  // namespace kernbench::test::wrong_objects

// An entry of a table, whose arguments are drawn from `g`.
#define KB_ENTRY(name, ...)                                                          \
  Entry {                                                                            \
    name, [](Given& g) { perform([&] { return __VA_ARGS__; }); } \
  }
