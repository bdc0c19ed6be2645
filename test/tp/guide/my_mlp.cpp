// The program of the guide tp/tensor-parallelism.md: every piece between two markers stands in it,
// word for word.

// guide: begin
#include <fmt/format.h>
#include <kernbench/kernbench.h>

namespace kb = kernbench;
namespace tp = kernbench::tp;

constexpr std::int64_t tokens = 12, hidden = 12, ffn = 48;

// A matrix of small whole numbers: all sums of their products are exact, and compared with ==.
kb::Tensor integers(kb::RuntimeContext& torch, const kb::Shape& shape, unsigned seed) {
  std::vector<float> numbers;
  for (unsigned i = 0; i < shape.numel(); ++i) {
    numbers.push_back(static_cast<float>((i * 2654435761U + seed * 40503U) / 65536U % 3U) - 1);
  }
  kb::Tensor x = torch.zeros(shape, {.dp = kb::DPPolicy::on_one_pe()});
  x.copy_(torch.tensor(numbers, shape));
  return x;
}
// guide: end

// guide: begin
// y = relu(x A + a) B + b, and the gradient dy that training would send back.
struct Mlp {
  explicit Mlp(kb::RuntimeContext& torch)
      : x(integers(torch, {tokens, hidden}, 0)),
        A(integers(torch, {hidden, ffn}, 1)),
        a(integers(torch, {ffn}, 2)),
        B(integers(torch, {ffn, hidden}, 3)),
        b(integers(torch, {hidden}, 4)),
        dy(integers(torch, {tokens, hidden}, 5)) {
    for (kb::Tensor* leaf : {&x, &A, &a, &B, &b}) leaf->requires_grad_();
  }

  kb::Tensor x, A, a, B, b, dy;
};

kb::Tensor dense_step(const Mlp& mlp) {
  kb::Tensor y = kb::matmul(kb::relu(kb::matmul(mlp.x, mlp.A) + mlp.a), mlp.B) + mlp.b;
  y.backward(mlp.dy);
  return y;
}
// guide: end

// guide: begin
// This rank's part of a matrix or a vector, as a leaf of its own.
kb::Tensor part(const kb::Tensor& whole, int dim, int rank, int ranks) {
  const auto size = whole.shape()[static_cast<std::size_t>(dim)] / ranks;
  return kb::narrow(whole, dim, rank * size, size).detach().requires_grad_();
}

bool same(const kb::Tensor& found, const kb::Tensor& expected) {
  return found.to_vector() == expected.to_vector();
}
// guide: end

// guide: begin
std::string by_hand(kb::RuntimeContext& torch, const Mlp& mlp, const kb::Tensor& y) {
  const int rank = torch.distributed.get_rank(), ranks = torch.distributed.get_world_size();
  const kb::Tensor x = part(mlp.x, 0, 0, 1);
  const kb::Tensor A = part(mlp.A, 1, rank, ranks), a = part(mlp.a, 0, rank, ranks);
  const kb::Tensor B = part(mlp.B, 0, rank, ranks);

  kb::Tensor sum = kb::matmul(kb::relu(kb::matmul(x, A) + a), B);
  torch.distributed.all_reduce(sum);
  const kb::Tensor own_y = sum + mlp.b.detach();
  own_y.backward(mlp.dy);
  return fmt::format("y {}, dA {}, dx {}", same(own_y, y),
                     same(A.grad(), part(mlp.A.grad(), 1, rank, ranks)),
                     same(x.grad(), mlp.x.grad()));
}
// guide: end

// guide: begin
std::string with_mappings(kb::RuntimeContext& torch, const Mlp& mlp, const kb::Tensor& y) {
  const int rank = torch.distributed.get_rank(), ranks = torch.distributed.get_world_size();
  const kb::Tensor x = part(mlp.x, 0, 0, 1);
  const kb::Tensor A = part(mlp.A, 1, rank, ranks), a = part(mlp.a, 0, rank, ranks);
  const kb::Tensor B = part(mlp.B, 0, rank, ranks);

  const kb::Tensor copied = tp::copy_to_tensor_model_parallel_region(torch, x);
  const kb::Tensor summand = kb::matmul(kb::relu(kb::matmul(copied, A) + a), B);
  const kb::Tensor own_y =
      tp::reduce_from_tensor_model_parallel_region(torch, summand) + mlp.b.detach();
  own_y.backward(mlp.dy);
  return fmt::format("y {}, dA {}, dx {}", same(own_y, y),
                     same(A.grad(), part(mlp.A.grad(), 1, rank, ranks)),
                     same(x.grad(), mlp.x.grad()));
}
// guide: end

// guide: begin
struct ParallelMlp {
  ParallelMlp(kb::RuntimeContext& torch, const Mlp& mlp, bool sequence_parallel)
      : up(torch, {.in_features = hidden,
                   .out_features = ffn,
                   .sequence_parallel = sequence_parallel,
                   .dtype = kb::DType::f32}),
        down(torch, {.in_features = ffn,
                     .out_features = hidden,
                     .sequence_parallel = sequence_parallel,
                     .dtype = kb::DType::f32}) {
    const int rank = torch.distributed.get_rank(), ranks = torch.distributed.get_world_size();
    const kb::NoGradGuard no_grad(torch);
    up.weight.copy_(part(mlp.A, 1, rank, ranks));
    up.bias.copy_(part(mlp.a, 0, rank, ranks));
    down.weight.copy_(part(mlp.B, 0, rank, ranks));
    down.bias.copy_(mlp.b);
  }

  kb::Tensor forward(const kb::Tensor& x) const { return down(kb::relu(up(x))); }

  tp::ColumnParallelLinear up;
  tp::RowParallelLinear down;
};

std::string with_layers(kb::RuntimeContext& torch, const Mlp& mlp, const kb::Tensor& y) {
  const int rank = torch.distributed.get_rank(), ranks = torch.distributed.get_world_size();
  const kb::Tensor x = part(mlp.x, 0, 0, 1);
  const ParallelMlp parallel(torch, mlp, false);
  const kb::Tensor own_y = parallel.forward(x);
  own_y.backward(mlp.dy);
  return fmt::format("y {}, dA {}, dB {}, db {}, dx {}", same(own_y, y),
                     same(parallel.up.weight.grad(), part(mlp.A.grad(), 1, rank, ranks)),
                     same(parallel.down.weight.grad(), part(mlp.B.grad(), 0, rank, ranks)),
                     same(parallel.down.bias.grad(), mlp.b.grad()), same(x.grad(), mlp.x.grad()));
}
// guide: end

// guide: begin
std::string with_sequence_parallel(kb::RuntimeContext& torch, const Mlp& mlp, const kb::Tensor& y) {
  const int rank = torch.distributed.get_rank(), ranks = torch.distributed.get_world_size();
  const kb::Tensor x = part(mlp.x, 0, rank, ranks);
  const ParallelMlp parallel(torch, mlp, true);
  const kb::Tensor own_y = parallel.forward(x);
  own_y.backward(part(mlp.dy, 0, rank, ranks).detach());

  const bool before = same(parallel.down.bias.grad(), mlp.b.grad());
  tp::allreduce_sequence_parallel_gradients(torch, parallel.down.parameters());
  return fmt::format("y {}, dA {}, dx {}, db {}, summed {}", same(own_y, part(y, 0, rank, ranks)),
                     same(parallel.up.weight.grad(), part(mlp.A.grad(), 1, rank, ranks)),
                     same(x.grad(), part(mlp.x.grad(), 0, rank, ranks)), before,
                     same(parallel.down.bias.grad(), mlp.b.grad()));
}
// guide: end

// guide: begin
void worker(int rank, kb::RuntimeContext& torch) {
  torch.ahbm.set_device(rank);
  const Mlp mlp(torch);
  const kb::Tensor y = dense_step(mlp);
  const auto report = [&](std::string_view step, const std::string& text) {
    if (rank == torch.distributed.get_world_size() - 1) fmt::print("{:<18} {}\n", step, text);
  };
  report("by hand", by_hand(torch, mlp, y));
  report("with mappings", with_mappings(torch, mlp, y));
  report("with layers", with_layers(torch, mlp, y));
  report("sequence parallel", with_sequence_parallel(torch, mlp, y));
}

int main(int, char** argv) {
  kb::RuntimeContext torch(kb::Topology::load(argv[1]));
  torch.distributed.init_process_group("ahbm");
  const int ranks = torch.distributed.get_world_size();
  tp::initialize_model_parallel(torch, {.tensor_model_parallel_size = ranks});
  torch.multiprocessing.spawn(worker, std::forward_as_tuple(torch), ranks);
}
// guide: end
