// The operator that a rank's program has called, for messages about the kernels that it launches:
// they have other names, and run later.

#pragma once

#include <source_location>
#include <string>
#include <string_view>

#include "runtime/simulation/simulation.h"

namespace kernbench::runtime {

// While it lives, what the caller launches belongs to `name` ("add_").  Inside of another one it
// changes nothing, since the user wrote the outer one.
class [[nodiscard]] NamedCall {
 public:
  NamedCall(Simulation& simulation, std::string_view name, std::string_view suffix = {});
  NamedCall(Simulation& simulation, std::string_view name, const std::source_location& location);
  ~NamedCall();
  NamedCall(const NamedCall&) = delete;
  NamedCall& operator=(const NamedCall&) = delete;

 private:
  std::string* const name_;  // that of the caller; null: inside of another one
};

// Notes a line of the caller's program: where an operator has none, it came after this one.
void note_line(Simulation& simulation, const std::source_location& location);

// " of add_, after ddp.cpp:41": the operator that the caller is in, with its line or the last one
// that is known; "" outside of operators that have named themselves.
std::string describe_call(Simulation& simulation);

}  // namespace kernbench::runtime
