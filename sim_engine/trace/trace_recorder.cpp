#include "sim_engine/trace/trace_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "sim_engine/base/append.h"
#include "sim_engine/trace/trace_json.h"

namespace kernbench::sim {

TraceRecorder::Track TraceRecorder::track(int sip, std::string_view name) {
  const auto [place, added] = tracks_.try_emplace(std::pair{sip, std::string(name)},
                                                  static_cast<Track>(sip_of_track_.size()));
  if (added) {
    sip_of_track_.push_back(sip);
    is_kept_.push_back(name.starts_with(prefix_));
  }
  return place->second;
}

TraceRecorder::Label TraceRecorder::label(std::string_view text, Bytes bytes) {
  const auto [found, is_new] = labels_.try_emplace(std::pair(std::string(text), bytes),
                                                   static_cast<Label>(label_texts_.size()));
  if (is_new) label_texts_.push_back({std::string(text), bytes});
  return found->second;
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
}

std::string TraceRecorder::to_json(Time from) const {
  std::string events;
  append_events(events, from);
  return trace_document(std::move(events));
}

std::vector<std::uint32_t> TraceRecorder::assign_lanes() const {
  std::vector<std::size_t> order(spans_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return spans_[i].start; });
  std::vector<std::vector<Time>> busy_until(sip_of_track_.size());  // by track and lane
  std::vector<std::uint32_t> lanes(spans_.size());
  for (const std::size_t i : order) {
    std::vector<Time>& ends = busy_until[spans_[i].track];
    const auto free = std::ranges::find_if(ends, [&](Time end) { return end <= spans_[i].start; });
    lanes[i] = static_cast<std::uint32_t>(free - ends.begin());
    if (free == ends.end()) ends.push_back(Time{0});
    ends[lanes[i]] = spans_[i].end;
  }
  return lanes;
}

void TraceRecorder::append_events(std::string& out, Time from, int first_process) const {
  const std::set<int> sips(sip_of_track_.begin(), sip_of_track_.end());
  for (const int sip : sips) {
    append_trace_name(out, "process_name", first_process + sip, 0, fmt::format("sip{}", sip));
  }
  const std::vector<std::uint32_t> lanes = assign_lanes();
  std::vector<std::uint32_t> lane_counts(sip_of_track_.size(), 1);
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    std::uint32_t& count = lane_counts[spans_[i].track];
    count = std::max(count, lanes[i] + 1);
  }
  // Threads are numbered by the units' names, so that the lanes of a unit stand beside each other.
  std::vector<std::size_t> first_threads(sip_of_track_.size());
  std::size_t thread = 1;
  for (const auto& [key, track] : tracks_) {
    if (!is_kept_[track]) continue;
    first_threads[track] = thread;
    for (std::uint32_t lane = 0; lane < lane_counts[track]; ++lane, ++thread) {
      const std::string number = lane == 0 ? "" : fmt::format(" #{}", lane + 1);
      append_trace_name(out, "thread_name", first_process + key.first,
                        static_cast<std::int64_t>(thread), key.second + number);
    }
  }
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    if (spans_[i].start < from) continue;
    append_event(out, spans_[i], first_threads[spans_[i].track] + lanes[i], first_process);
  }
}

void TraceRecorder::append_event(std::string& out, const Span& span, std::size_t thread,
                                 int first_process) const {
  const int process = first_process + sip_of_track_[span.track];
  const LabelText& label = label_texts_[span.label];
  append(out, R"({{"ph":"X","name":"{}","pid":{},"tid":{},"ts":)", json_escaped(label.text),
         process, thread);
  append_us(out, span.start);
  out += ",\"dur\":";
  append_us(out, span.end - span.start);
  if (label.bytes > 0) append(out, R"(,"args":{{"bytes":{}}})", label.bytes);
  out += "},\n";
  if (span.arrow.end == TraceArrow::End::none) return;
  const bool begins = span.arrow.end == TraceArrow::End::begins;
  append(out,
         R"({{"ph":"{}","bp":"e","cat":"ipcq","name":"message","id":{},"pid":{},"tid":{},"ts":)",
         begins ? 's' : 'f', span.arrow.id, process, thread);
  append_us(out, span.start);
  out += "},\n";
}

}  // namespace kernbench::sim
