
#include <charconv>

#include "runtime/tensor/tensor_options.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/visible_text.h"

namespace kernbench {

Device::Device(std::string_view text) {
  constexpr std::string_view kName = "ahbm";
  if (text == kName) return;
  if (text == "cpu") {
    index_ = kHost;
    return;
  }
  if (text.starts_with(kName) && text.substr(kName.size()).starts_with(':')) {
    const std::string_view number = text.substr(kName.size() + 1);
    const char* const end = number.data() + number.size();
    const auto [at, error] = std::from_chars(number.data(), end, index_);
    if (error == std::errc() && at == end && index_ >= 0) return;
  }
  throw DeviceError(
      "KB-M024",
      "there is no device '{}': ahbm, ahbm:0, ahbm:1, ... are devices, and cpu is the host{}",
      visible(text),
      text == "local"
          ? "; local is a backend of init_process_group(), whose ranks' tensors lie on ahbm"
          : "");
}

}  // namespace kernbench
