// The functions with which an operator records how gradients flow back through it (ADR-0130):
// define-by-run, as torch.autograd.  The mappings and layers of tp use it as
// torch.autograd.Function is used.
//
//   Tensor scale(RuntimeContext& torch, const Tensor& x, double by) {
//     const auto forward = [&] {
//       const NoGradGuard no_grad(torch);
//       return x * by;
//     };
//     return autograd::record("scale", forward(), {x},
//                             [by](const Tensor& dy) { return std::vector{dy * by}; });
//   }

#pragma once

#include <any>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench {

class RuntimeContext;

namespace runtime {
class Simulation;
struct FiberLocal;
}  // namespace runtime

// While it lives, the operators of the rank that made it record nothing, and their results need no
// gradient (torch::NoGradGuard).  The rank that made it must destroy it.
class NoGradGuard {
 public:
  explicit NoGradGuard(RuntimeContext& torch);
  explicit NoGradGuard(const Tensor& of);  // for the tensor's context
  explicit NoGradGuard(runtime::Simulation& simulation);
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  runtime::FiberLocal& local_;
  const bool was_enabled_;
};

// The same as NoGradGuard.  It stands for c10::InferenceMode, whose tensors may not be used in a
// graph later; these may.
class InferenceMode : public NoGradGuard {
 public:
  using NoGradGuard::NoGradGuard;
};

// While it lives, they are recorded again (torch.enable_grad).
class EnableGradGuard {
 public:
  explicit EnableGradGuard(runtime::Simulation& simulation);
  ~EnableGradGuard();
  EnableGradGuard(const EnableGradGuard&) = delete;
  EnableGradGuard& operator=(const EnableGradGuard&) = delete;

 private:
  runtime::FiberLocal& local_;
  const bool was_enabled_;
};

// True if the caller's operators are recorded (torch.is_grad_enabled).
bool is_grad_enabled(runtime::Simulation& simulation);

}  // namespace kernbench

namespace kernbench::autograd {

// The inputs of an operator whose gradients a backward pass asks for: all, unless the pass computes
// those of some tensors alone.
class AskedInputs {
 public:
  AskedInputs() = default;
  explicit AskedInputs(std::vector<bool> by_input) : by_input_(std::move(by_input)) {}

  bool contains(std::size_t input) const { return by_input_.empty() || by_input_.at(input); }
  bool are_all() const { return by_input_.empty(); }

 private:
  std::vector<bool> by_input_;  // empty: all
};

// Computes the gradients of an operator's inputs from that of its result, one for each input;
// undefined where no gradient flows.  It runs on the fiber that calls Tensor::backward(), and
// records nothing itself.  It keeps tensors as SavedTensor.  It must not write into `grad_output`,
// which others may share, but into writable(grad_output).
//
// A function that takes AskedInputs as well is selective: it leaves out gradients that are not
// asked for, and is called again when another pass asks for them.
class Backward {
 public:
  template <class Call>
  static constexpr bool kIsSelective = std::invocable<Call&, const Tensor&, const AskedInputs&> &&
                                       !std::invocable<Call&, const Tensor&>;

  Backward() = default;
  template <class Call>
  requires(!std::same_as<std::remove_cvref_t<Call>, Backward> &&
           (kIsSelective<Call> || std::invocable<Call&, const Tensor&>))
      Backward(Call call)  // implicit
      : is_selective_(kIsSelective<Call>) {
    if constexpr (std::constructible_from<Call, std::nullptr_t>) {
      if (call == nullptr) return;
    }
    if constexpr (kIsSelective<Call>) {
      call_ = std::move(call);
    } else {
      call_ = [call = std::move(call)](const Tensor& grad_output, const AskedInputs&) mutable {
        return call(grad_output);
      };
    }
  }

  std::vector<Tensor> operator()(const Tensor& grad_output, const AskedInputs& asked = {}) const {
    return call_(grad_output, asked);
  }
  bool is_selective() const { return is_selective_; }
  explicit operator bool() const { return call_ != nullptr; }

 private:
  std::function<std::vector<Tensor>(const Tensor& grad_output, const AskedInputs& asked)> call_;
  bool is_selective_ = false;
};

// The same of a function of several results: a gradient of each, one of which at least is defined.
using BackwardOfSeveral =
    std::function<std::vector<Tensor>(const std::vector<Tensor>& grad_outputs)>;

// Returns `output`, which now needs a gradient: `backward` will compute those of `inputs`, some of
// which may be undefined or need none.  Returns `output` unchanged if gradients are disabled, no
// input needs one, or it is of integers.  If `output` already belongs to a graph, or is one of the
// inputs, it stays unchanged and a view of it is returned.  Throws DeviceError KB-M001, KB-M019 if
// the output is not on a device.
Tensor record(std::string_view name, Tensor output, const std::vector<Tensor>& inputs,
              Backward backward);

// The elements of a tensor that form an operator's result: those from `start` on along a
// dimension.
struct Part {
  std::size_t dimension = 0;
  std::int64_t start = 0;
};

// As record(), for an operator whose result has the elements of a part of its input, such as
// narrow().  The gradients of several parts of a tensor are assembled by one kernel, as cat does,
// once all are known, and are 0 elsewhere.  If the output is a view of the input, `of` makes it as
// for record_view().  Throws DeviceError KB-F001, KB-F002, KB-F003 if the output's shape, type or
// placement is not that of the part.
Tensor record_part(std::string_view name, Tensor output, const Tensor& input, const Part& part,
                   std::function<Tensor(const Tensor& input)> of = {});

// As record(), for an operator whose result is a view of its input.  `of` makes the same view of a
// tensor placed as the input, in its memory and without recording; `gradient` is the Backward's.
// Neither may refer to a tensor.
Tensor record_view(std::string_view name, Tensor output, const Tensor& input,
                   std::function<Tensor(const Tensor& input)> of,
                   std::function<Tensor(const Tensor& grad_output)> gradient);

// True if a gradient of any of these may be asked for: gradients are enabled, and one of them
// requires one.  Undefined tensors require none.
bool needs_grad(const Tensor& tensor);
template <class... Tensors>
bool needs_grad(const Tensor& tensor, const Tensors&... others) {
  return needs_grad(tensor) || needs_grad(others...);
}

// A tensor that a Backward needs: an input or the output.  It keeps no recorded operator alive.
// An undefined one stands for a tensor that is not needed.
class SavedTensor {
 public:
  SavedTensor() = default;
  // Throws DeviceError KB-M019 for a host tensor.
  explicit SavedTensor(const Tensor& tensor);

  // Throws CollectiveError KB-A005 if elements were written since it was saved.
  const Tensor& get() const;

 private:
  Tensor tensor_;
  std::uint64_t version_ = 0;
};

// What forward() of a Function tells its backward() (torch::autograd::AutogradContext).
class AutogradContext {
 public:
  // Keeps inputs and outputs of forward() as SavedTensor.
  void save_for_backward(std::vector<Tensor> tensors) { to_save_ = std::move(tensors); }
  // Throws CollectiveError KB-A005 if elements of one were written since.
  std::vector<Tensor> get_saved_variables() const;
  // Other values: `context->saved_data["by"] = 2.0;`, `std::any_cast<double>(...)`.
  std::map<std::string, std::any> saved_data;

  // forward() has written into these inputs, and returns them.
  void mark_dirty(std::vector<Tensor> inputs) { dirty_ = std::move(inputs); }
  // These outputs need no gradient.  Those of integers never do.
  void mark_non_differentiable(std::vector<Tensor> outputs) { constants_ = std::move(outputs); }
  // Where no gradient reaches an output, backward() is given zeros; an undefined tensor if false.
  void set_materialize_grads(bool value) { materializes_ = value; }
  // True if backward() is to compute the gradient of this argument of apply().
  bool needs_input_grad(std::size_t argument) const { return needs_grad_.at(argument); }

 private:
  friend struct FunctionCall;

  std::vector<Tensor> to_save_;
  std::vector<SavedTensor> saved_;
  std::vector<Tensor> dirty_;
  std::vector<Tensor> constants_;
  std::vector<bool> needs_grad_;  // by argument
  bool materializes_ = true;
};

// A call of a Function, without its types.
struct FunctionCall {
  FunctionCall(std::string_view type_name, std::vector<Tensor> arguments)
      : type(type_name), inputs(std::move(arguments)) {}

  std::string_view type;       // as typeid names it
  std::vector<Tensor> inputs;  // by argument; undefined for what is no tensor
  std::shared_ptr<AutogradContext> context = std::make_shared<AutogradContext>();
  std::function<std::vector<Tensor>()> forward;
  BackwardOfSeveral backward;

  std::vector<Tensor> run();

 private:
  void record(const Tensor& wants, std::vector<Tensor>& outputs);
  bool is_constant(const Tensor& output) const;

  std::string name_;
};

// A function with a derivative of its own, with any number of arguments and results
// (torch::autograd::Function).
//
//   struct Scale : kb::autograd::Function<Scale> {
//     static kb::Tensor forward(kb::autograd::AutogradContext* context, const kb::Tensor& x,
//                               double by) {
//       context->saved_data["by"] = by;
//       return x * by;
//     }
//     static std::vector<kb::Tensor> backward(kb::autograd::AutogradContext* context,
//                                             const std::vector<kb::Tensor>& grad_outputs) {
//       return {grad_outputs[0] * std::any_cast<double>(context->saved_data["by"]), {}};
//     }
//   };
//   const kb::Tensor y = Scale::apply(x, 2.0);
//
// forward() returns a tensor, or several as std::vector; it is not recorded.  backward() returns a
// gradient for each argument, undefined for what is no tensor.  apply() throws CollectiveError
// KB-A030, in torch's words, for marks that do not fit, and KB-A008, KB-A009 for dirty inputs as
// other writes do; backward() throws KB-A006 for gradients that do not fit.
template <class Derived>
struct Function {
  template <class... Arguments>
  static auto apply(Arguments&&... arguments) {
    FunctionCall call{typeid(Derived).name(), {as_input(arguments)...}};
    AutogradContext* const context = call.context.get();
    using Result = decltype(Derived::forward(context, std::forward<Arguments>(arguments)...));
    call.forward = [&] {
      if constexpr (std::is_same_v<Result, std::vector<Tensor>>) {
        return Derived::forward(context, std::forward<Arguments>(arguments)...);
      } else {
        return std::vector{Derived::forward(context, std::forward<Arguments>(arguments)...)};
      }
    };
    // It must not own the context, which lives as long as what calls it.
    call.backward = [context](const std::vector<Tensor>& grad_outputs) {
      return Derived::backward(context, grad_outputs);
    };
    std::vector<Tensor> results = call.run();
    if constexpr (std::is_same_v<Result, std::vector<Tensor>>) {
      return results;
    } else {
      return std::move(results.front());
    }
  }

 private:
  template <class Argument>
  static Tensor as_input(const Argument& argument) {
    if constexpr (std::is_convertible_v<const Argument&, const Tensor&>) {
      return argument;
    } else {
      return {};
    }
  }
};

// True if other handles refer to its elements.
bool is_shared(const Tensor& tensor);
// Returns a tensor with these elements that no other handle refers to: `tensor` itself if there is
// none, else a copy.
Tensor writable(const Tensor& tensor);

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;  // derivatives of derivatives are not recorded: KB-A025
  bool allow_unused = false;  // an input that no gradient reaches gets an undefined one
};

// Returns the sums of the gradients of the outputs with respect to each input, as backward() would
// add them to grad(), which stays as it is.  An input may be a leaf or computed.  Without
// `grad_outputs`, or where one is undefined, an output must have one element.  Only what leads to
// an input is computed.
// Throws CollectiveError as backward() does, KB-A001 for an input that requires no gradient,
// KB-A026 for one that no gradient reaches, in torch's words.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs = {},
                         const GradOptions& options = {});

}  // namespace kernbench::autograd

namespace kernbench::nn::utils {

// Calls function(inputs) and keeps the inputs alone: what lies between is computed again when the
// gradient comes by (torch.utils.checkpoint, reentrant).  Random numbers are the same the
// second time.  As in torch, gradients flow only if one of the inputs requires one.
//   const Tensor y = checkpoint([&](const auto& in) { return block(in[0]); }, {x});
Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>& inputs)>& function,
                  const std::vector<Tensor>& inputs);

}  // namespace kernbench::nn::utils
