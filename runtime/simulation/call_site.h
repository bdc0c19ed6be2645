// Text for messages that says where in the user's program a call stands.

#pragma once

#include <source_location>
#include <string>

namespace kernbench::runtime {

// "ddp.cpp:41": the file without its folders.
std::string call_site(const std::source_location& location);

}  // namespace kernbench::runtime
