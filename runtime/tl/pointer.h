// Where a kernel loads and stores.

#pragma once

#include <cstdint>
#include <string>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"
#include "sim_engine/values/device_buffer.h"

namespace kernbench::tl {

class AccessRule;
class LaunchArguments;

// A pointer to an element of a shard in HBM.
class Pointer {
 public:
  Pointer() = default;
  Pointer(const sim::DeviceBuffer& buffer, const std::string& tensor_name)
      : buffer_(buffer), offset_(buffer.first), tensor_name_(&tensor_name) {}
  // For a tensor that is perhaps no argument of the launch, and so unchecked: each access asks
  // `rule`.
  Pointer(const sim::DeviceBuffer& buffer, const std::string& tensor_name, const AccessRule& rule)
      : Pointer(buffer, tensor_name) {
    rule_ = &rule;
  }
  // For a tensor of a launch that has no part on the PE.  REQUIRES: both arguments outlive it
  Pointer(const std::string& tensor_name, const LaunchArguments& launched)
      : tensor_name_(&tensor_name), absent_from_(&launched) {}

  DType dtype() const { return buffer_.dtype; }

  // Returns a pointer `elements` further on.  It may point anywhere; load() and store() check it.
  Pointer operator+(std::int64_t elements) const {
    Pointer moved = *this;
    moved.offset_ += elements;
    return moved;
  }

 private:
  friend class Context;

  // The offset as a 64-bit number.  REQUIRES: check_access() has passed
  std::int64_t offset() const { return static_cast<std::int64_t>(offset_); }

  sim::DeviceBuffer buffer_;
  // The offset in the buffer's region; Wide, since a wrapped one would be another element.
  Wide offset_ = 0;
  const std::string* tensor_name_ = nullptr;
  const LaunchArguments* absent_from_ = nullptr;
  const AccessRule* rule_ = nullptr;  // lives as long as the buffer's region
};

}  // namespace kernbench::tl
