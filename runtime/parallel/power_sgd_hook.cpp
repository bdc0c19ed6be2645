#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
#include "runtime/parallel/comm_hook.h"
#include "runtime/parallel/flat_buffer.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn::parallel {

struct PowerSGDState::Memory {
  // Q begins with its numbers, matrix by matrix, vector by vector.
  std::mt19937 engine;
  std::map<std::size_t, FlatBuffer> qs;  // by bucket: each matrix's Q, transposed, after the other
};

namespace {

// A gradient as a matrix [n, m].
Tensor as_matrix(const Tensor& gradient) {
  const std::int64_t rows = gradient.shape()[0];
  return reshape(gradient, {rows, gradient.numel() / rows});
}

std::int64_t compute_rank(const Tensor& matrix, const PowerSGDOptions& options) {
  return std::min({matrix.shape()[0], matrix.shape()[1], options.matrix_approximation_rank});
}

bool should_compress(const Tensor& matrix, const PowerSGDOptions& options) {
  const auto sides = static_cast<double>(matrix.shape()[0] + matrix.shape()[1]);
  return sides * static_cast<double>(compute_rank(matrix, options)) * options.min_compression_rate <
         static_cast<double>(matrix.numel());
}

// The vectors of several matrices, matrix by matrix.
struct Factors {
  FlatBuffer buffer;
  std::vector<Shape> shapes;  // of each matrix: [rank, length]

  Tensor operator[](std::size_t i) const { return buffer.view(i, shapes[i]); }
};

// Makes the vectors of each matrix orthogonal to each other, and of length 1: Gram and Schmidt's
// method as torch has it, in f32.
void orthogonalize(const Factors& factors, double epsilon) {
  std::int64_t longest = 0;
  for (const Shape& shape : factors.shapes) longest = std::max(longest, shape[1]);
  const Tensor& flat = factors.buffer.tensor();
  std::vector<std::int64_t> offsets;
  for (std::size_t i = 0; i < factors.shapes.size(); ++i) {
    offsets.push_back(factors.buffer.offset(i));
  }
  const auto body = [flat, shapes = factors.shapes, offsets, epsilon](tl::Context& tl) {
    const tl::Pointer begin = ops::local_part(flat, tl).data;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const std::int64_t length = shapes[i][1];
      std::vector<tl::Tensor> done;
      for (std::int64_t k = 0; k < shapes[i][0]; ++k) {
        const tl::Pointer at = begin + offsets[i] + k * length;
        tl::Tensor vector = tl.cast(tl.load(at, {length}, at.dtype()), DType::f32);
        for (const tl::Tensor& other : done) vector = vector - other * tl.sum(other * vector);
        vector = vector / (tl.sqrt(tl.sum(vector * vector)) + epsilon);
        tl.store(at, tl.cast(vector, at.dtype()));
        done.push_back(vector);
      }
    }
  };
  ops::launch_on_rows("orthogonalize", {flat}, {}, longest, body);
}

// The compression of one bucket in one step.
class Compression {
 public:
  Compression(std::shared_ptr<PowerSGDState> state, const GradBucket& bucket);

  Future begin();
  void reduce_ps(const Tensor& uncompressed) const;
  void reduce_qs() const;
  Tensor decompress();

 private:
  Factors make_factors(int side) const;
  Factors begin_qs() const;
  void all_reduce(const Tensor& tensor) const;

  const std::shared_ptr<PowerSGDState> state_;
  RuntimeContext& torch_;
  const std::size_t index_;
  const bool is_last_;
  const Tensor input_;
  Tensor before_;  // with error feedback: what is to be sent
  std::vector<Tensor> plain_;
  std::vector<Tensor> matrices_;
  std::optional<FlatBuffer> plain_buffer_;
  std::optional<Factors> ps_;
  std::optional<Factors> qs_;
};

Compression::Compression(std::shared_ptr<PowerSGDState> state, const GradBucket& bucket)
    : state_(std::move(state)),
      torch_(bucket.torch()),
      index_(bucket.index()),
      is_last_(bucket.is_last()),
      input_(bucket.buffer()) {
  for (const Tensor& gradient : bucket.gradients()) {
    if (!gradient.defined()) {
      ops::refuse_placement("powerSGD_hook", input_,
                            "it compresses buckets that lie whole on each of their holders");
    }
    const bool has_rows = gradient.shape().rank() > 0 && gradient.numel() > 0;
    if (has_rows && should_compress(as_matrix(gradient), state_->options)) {
      matrices_.push_back(as_matrix(gradient));
    } else {
      plain_.push_back(gradient);
    }
  }
}

// Vectors for each matrix, as long as one of its sides.
Factors Compression::make_factors(int side) const {
  std::vector<Tensor> forms;
  std::vector<Shape> shapes;
  for (const Tensor& matrix : matrices_) {
    shapes.push_back(
        {compute_rank(matrix, state_->options), matrix.shape()[static_cast<std::size_t>(side)]});
    forms.push_back(
        ops::make_like(matrix, "factor", shapes.back(), matrix.dtype(), ops::placement_of(matrix)));
  }
  return {FlatBuffer(forms, input_.dtype()), std::move(shapes)};
}

Factors Compression::begin_qs() const {
  Factors made = make_factors(1);
  const auto known = state_->memory->qs.find(index_);
  if (state_->options.warm_start && known != state_->memory->qs.end()) {
    made.buffer = known->second;
  } else {
    const Tensor& flat = made.buffer.tensor();
    std::vector<float> numbers(static_cast<std::size_t>(flat.numel()));
    std::normal_distribution<float> normal;
    std::ranges::generate(numbers, [&] { return normal(state_->memory->engine); });
    Tensor(flat).copy_(RuntimeContext::tensor(numbers, flat.shape()));
    if (state_->options.warm_start) state_->memory->qs.emplace(index_, made.buffer);
  }
  orthogonalize(made, state_->options.orthogonalization_epsilon);
  return made;
}

void Compression::all_reduce(const Tensor& tensor) const {
  torch_.distributed.all_reduce(tensor, {.group = state_->options.process_group, .async_op = true})
      .wait();
}

Future Compression::begin() {
  if (state_->options.use_error_feedback) {
    const auto error = state_->errors.find(index_);
    if (error != state_->errors.end()) input_.add_(error->second);
    before_ = input_.clone();
  }
  if (!matrices_.empty()) {
    ps_ = make_factors(0);
    qs_ = begin_qs();
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      (*ps_)[i].copy_(matmul((*qs_)[i], matrices_[i], {.transpose_b = true}));
    }
  }
  if (plain_.empty()) return Future(input_);
  plain_buffer_.emplace(plain_, input_.dtype());
  plain_buffer_->pack(plain_);
  const Tensor& buffer = plain_buffer_->tensor();
  return {torch_.distributed.all_reduce(buffer,
                                        {.group = state_->options.process_group, .async_op = true}),
          buffer};
}

void Compression::reduce_ps(const Tensor& uncompressed) const {
  if (!plain_.empty()) {
    uncompressed.div_(torch_.distributed.get_world_size(state_->options.process_group));
    plain_buffer_->unpack(plain_);
  }
  if (ps_) all_reduce(ps_->buffer.tensor());
}

void Compression::reduce_qs() const {
  if (!ps_) return;
  orthogonalize(*ps_, state_->options.orthogonalization_epsilon);
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    (*qs_)[i].copy_(matmul((*ps_)[i], matrices_[i]));
  }
  all_reduce(qs_->buffer.tensor());
}

Tensor Compression::decompress() {
  if (qs_) {
    const Tensor& flat = qs_->buffer.tensor();
    flat.div_(torch_.distributed.get_world_size(state_->options.process_group));
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      matrices_[i].copy_(matmul((*ps_)[i], (*qs_)[i], {.transpose_a = true}));
    }
  }
  if (before_.defined()) state_->errors.insert_or_assign(index_, before_ - input_);
  state_->iter += is_last_;
  return input_;
}

}  // namespace

PowerSGDState::PowerSGDState(const PowerSGDOptions& its_options)
    : options(its_options),
      memory(std::make_shared<Memory>(Memory{std::mt19937(its_options.random_seed), {}})) {
  if (options.start_powerSGD_iter > 1 || !(options.use_error_feedback || options.warm_start)) {
    return;
  }
  throw CollectiveError("KB-A015",
                        "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` "
                        "is enabled, because PowerSGD can only be applied after the first two "
                        "iterations in DDP.");
}

Future powerSGD_hook(const std::shared_ptr<PowerSGDState>& state, GradBucket& bucket) {
  if (state->iter < state->options.start_powerSGD_iter) {
    state->iter += bucket.is_last();
    return allreduce_hook(state->options.process_group, bucket);
  }
  const auto step = std::make_shared<Compression>(state, bucket);
  return step->begin().then([step](const Tensor& uncompressed) {
    step->reduce_ps(uncompressed);
    step->reduce_qs();
    return step->decompress();
  });
}

}  // namespace kernbench::nn::parallel
