// Copies of modules with all that they contain, and modules that contain others: Sequential,
// ModuleList and ModuleDict, whose elements are of one kind or of several.

#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "runtime/nn/module.h"
#include "runtime/nn/state.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::nn {

// A text as an argument of a template, such as the name of a class.
template <std::size_t size>
struct Literal {
  consteval Literal(const char (&given)[size]) {
    for (std::size_t i = 0; i < size; ++i) text[i] = given[i];
  }
  char text[size];
};

// What clone() has copied so far: of each tensor and each module there is one copy.
class Copies {
 public:
  Tensor of(const Tensor& tensor);
  std::shared_ptr<Module> of(const Module& module);
  // Handles become handles to the copies; empty ones stay empty.
  template <class... Handles>
  void rebind(Handles&... handles) {
    (rebind_one(handles), ...);
  }

 private:
  friend class CopyableModule;
  friend class Module;
  struct CopiedTensor {
    Tensor from;
    Tensor to;
  };

  void rebind_one(Tensor& tensor) { tensor = of(tensor); }
  template <std::derived_from<HolderBase> Holder>
  void rebind_one(Holder& holder) {
    if (holder.module_ != nullptr) holder.module_ = of(*holder.module_);
  }
  // `into` becomes the copy of `from`.
  void adopt(const std::string& name, const Tensor& into, const Tensor& from);
  void adopt(const std::shared_ptr<Module>& into, const Module& from);
  CopiedTensor* find(const Tensor& from);

  std::vector<CopiedTensor> tensors_;
  std::map<const Module*, std::shared_ptr<Module>> modules_;  // never iterated
};

// What Cloneable and the shipped layers have in common.
class CopyableModule : public Module {
 protected:
  CopyableModule() = default;
  CopyableModule(const CopyableModule& of) : Module() { take_registered(of); }
  CopyableModule& operator=(const CopyableModule& of) {
    take_registered(of);
    return *this;
  }

  void take_registered(const Module& of);
  void adopt_all(const Module& of, Copies& copies) { adopt(of, copies); }
  void forget_registered() { take_registered(CopyableModule()); }
  void rebind_all(Copies& copies);
  // Throws KB-A010 if it is a subclass, of which a copy would lack what that adds.
  void check_is_all(bool is_all) const;
};

// The base of a module that clone() copies, as in libtorch: its constructor calls reset(), which
// registers all that it has, and clone() calls it on a copy of the members, whose tensors then take
// this one's values.  What is shared among its modules is shared in reset().
//
//   struct NetImpl : kb::nn::Cloneable<NetImpl> {
//     explicit NetImpl(kb::RuntimeContext& of) : torch(of) { reset(); }
//     void reset() override { up = register_module("up", kb::nn::Linear(torch, 64, 256)); }
//     kb::RuntimeContext& torch;
//     kb::nn::Linear up = nullptr;
//   };
//
// Initial values that reset() draws are drawn for the copy, too.
template <class Derived>
class Cloneable : public CopyableModule {
 public:
  virtual void reset() = 0;

 private:
  std::shared_ptr<Module> copied(Copies& copies) const override {
    check_is_all(typeid(*this) == typeid(Derived));
    const auto copy = std::make_shared<Derived>(static_cast<const Derived&>(*this));
    Cloneable& made = *copy;
    made.forget_registered();
    made.reset();
    made.adopt_all(*this, copies);
    return copy;
  }
};

// The base of shipped layers, whose rebind() names the members that are handles.
template <class Derived, class Base = CopyableModule>
class Layer : public Base {
 public:
  using Base::Base;

 private:
  std::shared_ptr<Module> copied(Copies& copies) const override {
    this->check_is_all(typeid(*this) == typeid(Derived));
    const auto copy = std::make_shared<Derived>(static_cast<const Derived&>(*this));
    static_cast<Layer&>(*copy).rebind_all(copies);
    return copy;
  }
  void adopt(const Module& of, Copies& copies) override {
    auto& self = static_cast<Derived&>(*this);
    self = dynamic_cast<const Derived&>(of);
    this->rebind_all(copies);
  }
};

// A handle to a module of any kind (torch::nn::AnyModule): what Sequential holds, and lists of
// several kinds.  any->as<Linear>() is the layer itself, or null.
class AnyModule : public HolderBase {
 public:
  using ContainedType = Module;

  AnyModule(std::nullptr_t) {}
  template <std::derived_from<HolderBase> Holder>
  requires(!std::same_as<Holder, AnyModule>) AnyModule(const Holder& holder)
      : AnyModule(holder.ptr()) {}
  template <std::derived_from<Module> Of>
  AnyModule(std::shared_ptr<Of> module) : module_(std::move(module)) {
    if constexpr (requires(Of & of, const Tensor& x) {
                    { of.forward(x) } -> std::same_as<Tensor>;
                  }) {
      forward_ = [](Module& of, const Tensor& x) { return static_cast<Of&>(of).forward(x); };
    }
  }

  // forward(x), with the hooks around it.  Throws CollectiveError KB-A010 for a module whose
  // forward() does not make a tensor of one alone: call as<...>() of it.
  Tensor operator()(const Tensor& x) const;
  // Throw KB-A010 for a handle to nothing.
  Module& operator*() const;
  Module* operator->() const { return &**this; }
  std::shared_ptr<Module> ptr() const { return module_; }
  explicit operator bool() const { return module_ != nullptr; }
  std::shared_ptr<Module> clone() const { return (**this).clone(); }

 private:
  friend class Copies;
  std::shared_ptr<Module> module_;
  Tensor (*forward_)(Module& module, const Tensor& x) = nullptr;
};

// An element of a container with its name: `{"up", Linear(torch, 8, 16)}`.
template <class Holder>
using Named = std::pair<std::string, Holder>;

// A function as a module: `Functional(kb::relu)`, `Functional(F::leaky_relu, 0.1)`.  Whether a
// context may be called is not asked, which a holder offers to each module: it is incomplete here.
class FunctionalImpl : public Layer<FunctionalImpl> {
 public:
  template <class Function, class... Arguments>
  requires(!std::same_as<Function, RuntimeContext> &&
           std::is_invocable_r_v<Tensor, Function, const Tensor&,
                                 Arguments...>) explicit FunctionalImpl(Function function,
                                                                        Arguments... arguments)
      : function_([function, arguments...](const Tensor& x) { return function(x, arguments...); }) {
  }
  Tensor forward(const Tensor& x) const { return function_(x); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};
KERNBENCH_MODULE(Functional);

// Modules one after the other, of any kinds, named "0", "1", ... unless they are given names:
// `Sequential(Linear(torch, 8, 16), ReLU(), Linear(torch, 16, 4))`, or
// `Sequential({{"up", Linear(torch, 8, 16)}, {"activation", ReLU()}})`.
class SequentialImpl : public Layer<SequentialImpl> {
 public:
  SequentialImpl() = default;
  template <std::convertible_to<AnyModule>... Modules>
  requires(sizeof...(Modules) > 0) explicit SequentialImpl(const Modules&... modules) {
    (push_back(modules), ...);
  }
  explicit SequentialImpl(const std::vector<Named<AnyModule>>& modules);

  void push_back(const AnyModule& module) { push_back(std::to_string(size()), module); }
  // Throws CollectiveError KB-A010 for a name that a module cannot have.
  void push_back(std::string name, const AnyModule& module);
  Tensor forward(const Tensor& x) const;
  std::size_t size() const { return modules_.size(); }
  bool is_empty() const { return modules_.empty(); }
  // Throws KB-A010 if there is none.
  const AnyModule& operator[](std::size_t i) const;
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }

 private:
  void rebind(Copies& copies) override;

  std::vector<AnyModule> modules_;
};
struct Sequential : ModuleHolder<SequentialImpl> {
  using ModuleHolder<SequentialImpl>::ModuleHolder;
  Sequential() = default;
  Sequential(std::initializer_list<Named<AnyModule>> modules)
      : Sequential(std::make_shared<SequentialImpl>(std::vector(modules))) {}
};

[[noreturn]] void refuse_index(std::string_view container, std::size_t index, std::size_t size);

// A list of modules, whose parameters are those of its owner.  Named "0", "1", ...
// `ModuleList<Linear>` has one kind, `ModuleList<>` several, whose elements are AnyModules.
template <class Holder>
class ModuleListImpl : public Layer<ModuleListImpl<Holder>> {
 public:
  ModuleListImpl() = default;
  template <std::convertible_to<Holder>... Modules>
  requires(sizeof...(Modules) > 0) explicit ModuleListImpl(const Modules&... modules) {
    (push_back(modules), ...);
  }

  void push_back(const Holder& module) {
    this->register_module(std::to_string(size()), module);
    modules_.push_back(module);
  }
  template <class Modules>
  void extend(const Modules& modules) {
    for (const Holder& module : modules) push_back(module);
  }
  std::size_t size() const { return modules_.size(); }
  bool is_empty() const { return modules_.empty(); }
  // Throws CollectiveError KB-A010 if there is none.
  const Holder& operator[](std::size_t i) const {
    if (i >= size()) refuse_index("ModuleList", i, size());
    return modules_[i];
  }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }
  std::string name() const override { return "ModuleList"; }

 private:
  void rebind(Copies& copies) override {
    for (Holder& module : modules_) copies.rebind(module);
  }

  std::vector<Holder> modules_;
};
template <class Holder = AnyModule>
struct ModuleList : ModuleHolder<ModuleListImpl<Holder>> {
  using ModuleHolder<ModuleListImpl<Holder>>::ModuleHolder;
};
template <std::derived_from<HolderBase>... Holders>
requires(sizeof...(Holders) > 0) ModuleList(Holders...)
->ModuleList<>;

// Modules by their names, in the order of insertion, of one kind or of several as in ModuleList.
template <class Holder>
class ModuleDictImpl : public Layer<ModuleDictImpl<Holder>> {
 public:
  ModuleDictImpl() = default;
  explicit ModuleDictImpl(const std::vector<Named<Holder>>& modules) {
    for (const auto& [name, module] : modules) insert(name, module);
  }

  // Throws CollectiveError KB-A010 for a name that a module cannot have.
  void insert(const std::string& name, const Holder& module) {
    this->register_module(name, module);
    modules_.insert(name, module);
  }
  bool contains(std::string_view name) const { return modules_.contains(name); }
  // Throws CollectiveError KB-A010 if there is none of this name.
  const Holder& operator[](std::string_view name) const { return modules_[name]; }
  std::vector<std::string> keys() const { return modules_.keys(); }
  std::vector<Holder> values() const { return modules_.values(); }
  std::size_t size() const { return modules_.size(); }
  bool is_empty() const { return modules_.is_empty(); }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }
  std::string name() const override { return "ModuleDict"; }

 private:
  void rebind(Copies& copies) override {
    for (auto& item : modules_) copies.rebind(item.value());
  }

  OrderedDict<Holder> modules_;
};
template <class Holder = AnyModule>
struct ModuleDict : ModuleHolder<ModuleDictImpl<Holder>> {
  using ModuleHolder<ModuleDictImpl<Holder>>::ModuleHolder;
  ModuleDict() = default;
  ModuleDict(std::initializer_list<Named<Holder>> modules)
      : ModuleDict(std::make_shared<ModuleDictImpl<Holder>>(std::vector(modules))) {}
};

}  // namespace kernbench::nn
