#include "sim_engine/trace/trace_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim_engine/base/append.h"
#include "sim_engine/trace/trace_json.h"

namespace kernbench::sim {

TraceRecorder::Track TraceRecorder::track(int sip, std::string_view name) {
  const auto [place, added] = tracks_.try_emplace(std::pair{sip, std::string(name)},
                                                  static_cast<Track>(sip_of_track_.size()));
  if (added) {
    sip_of_track_.push_back(sip);
    busy_until_.push_back(Time{0});
    is_kept_.push_back(name.starts_with(prefix_));
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

void TraceRecorder::keep_only(std::string_view prefix, std::size_t most) {
  prefix_ = prefix;
  most_ = most;
  spans_.clear();
  for (const auto& [key, track] : tracks_) is_kept_[track] = key.second.starts_with(prefix);
}

void TraceRecorder::cut(Time now) {
  std::erase_if(spans_, [now](const Span& span) { return span.start >= now && span.end > now; });
  for (Span& span : spans_) span.end = std::min(span.end, now);
  for (Time& until : busy_until_) until = std::min(until, now);
}

std::string TraceRecorder::to_json(Time from) const {
  std::string events;
  append_events(events, from);
  return trace_document(std::move(events));
}

void TraceRecorder::append_events(std::string& out, Time from, int first_process) const {
  const std::set<int> sips(sip_of_track_.begin(), sip_of_track_.end());
  for (const int sip : sips) {
    append_trace_name(out, "process_name", first_process + sip, 0, fmt::format("sip{}", sip));
  }
  for (const auto& [key, track] : tracks_) {
    if (!is_kept_[track]) continue;
    append_trace_name(out, "thread_name", first_process + key.first, track + 1, key.second);
  }
  for (const Span& span : spans_) {
    if (span.start >= from) append_event(out, span, first_process);
  }
}

void TraceRecorder::append_event(std::string& out, const Span& span, int first_process) const {
  const int process = first_process + sip_of_track_[span.track];
  append(out, R"({{"ph":"X","name":"{}","pid":{},"tid":{},"ts":)",
         json_escaped(label_texts_[span.label]), process, span.track + 1);
  append_us(out, span.start);
  out += ",\"dur\":";
  append_us(out, span.end - span.start);
  out += "},\n";
  if (span.arrow.end == TraceArrow::End::none) return;
  const bool begins = span.arrow.end == TraceArrow::End::begins;
  append(out,
         R"({{"ph":"{}","bp":"e","cat":"ipcq","name":"message","id":{},"pid":{},"tid":{},"ts":)",
         begins ? 's' : 'f', span.arrow.id, process, span.track + 1);
  append_us(out, span.start);
  out += "},\n";
}

}  // namespace kernbench::sim
