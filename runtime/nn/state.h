// States of modules and optimizers by name, and files of them: torch.save and torch.load, in
// numpy's format .npz (ADR-0209).

#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench {

// Throws CollectiveError KB-A010: "Key 'x' is not defined".
[[noreturn]] void refuse_key(std::string_view key, std::string_view problem);

// Values by their names, in the order of insertion (torch::OrderedDict<std::string, T>).
template <class T>
class OrderedDict {
 public:
  // A pair, so that both can be bound: `const auto& [name, weight] : model->named_parameters()`.
  struct Item : std::pair<std::string, T> {
    using std::pair<std::string, T>::pair;
    const std::string& key() const { return this->first; }
    const T& value() const { return this->second; }
    T& value() { return this->second; }
    const T* operator->() const { return &value(); }
  };

  // Throws CollectiveError KB-A010 if there is such a key.
  T& insert(std::string key, T value) {
    if (!places_.emplace(key, items_.size()).second) refuse_key(key, "already defined");
    items_.emplace_back(std::move(key), std::move(value));
    return items_.back().value();
  }
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const T* find(std::string_view key) const {
    const auto place = places_.find(key);
    return place == places_.end() ? nullptr : &items_[place->second].value();
  }
  // Throws CollectiveError KB-A010 if there is no such key.
  const T& operator[](std::string_view key) const {
    if (const T* value = find(key)) return *value;
    refuse_key(key, "is not defined");
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const Item& item : items_) keys.push_back(item.key());
    return keys;
  }
  std::vector<T> values() const {
    std::vector<T> values;
    for (const Item& item : items_) values.push_back(item.value());
    return values;
  }

  std::size_t size() const { return items_.size(); }
  bool is_empty() const { return items_.empty(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }

 private:
  std::vector<Item> items_;
  std::map<std::string, std::size_t, std::less<>> places_;  // in items_
};

}  // namespace kernbench

namespace kernbench::nn {

// Tensors by their names: parameters and buffers of a module.
using StateDict = OrderedDict<Tensor>;

// Tensors and numbers by their names: the state of an optimizer, or of a whole training.
struct State {
  StateDict tensors;
  OrderedDict<double> numbers;
};

// Writes tensors and numbers by their names: numpy.load(path)["fc.weight"] reads one.  f16, f32,
// integers and bool keep their type; bf16 and the 8-bit types, which numpy has not, are written as
// f32, and numbers as f64 without dimensions.  The file appears complete or not at all.  This is a
// host read.  Throws IoError KB-I010 if it cannot be written.
//   kb::nn::save(model->state_dict(), "model.npz");
//   kb::nn::save(optimizer.state_dict(), "optimizer.npz");
void save(const State& state, const std::string& path);
void save(const StateDict& tensors, const std::string& path);

// Reads what save() or numpy.savez() wrote: host tensors, for load_state_dict(), which rounds them
// to its parameters' types; f64 without dimensions are numbers.  Throws IoError KB-I013 for another
// file, naming the entry and what would be right.
State load(const std::string& path);

}  // namespace kernbench::nn
