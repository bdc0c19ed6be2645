// Records what the modelled units did, for the Perfetto UI (ui.perfetto.dev).
//
// A process of the trace is a SIP, a thread ("track") is a unit: a link, a DMA channel, a PE's CPU.
// Spans of one track must not overlap except by nesting, or the UI drops them.  A unit may do
// several things at once, as a link does whose packets take turns: what overlaps goes to lanes of
// the unit, each a track ("name", "name #2", ...).

#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

// The end of an arrow that a span carries.  Arrows join the two spans with equal ids.
struct TraceArrow {
  enum class End : std::uint8_t { none, begins, ends };
  End end = End::none;
  std::uint32_t id = 0;
};

class TraceRecorder {
 public:
  using Track = std::uint32_t;
  using Label = std::uint32_t;

  // Finds or adds a unit of a SIP.
  Track track(int sip, std::string_view name);

  // Finds or adds a text that spans are labelled with, and the bytes that it speaks of, if any.
  // REQUIRES: UTF-8
  Label label(std::string_view text, Bytes bytes = 0);

  // Records that `track` was busy with `label` from start to end.
  void span(Track track, Label label, Time start, Time end, TraceArrow arrow = {}) {
    if (is_kept_[track] && spans_.size() < most_) {
      spans_.push_back({track, label, start, end, arrow});
    }
  }

  // Keeps from now on the first `most` spans of units whose names begin so.  Drops everything that
  // was recorded before.
  void keep_only(std::string_view prefix, std::size_t most);

  // Cuts off everything after `now`: a run that failed will not execute it.
  void cut(Time now);

  std::size_t span_count() const { return spans_.size(); }

  // The spans that start at `from` or later, in the Chrome trace event format (JSON), with times in
  // microseconds.
  std::string to_json(Time from = Time{0}) const;
  // Appends the same events for a document; SIP n is process first_process + n.
  void append_events(std::string& out, Time from, int first_process = 0) const;

 private:
  struct Span {
    Track track;
    Label label;
    Time start;
    Time end;
    TraceArrow arrow;
  };

  // Returns the lane of each span, from 0: the first whose earlier spans have ended when it starts.
  std::vector<std::uint32_t> assign_lanes() const;
  void append_event(std::string& out, const Span& span, std::size_t thread,
                    int first_process) const;

  std::map<std::pair<int, std::string>, Track> tracks_;
  std::vector<int> sip_of_track_;
  std::vector<bool> is_kept_;  // by track
  std::string prefix_;         // of the names of those that are
  std::size_t most_ = std::numeric_limits<std::size_t>::max();
  std::map<std::pair<std::string, Bytes>, Label> labels_;
  struct LabelText {
    std::string text;
    Bytes bytes = 0;
  };
  std::vector<LabelText> label_texts_;
  std::vector<Span> spans_;
};

}  // namespace kernbench::sim
