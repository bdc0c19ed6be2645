// The keyword arguments of functions that make tensors, and of those that reduce or move them.

#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tensor/dp_policy.h"
#include "sim_engine/base/dtype.h"

namespace kernbench {

// "ahbm:1" is a device (SIP) of the tensor's context, "ahbm" the caller's
// (torch.ahbm.set_device()), "cpu" the host, whose tensors are constants to copy from.
class Device {
 public:
  // Implicit: callers pass texts.  Throws DeviceError KB-M024 for another text.
  Device(std::string_view text);
  Device(const char* text) : Device(std::string_view(text)) {}

  bool is_host() const { return index_ == kHost; }
  // The number of the device; `current` where the text has none.  REQUIRES: !is_host()
  int index_or(int current) const { return index_ == kCurrent ? current : index_; }

 private:
  static constexpr int kHost = -1;
  static constexpr int kCurrent = -2;

  int index_ = kCurrent;
};

// The dimensions that a reduction reduces, negative ones counted from the last: `1`, `{0, -1}`, or
// none, which stands for all.
class Dimensions {
 public:
  Dimensions() = default;
  Dimensions(int dimension) : numbers_{dimension} {}
  Dimensions(std::same_as<bool> auto) = delete;  // it would count as 0 or 1
  Dimensions(std::initializer_list<int> dimensions) : numbers_(dimensions) {}

  const std::vector<int>& numbers() const { return numbers_; }

 private:
  std::vector<int> numbers_;
};

// The keyword arguments of torch's zeros(), full(), ...
struct TensorOptions {
  // Without a type it is f32; of arange() and randint() of whole numbers, i64.
  std::optional<DType> dtype = {};
  DPPolicy dp = {};
  std::string name = {};  // for messages; "tensor<n>" if empty
  // The number of SIPs, from the caller's device on, over which the last dimension is split before
  // `dp` places each part.  Only a single driver whose PEs are ranks (ADR-0024) sets it.
  int num_sips = 1;
};

}  // namespace kernbench
