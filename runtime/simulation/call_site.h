// Text for messages that says where in the user's program a call stands.

#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

namespace kernbench::runtime {

// "ddp.cpp:41": the file without its folders.
std::string call_site(const std::source_location& location);
std::string call_site(std::string_view file, std::uint32_t line);

}  // namespace kernbench::runtime
