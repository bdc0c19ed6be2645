// Pieces of the Chrome trace event format.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

// Appends microseconds, exactly: picoseconds are six decimals.
void append_us(std::string& out, Time time);

// `text` as the inside of a JSON string.
std::string json_escaped(std::string_view text);

// Appends {"ph":"M",...}: the name of a process or of a thread ("process_name", "thread_name").
void append_trace_name(std::string& out, std::string_view what, std::int64_t process,
                       std::int64_t thread, std::string_view name);

// Puts events, each with a comma and a line feed behind it, into a document.
std::string trace_document(std::string events);

}  // namespace kernbench::sim
