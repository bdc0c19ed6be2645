// A mixture of experts by a formula, which one process computes of all tokens, and ranks of theirs.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/expert_parallel/expert_parallel.h"
#include "runtime/expert_parallel/moe.h"
#include "runtime/expert_parallel/routing_load.h"
#include "test/parallel/context_parallel_world.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test {

// Experts are Linear-ReLU-Linear without biases.
struct MixtureSize {
  std::int64_t tokens = 32;  // of all ranks
  std::int64_t dim = 8;
  std::int64_t experts = 4;
  std::int64_t top_k = 2;
  std::int64_t hidden = 16;
};

// The numbers of PARALLELISM's goldens: tokens, the router, the experts, the gradient of y.
struct MixtureData {
  explicit MixtureData(const MixtureSize& size)
      : x(by_formula({size.tokens, size.dim}, 31, 9)),
        router(by_formula({size.experts, size.dim}, 23, 1)),
        w1(by_formula({size.experts, size.hidden, size.dim}, 19, 2)),
        w2(by_formula({size.experts, size.dim, size.hidden}, 41, 4)),
        dy(by_formula({size.tokens, size.dim}, 13, 6)) {}

  // The same experts, the last one first.
  void reverse_experts(const MixtureSize& size) {
    for (Floats* const of_experts : {&router, &w1, &w2}) {
      const std::int64_t each = std::ssize(*of_experts) / size.experts;
      Floats reversed;
      for (std::int64_t e = size.experts; e-- > 0;) {
        const auto first = of_experts->begin() + e * each;
        reversed.insert(reversed.end(), first, first + each);
      }
      *of_experts = reversed;
    }
  }

  Floats x;
  Floats router;
  Floats w1;
  Floats w2;
  Floats dy;
};

// Elements [first, first + count) of groups of `each`.
inline Floats part_of(const Floats& whole, std::int64_t first, std::int64_t count,
                      std::int64_t each) {
  return {whole.begin() + first * each, whole.begin() + (first + count) * each};
}

// The results of all ranks together.
struct Mixture {
  std::vector<double> y;
  std::vector<double> dx;
  std::vector<double> drouter;
  std::vector<double> dw1;
  std::vector<double> dw2;
  std::vector<std::int64_t> loads;  // rows of each expert; of the whole, before any are dropped
  std::int64_t kept = 0;
};

// One process computes it in double.  Each rank has tokens / ranks of the tokens, of which an
// expert takes `capacity`, 0 being any number, by the policy.
class WholeMixture {
 public:
  WholeMixture(const MixtureSize& size, const MixtureData& data, int ranks, std::int64_t capacity,
               moe::DropPolicy policy = moe::DropPolicy::probs)
      : size_(size), data_(data) {
    const auto zeros = [](std::int64_t count) {
      return std::vector<double>(static_cast<std::size_t>(count));
    };
    of_.y = of_.dx = zeros(size.tokens * size.dim);
    of_.drouter = zeros(size.experts * size.dim);
    of_.dw1 = of_.dw2 = zeros(size.experts * size.hidden * size.dim);
    of_.loads.resize(static_cast<std::size_t>(size.experts));
    for (std::int64_t token = 0; token < size.tokens; ++token) choose(token);
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::int64_t expert = 0; expert < size.experts; ++expert) {
        drop(rank, ranks, expert, capacity, policy);
      }
    }
    for (std::int64_t token = 0; token < size.tokens; ++token) compute(token);
  }

  const Mixture& result() const { return of_; }

 private:
  struct Choice {
    std::int64_t expert = 0;
    double weight = 0;
    bool is_kept = true;
  };

  static double at(const Floats& of, std::int64_t i) {
    return static_cast<double>(of[static_cast<std::size_t>(i)]);
  }
  static double& at(std::vector<double>& of, std::int64_t i) {
    return of[static_cast<std::size_t>(i)];
  }

  // Normalized probabilities of the top k are the softmax over their logits.
  void choose(std::int64_t token) {
    std::vector<Choice> all;
    for (std::int64_t e = 0; e < size_.experts; ++e) {
      double logit = 0;
      for (std::int64_t i = 0; i < size_.dim; ++i) {
        logit += at(data_.x, token * size_.dim + i) * at(data_.router, e * size_.dim + i);
      }
      all.push_back({e, logit});
    }
    std::ranges::stable_sort(all, std::greater(), &Choice::weight);
    all.resize(static_cast<std::size_t>(size_.top_k));
    double sum = 0;
    for (Choice& choice : all) sum += choice.weight = std::exp(choice.weight);
    for (Choice& choice : all) {
      choice.weight /= sum;
      ++of_.loads[static_cast<std::size_t>(choice.expert)];
    }
    choices_.push_back(std::move(all));
  }

  void drop(int rank, int ranks, std::int64_t expert, std::int64_t capacity,
            moe::DropPolicy policy) {
    std::vector<Choice*> takers;
    const std::int64_t each = size_.tokens / ranks;
    for (std::int64_t token = rank * each; token < (rank + 1) * each; ++token) {
      for (Choice& choice : choices_[static_cast<std::size_t>(token)]) {
        if (choice.expert == expert) takers.push_back(&choice);
      }
    }
    if (policy == moe::DropPolicy::probs) {
      std::ranges::stable_sort(takers, std::greater(), [](const Choice* c) { return c->weight; });
    }
    for (std::int64_t i = 0; i < std::ssize(takers); ++i) {
      takers[static_cast<std::size_t>(i)]->is_kept = capacity == 0 || i < capacity;
    }
  }

  // Computes the expert and its gradients, and returns that of the weight.
  double compute(std::int64_t token, const Choice& choice) {
    const auto& [dim, hidden] = std::pair(size_.dim, size_.hidden);
    const std::int64_t first = choice.expert * hidden * dim;
    double dweight = 0;
    for (std::int64_t j = 0; j < hidden; ++j) {
      double up = 0;
      for (std::int64_t i = 0; i < dim; ++i) {
        up += at(data_.x, token * dim + i) * at(data_.w1, first + j * dim + i);
      }
      if (up <= 0) continue;
      double dup = 0;
      for (std::int64_t i = 0; i < dim; ++i) {
        const double w2 = at(data_.w2, first + i * hidden + j);
        const double dy = at(data_.dy, token * dim + i);
        at(of_.y, token * dim + i) += choice.weight * up * w2;
        at(of_.dw2, first + i * hidden + j) += choice.weight * dy * up;
        dweight += dy * up * w2;
        dup += choice.weight * dy * w2;
      }
      for (std::int64_t i = 0; i < dim; ++i) {
        at(of_.dw1, first + j * dim + i) += dup * at(data_.x, token * dim + i);
        at(of_.dx, token * dim + i) += dup * at(data_.w1, first + j * dim + i);
      }
    }
    return dweight;
  }

  void compute(std::int64_t token) {
    const std::vector<Choice>& choices = choices_[static_cast<std::size_t>(token)];
    std::vector<double> dweights;
    double along = 0;
    for (const Choice& choice : choices) {
      dweights.push_back(choice.is_kept ? compute(token, choice) : 0);
      along += choice.weight * dweights.back();
      of_.kept += choice.is_kept ? 1 : 0;
    }
    for (std::size_t c = 0; c < choices.size(); ++c) {
      const double dlogit = choices[c].weight * (dweights[c] - along);
      for (std::int64_t i = 0; i < size_.dim; ++i) {
        const std::int64_t of_expert = choices[c].expert * size_.dim + i;
        at(of_.drouter, of_expert) += dlogit * at(data_.x, token * size_.dim + i);
        at(of_.dx, token * size_.dim + i) += dlogit * at(data_.router, of_expert);
      }
    }
  }

  const MixtureSize size_;
  const MixtureData& data_;
  std::vector<std::vector<Choice>> choices_;
  Mixture of_;
};

}  // namespace kernbench::test
