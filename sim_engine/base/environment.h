// Switches among the environment's variables.

#pragma once

#include <optional>

namespace kernbench {

// True of a variable that is 1, false of 0; nullopt if it is empty or not set.  Throws UsageError
// KB-U013 for another text.
std::optional<bool> find_switch(const char* name);

}  // namespace kernbench
