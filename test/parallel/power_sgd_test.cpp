// PowerSGD beside the same algorithm in plain loops.

#include <cmath>
#include <random>
#include <type_traits>

#include "runtime/parallel/comm_hook.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::power_sgd_test {
namespace {

using nn::parallel::DistributedDataParallel;
using nn::parallel::powerSGD_hook;
using nn::parallel::PowerSGDOptions;
using nn::parallel::PowerSGDState;

// Copies would share one stream of random numbers.
static_assert(!std::is_copy_constructible_v<PowerSGDState>);

constexpr int kRanks = 3;
constexpr int kRows = 5;  // of a rank's batch
constexpr int kIn = 12;
constexpr int kOut = 10;
constexpr int kSteps = 6;

float x_of(int rank, int row, int column) {
  return static_cast<float>((31 * rank + 5 * row + 3 * column + row * column) % 13 - 6) / 8;
}
// The gradient of the output.
float dy_of(int step, int rank, int row, int column) {
  return static_cast<float>((17 * rank + 7 * step + 3 * row + 5 * column) % 11 - 5) / 4;
}

using Matrix = std::vector<std::vector<double>>;  // [kOut][kIn]; of factors, a vector in each row

Matrix gradient_of(int step, int rank) {
  Matrix made(kOut, std::vector<double>(kIn));
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kOut; ++i) {
      for (int j = 0; j < kIn; ++j) {
        made[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] +=
            dy_of(step, rank, row, i) * x_of(rank, row, j);
      }
    }
  }
  return made;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void orthogonalize(Matrix& vectors) {
  for (std::size_t k = 0; k < vectors.size(); ++k) {
    const double length = std::sqrt(dot(vectors[k], vectors[k]));
    for (double& element : vectors[k]) element /= length;
    for (std::size_t later = k + 1; later < vectors.size(); ++later) {
      const double along = dot(vectors[k], vectors[later]);
      for (std::size_t i = 0; i < vectors[k].size(); ++i) {
        vectors[later][i] -= along * vectors[k][i];
      }
    }
  }
}

// The weight's gradient after each step, as a plain program of all ranks computes it.
class Reference {
 public:
  explicit Reference(const PowerSGDOptions& options) : options_(options) {}

  Matrix step(int number) {
    std::vector<Matrix> all;
    for (int rank = 0; rank < kRanks; ++rank) all.push_back(gradient_of(number, rank));
    if (number < options_.start_powerSGD_iter) return mean(all);
    if (options_.use_error_feedback && !errors_.empty()) {
      for (std::size_t r = 0; r < all.size(); ++r) add(all[r], errors_[r], 1);
    }
    if (q_.empty() || !options_.warm_start) draw();
    orthogonalize(q_);
    Matrix p(q_.size(), std::vector<double>(kOut));
    for (const Matrix& own : all) {
      for (std::size_t k = 0; k < q_.size(); ++k) {
        for (std::size_t i = 0; i < kOut; ++i) p[k][i] += dot(own[i], q_[k]);
      }
    }
    orthogonalize(p);
    for (std::size_t k = 0; k < q_.size(); ++k) {
      for (std::size_t j = 0; j < kIn; ++j) {
        q_[k][j] = 0;
        for (const Matrix& own : all) {
          for (std::size_t i = 0; i < kOut; ++i) q_[k][j] += own[i][j] * p[k][i] / kRanks;
        }
      }
    }
    Matrix result(kOut, std::vector<double>(kIn));
    for (std::size_t k = 0; k < q_.size(); ++k) {
      for (std::size_t i = 0; i < kOut; ++i) {
        for (std::size_t j = 0; j < kIn; ++j) result[i][j] += p[k][i] * q_[k][j];
      }
    }
    errors_ = all;
    for (Matrix& error : errors_) add(error, result, -1);
    return result;
  }

 private:
  static void add(Matrix& to, const Matrix& other, double factor) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      for (std::size_t j = 0; j < to[i].size(); ++j) to[i][j] += factor * other[i][j];
    }
  }
  static Matrix mean(const std::vector<Matrix>& all) {
    Matrix made(kOut, std::vector<double>(kIn));
    for (const Matrix& own : all) add(made, own, 1.0 / kRanks);
    return made;
  }
  void draw() {
    std::normal_distribution<float> normal;
    q_.assign(static_cast<std::size_t>(options_.matrix_approximation_rank),
              std::vector<double>(kIn));
    for (auto& vector : q_) {
      for (double& element : vector) element = normal(random_);
    }
  }

  const PowerSGDOptions options_;
  std::mt19937 random_{options_.random_seed};
  std::vector<Matrix> errors_;
  Matrix q_;
};

// The weight's and the bias' gradient after each step.
struct Steps {
  std::vector<Floats> weights;
  std::vector<Floats> biases;
};

template <class Hook>
Steps train(DataParallelWorld& world, int rank, const PowerSGDOptions& options, Hook hook) {
  const nn::Linear linear(world.torch, kIn, kOut, kOnOnePe);
  DistributedDataParallel ddp(linear);
  ddp->register_comm_hook(std::make_shared<PowerSGDState>(options), hook);
  Steps steps;
  for (int step = 0; step < kSteps; ++step) {
    Floats x;
    Floats dy;
    for (int row = 0; row < kRows; ++row) {
      for (int j = 0; j < kIn; ++j) x.push_back(x_of(rank, row, j));
      for (int i = 0; i < kOut; ++i) dy.push_back(dy_of(step, rank, row, i));
    }
    ddp->zero_grad();
    (ddp(world.tensor(x, {kRows, kIn})) * world.tensor(dy, {kRows, kOut})).sum().backward();
    steps.weights.push_back(linear->weight.grad().to_vector());
    steps.biases.push_back(linear->bias.grad().to_vector());
  }
  return steps;
}

TEST_CASE("PowerSGD leaves what the same algorithm in plain loops does", "[ddp]") {
  const PowerSGDOptions options{.matrix_approximation_rank = GENERATE(1, 2),
                                .start_powerSGD_iter = 2,
                                .min_compression_rate = 1.3,
                                .use_error_feedback = GENERATE(true, false),
                                .warm_start = GENERATE(true, false),
                                .random_seed = 7};
  CAPTURE(options.matrix_approximation_rank, options.use_error_feedback, options.warm_start);
  DataParallelWorld world(kRanks, "local");
  Steps steps;
  world.spawn([&](int rank) {
    const Steps own = train(world, rank, options, powerSGD_hook);
    if (rank == 1) steps = own;
  });
  Reference reference(options);
  for (int step = 0; step < kSteps; ++step) {
    const auto at = static_cast<std::size_t>(step);
    CAPTURE(step);
    const Matrix expected = reference.step(step);
    for (std::size_t i = 0; i < kOut; ++i) {
      double bias = 0;
      for (int rank = 0; rank < kRanks; ++rank) {
        for (int row = 0; row < kRows; ++row) {
          bias += dy_of(step, rank, row, static_cast<int>(i)) / kRanks;
        }
      }
      CHECK(steps.biases[at][i] == Approx(bias).margin(1e-6));  // is not compressed
      for (std::size_t j = 0; j < kIn; ++j) {
        CHECK(steps.weights[at][i * kIn + j] == Approx(expected[i][j]).epsilon(1e-5).margin(1e-5));
      }
    }
  }
}

// By function, the elements of all_reduces in the last step.
TEST_CASE("a step of PowerSGD sends what is not compressed, then P, then Q", "[ddp]") {
  DataParallelWorld world(kRanks);
  world.spawn([&](int rank) {
    train(world, rank,
          {.matrix_approximation_rank = 2, .start_powerSGD_iter = 2, .min_compression_rate = 1.3},
          powerSGD_hook);
  });
  const auto events = simulation_of(world.torch).flight_recorder().events(1);
  REQUIRE(events.size() > 3);
  std::vector<std::int64_t> elements;
  for (std::size_t i = events.size() - 3; i < events.size(); ++i) {
    CHECK(events[i].function == "all_reduce");
    elements.push_back(events[i].shape.numel());
  }
  CHECK(elements == std::vector<std::int64_t>{kOut, 2 * kOut, 2 * kIn});
}

TEST_CASE("a wrapper rounds what another hook sends", "[ddp]") {
  const PowerSGDOptions options{.start_powerSGD_iter = 4};
  DataParallelWorld world(kRanks, "local");
  world.spawn([&](int rank) {
    const auto rounded = [&](const auto& wrapper, const auto& hook) {
      const Steps wrapped = train(world, rank, options, wrapper);
      const Steps direct = train(world, rank, options, [&](auto&, auto& bucket) {
        return hook(distributed::ProcessGroup(), bucket);
      });
      for (std::size_t i = 0; i < 4; ++i) CHECK(wrapped.weights[i] == direct.weights[i]);
      CHECK(wrapped.weights[4] != direct.weights[4]);
    };
    using namespace nn::parallel;
    rounded(fp16_compress_wrapper(powerSGD_hook), fp16_compress_hook);
    rounded(bf16_compress_wrapper(powerSGD_hook), bf16_compress_hook);
  });
}

TEST_CASE("PowerSGD begins after the first two iterations", "[ddp]") {
  CHECK_THAT(error_of<CollectiveError>([] { PowerSGDState({.start_powerSGD_iter = 1}); }),
             Says("KB-A015", "PowerSGD can only be applied after the first two iterations"));
  PowerSGDState({.start_powerSGD_iter = 0, .use_error_feedback = false, .warm_start = false});
}

}  // namespace
}  // namespace kernbench::test::power_sgd_test
