#include "sim_engine/trace/trace_json.h"

#include "sim_engine/base/append.h"

namespace kernbench::sim {

void append_us(std::string& out, Time time) {
  append(out, "{}.{:06}", time.count() / 1'000'000, time.count() % 1'000'000);
}

std::string json_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      append(out, "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

void append_trace_name(std::string& out, std::string_view what, std::int64_t process,
                       std::int64_t thread, std::string_view name) {
  append(out,
         R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":"{}"}}}},)"
         "\n",
         what, process, thread, json_escaped(name));
}

std::string trace_document(std::string events) {
  if (events.ends_with(",\n")) events.erase(events.size() - 2);
  return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + events + "\n]}\n";
}

}  // namespace kernbench::sim
