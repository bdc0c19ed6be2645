// The one gate.  Every entry from the host asks here about what it was given: an object belongs to
// a context, and some, such as a stream, to the rank that made it; it is used while that lives, and
// not inside a kernel.

#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/fiber/function_ref.h"

namespace kernbench::runtime {

class Simulation;

// Names an object for a message: "stream 1 of device 0".  It is called only if there is one.
using DescribeObject = FunctionRef<std::string()>;

// Throws CollectiveError KB-R012 if the caller is a kernel.  `call` names what it calls.
void check_outside_kernels(Simulation& simulation, std::string_view call,
                           DescribeObject object = {});

// Throws CollectiveError KB-R013 if the context has ended.  Values of its tensors can be read
// nevertheless.
void check_lives(const Simulation& simulation, std::string_view call, DescribeObject object);

// Throws DeviceError KB-M013 unless an object of the context `of` is used in that context, with the
// object that `beside` names.
void check_same_context(const Simulation& of, const Simulation& used_in, std::string_view call,
                        DescribeObject object, DescribeObject beside = {});

// To whom an object belongs: to the rank that made it, until its spawn() ends, or to the code
// outside of ranks.
class Owner {
 public:
  explicit Owner(Simulation& simulation);  // the caller

  bool is_caller(Simulation& simulation) const;
  // Asks all but check_same_context().  Throws CollectiveError KB-R012 and KB-R013, and KB-R020
  // unless the caller is the owner.
  void check_is_caller(Simulation& simulation, std::string_view call, DescribeObject object) const;

 private:
  std::string describe() const;

  std::weak_ptr<const int> rank_;  // expires with its spawn(), or with the context
  int number_ = 0;
  bool is_driver_ = false;
};

}  // namespace kernbench::runtime
