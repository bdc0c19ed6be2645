#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  };

  // Throws CollectiveError KB-A010 if there is such a key.
  T& insert(std::string key, T value) {
    if (contains(key)) refuse_key(key, "already defined");
    items_.emplace_back(std::move(key), std::move(value));
    return items_.back().value();
  }
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const T* find(std::string_view key) const {
    for (const Item& item : items_) {
      if (item.key() == key) return &item.value();
    }
    return nullptr;
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
};

}  // namespace kernbench
