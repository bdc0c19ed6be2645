#include "sim_engine/trace/trace_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace kernbench::sim {

namespace {

// Exact microseconds: picoseconds are six decimals.
void append_us(std::string& out, Time time) {
  fmt::format_to(std::back_inserter(out), "{}.{:06}", time.count() / 1'000'000,
                 time.count() % 1'000'000);
}

// `text` as the inside of a JSON string.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

void append_metadata(std::string& out, std::string_view what, int sip, std::uint32_t track,
                     std::string_view name) {
  fmt::format_to(std::back_inserter(out),
                 R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":"{}"}}}},)"
                 "\n",
                 what, sip, track, escaped(name));
}

}  // namespace

TraceRecorder::Track TraceRecorder::track(int sip, std::string_view name) {
  const auto [place, added] = tracks_.try_emplace(std::pair{sip, std::string(name)},
                                                  static_cast<Track>(sip_of_track_.size()));
  if (added) {
    sip_of_track_.push_back(sip);
    busy_until_.push_back(Time{0});
  }
  return place->second;
}

TraceRecorder::Label TraceRecorder::label(std::string_view text) {
  if (const auto found = labels_.find(text); found != labels_.end()) return found->second;
  const auto label = static_cast<Label>(label_texts_.size());
  labels_.emplace(text, label);
  label_texts_.emplace_back(text);
  return label;
}

void TraceRecorder::span_in_lane(int sip, std::string_view unit, Label text, Time start, Time end,
                                 TraceArrow arrow) {
  Track lane = track(sip, unit);
  for (int number = 2; busy_until_[lane] > start; ++number) {
    lane = track(sip, fmt::format("{} #{}", unit, number));
  }
  busy_until_[lane] = end;
  span(lane, text, start, end, arrow);
}

void TraceRecorder::cut(Time now) {
  std::erase_if(spans_, [now](const Span& span) { return span.start >= now && span.end > now; });
  for (Span& span : spans_) span.end = std::min(span.end, now);
  for (Time& until : busy_until_) until = std::min(until, now);
}

std::string TraceRecorder::to_json(Time from) const {
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  const std::set<int> sips(sip_of_track_.begin(), sip_of_track_.end());
  for (const int sip : sips)
    append_metadata(out, "process_name", sip, 0, fmt::format("sip{}", sip));
  for (const auto& [key, track] : tracks_) {
    append_metadata(out, "thread_name", key.first, track + 1, key.second);
  }
  for (const Span& span : spans_) {
    if (span.start < from) continue;
    const int sip = sip_of_track_[span.track];
    fmt::format_to(std::back_inserter(out), R"({{"ph":"X","name":"{}","pid":{},"tid":{},"ts":)",
                   escaped(label_texts_[span.label]), sip, span.track + 1);
    append_us(out, span.start);
    out += ",\"dur\":";
    append_us(out, span.end - span.start);
    out += "},\n";
    if (span.arrow.end == TraceArrow::End::none) continue;
    const bool begins = span.arrow.end == TraceArrow::End::begins;
    fmt::format_to(
        std::back_inserter(out),
        R"({{"ph":"{}","bp":"e","cat":"ipcq","name":"message","id":{},"pid":{},"tid":{},"ts":)",
        begins ? 's' : 'f', span.arrow.id, sip, span.track + 1);
    append_us(out, span.start);
    out += "},\n";
  }
  if (out.ends_with(",\n")) out.erase(out.size() - 2);
  out += "\n]}\n";
  return out;
}

}  // namespace kernbench::sim
