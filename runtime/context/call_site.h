// Where a call stands in the user's program, for messages.

#pragma once

#include <source_location>
#include <string>

namespace kernbench::runtime {

// "ddp.cpp:41": the file without its folders.
std::string call_site(const std::source_location& location);

}  // namespace kernbench::runtime
