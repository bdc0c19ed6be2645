#pragma once

#include <utility>

// A field of an options struct with torch's accessors: `LinearOptions(8, 4).bias(false)` sets it,
// `options.bias()` reads it (TORCH_ARG).
#define KERNBENCH_OPTION(Type, name, ...)  \
 public:                                   \
  auto name(Type value)->decltype(*this) { \
    name##_ = std::move(value);            \
    return *this;                          \
  }                                        \
  const Type& name() const {               \
    return name##_;                        \
  }                                        \
                                           \
 private:                                  \
  Type name##_ {                           \
    __VA_ARGS__                            \
  }
