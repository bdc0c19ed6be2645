#include "runtime/fiber/fiber.h"

#include <algorithm>
#include <array>

namespace kernbench::runtime {

std::string Fiber::name() const {
  std::array<char, 256> buffer;
  return {buffer.data(), write_name(buffer)};
}

std::size_t Fiber::write_name(std::span<char> buffer) const noexcept {
  if (name_writer_ != nullptr) return std::min(name_writer_(local_, buffer), buffer.size());
  const std::size_t length = std::min(name_.size(), buffer.size());
  std::copy_n(name_.data(), length, buffer.data());
  return length;
}

std::string Fiber::waits_for() const {
  return state_ == State::waiting && describe_ ? describe_() : std::string();
}

}  // namespace kernbench::runtime
