// Errors of a kernel describe the arguments of its launch by these.

#pragma once

#include <string>

namespace kernbench::tl {

class LaunchArguments {
 public:
  // Describes why a PE that holds no part of a tensor cannot use it.  The tensor is identified by
  // the address of its name.
  virtual std::string describe_absent(const std::string& tensor_name) const = 0;

 protected:
  ~LaunchArguments() = default;
};

}  // namespace kernbench::tl
