#include <utility>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/ops/reduce.h"
#include "tp/layers.h"
#include "tp/primitives.h"
#include "tp/product_in_blocks.h"

namespace kernbench::tp {

namespace {

using autograd::SavedTensor;

// [..., n] as a matrix.
Tensor as_matrix(const Tensor& x) {
  const std::int64_t columns = x.shape()[x.shape().rank() - 1];
  return x.shape().rank() == 2 ? x : reshape(x, {-1, columns});
}

struct Linear {
  RuntimeContext& torch;
  const LinearCommunication communication;
  const ops::Placement placement;  // of the weight
  const bool input_needs_grad;
  const bool weight_needs_grad;
  const bool bias_needs_grad;
  const ProductInBlocks products{communication.blocks};

  Issue issue() const { return communication.overlap ? Issue::async : Issue::blocking; }

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    const Tensor all =
        communication.sequence_parallel ? gather_along_first_dim(torch, x, communication.group) : x;
    return products.forward(all, weight, bias);
  }

  std::vector<Tensor> backward(const Tensor& x, const Tensor& weight, const Tensor& dy,
                               const autograd::AskedInputs& asked) const {
    const bool of_weight = weight_needs_grad && asked.contains(1);
    Pending all_x{x};
    if (communication.sequence_parallel && of_weight) {
      all_x = gather_along_first_dim(torch, x, communication.group, issue());
    }
    Pending dx;
    if (input_needs_grad && asked.contains(0)) {
      dx.tensor = products.gradient_of_input(dy, weight);
      all_x.wait();
      dx = reduced(std::move(dx.tensor));
    }
    Tensor dw;
    if (of_weight) {
      dw = products.gradient_of_weight(as_matrix(all_x.wait()), as_matrix(dy), placement);
    }
    const bool of_bias = bias_needs_grad && asked.contains(2);
    const Tensor db = of_bias ? products.gradient_of_bias(dy) : Tensor();
    return {dx.wait(), dw, db};
  }

 private:
  Pending reduced(Tensor dx) const {
    if (communication.sequence_parallel) {
      return reduce_scatter_along_first_dim(torch, dx, communication.group, issue());
    }
    if (!communication.allreduce_dgrad) return {dx};
    return reduce_consumed(torch, dx, communication.group, issue());
  }
};

}  // namespace

Tensor linear_with_grad_accumulation_and_async_allreduce(RuntimeContext& torch, const Tensor& of,
                                                         const Tensor& of_weight,
                                                         const Tensor& bias,
                                                         const LinearCommunication& communication) {
  torch.check_on_device(of, "linear");
  torch.check_on_device(of_weight, "linear");
  const Tensor x = contiguous(of);
  const Tensor weight = contiguous(of_weight);
  if (bias.defined()) torch.check_on_device(bias, "linear");
  const Linear linear{torch,
                      communication,
                      ops::placement_of(weight),
                      autograd::needs_grad(x),
                      autograd::needs_grad(weight),
                      autograd::needs_grad(bias)};
  const auto forward = [&] {
    const NoGradGuard no_grad(torch);
    return linear.forward(x, weight, bias);
  };
  Tensor y = forward();
  if (!autograd::needs_grad(x, weight, bias)) return y;
  const Tensor none;
  const auto backward = [linear, x = SavedTensor(linear.weight_needs_grad ? x : none),
                         weight = SavedTensor(linear.input_needs_grad ? weight : none)](
                            const Tensor& dy, const autograd::AskedInputs& asked) {
    return linear.backward(x.get(), weight.get(), dy, asked);
  };
  return autograd::record("linear", std::move(y), {x, weight, bias}, backward);
}

}  // namespace kernbench::tp
