// Where a tensor lies (torch.device).

#pragma once

#include <string_view>

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

}  // namespace kernbench
