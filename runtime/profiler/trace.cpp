#include "runtime/profiler/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "runtime/simulation/simulation.h"
#include "sim_engine/base/append.h"
#include "sim_engine/trace/trace_json.h"
#include "sim_engine/trace/trace_recorder.h"

namespace kernbench::runtime {

namespace {

using Kind = RunSpan::Kind;

constexpr int kFirstSip = 1'000'000;  // process of SIP 0; ranks come before it

bool is_shown(Kind kind, TraceLevel level) {
  if (kind == Kind::collective_kernel) return false;
  return kind != Kind::kernel || level != TraceLevel::ranks;
}

// "program", "pipeline", "kernels", "group 0", "messages"
std::string make_track_name(const RunSpan& span) {
  switch (span.kind) {
    case Kind::kernel:
    case Kind::collective_kernel:
      return "kernels";
    case Kind::collective:
      return fmt::format("group {}", span.group);
    case Kind::message:
      return "messages";
    case Kind::action:
      return "pipeline";
    default:
      return "program";
  }
}

class RankTracks {
 public:
  explicit RankTracks(Time now) : now_(now) {}

  void add(const RunSpan& span);
  std::string take_events() && { return std::move(events_); }

 private:
  struct Lane {
    int thread = 0;
    Time busy_until{0};
  };

  static int process_of(const RunSpan& span) { return span.rank + 1; }
  int find_thread(const RunSpan& span, Time end);
  void add_place(const RunSpan& span, int thread, Time at);
  void add_arguments(const RunSpan& span);
  void add_arrow(const RunSpan& span, int thread, Time end);

  const Time now_;
  std::string events_;
  std::map<int, int> thread_counts_;  // by process
  std::map<std::pair<int, std::string>, std::vector<Lane>> lanes_;
};

// The first lane of the span's track that is free.  A program's spans nest.
int RankTracks::find_thread(const RunSpan& span, Time end) {
  const int process = process_of(span);
  const std::string track = make_track_name(span);
  std::vector<Lane>& lanes = lanes_[{process, track}];
  const bool nests = track == "program";
  auto lane = std::ranges::find_if(
      lanes, [&](const Lane& known) { return nests || known.busy_until <= span.start; });
  if (lane == lanes.end()) {
    int& count = thread_counts_[process];
    if (count == 0) {
      const std::string name = span.rank < 0 ? "driver" : fmt::format("rank {}", span.rank);
      sim::append_trace_name(events_, "process_name", process, 0, name);
    }
    lane = lanes.insert(lanes.end(), {++count, Time{0}});
    const std::string number = lanes.size() == 1 ? "" : fmt::format(" #{}", lanes.size());
    sim::append_trace_name(events_, "thread_name", process, count, track + number);
  }
  lane->busy_until = std::max(lane->busy_until, end);
  return lane->thread;
}

void RankTracks::add_place(const RunSpan& span, int thread, Time at) {
  append(events_, R"("pid":{},"tid":{},"ts":)", process_of(span), thread);
  sim::append_us(events_, at);
}

void RankTracks::add_arguments(const RunSpan& span) {
  std::string arguments;
  const auto add = [&](std::string_view name, const std::string& value) {
    arguments += fmt::format(R"({}"{}":{})", arguments.empty() ? "" : ",", name, value);
  };
  const auto text = [](std::string_view value) { return '"' + sim::json_escaped(value) + '"'; };
  if (!span.where.empty()) add("line", text(span.where));
  if (!span.module.empty()) add("module", text(span.module));
  if (span.bytes > 0) add("bytes", fmt::to_string(span.bytes));
  if (span.kind == Kind::collective && !span.part.empty()) add("call", text(span.name));
  if (span.group >= 0) add("group", fmt::to_string(span.group));
  if (span.sequence >= 0) add("sequence", fmt::to_string(span.sequence));
  if (span.peer >= 0) add("peer", fmt::to_string(span.peer));
  if (!span.algorithm.empty()) add("algorithm", text(span.algorithm));
  if (span.pe_count > 0) add("PEs", fmt::to_string(span.pe_count));
  if (span.issued < span.start) add("issued_ns", fmt::format("{}", to_ns(span.issued)));
  if (!arguments.empty()) events_ += fmt::format(R"(,"args":{{{}}})", arguments);
}

// The arrow of a message, from the start of its send to the end of its receive.
void RankTracks::add_arrow(const RunSpan& span, int thread, Time end) {
  if (span.flow == 0 || end == span.start) return;
  const bool is_send = span.name.find("send") != std::string::npos;
  events_ += fmt::format(R"({{"ph":"{}","bp":"e","cat":"message","name":"message","id":{},)",
                         is_send ? 's' : 'f', span.flow);
  add_place(span, thread, is_send ? span.start : end - Time{1});  // inside of the span
  events_ += "},\n";
}

void RankTracks::add(const RunSpan& span) {
  const Time end = std::max(span.start, std::min(span.end, now_));
  const int thread = find_thread(span, end);
  const bool is_mark = span.kind == Kind::mark;
  const bool is_part = span.kind == Kind::collective && !span.part.empty();
  events_ += fmt::format(R"({{"ph":"{}","cat":"{}","name":"{}",)", is_mark ? 'i' : 'X',
                         name_of(span.kind), sim::json_escaped(is_part ? span.part : span.name));
  add_place(span, thread, span.start);
  if (is_mark) {
    events_ += R"(,"s":"p")";
  } else {
    events_ += ",\"dur\":";
    sim::append_us(events_, end - span.start);
  }
  add_arguments(span);
  events_ += "},\n";
  add_arrow(span, thread, end);
}

}  // namespace

std::string trace_json(const Simulation& simulation, TraceLevel level) {
  std::vector<const RunSpan*> spans;
  if (const RunLog* const log = simulation.run_log()) {
    for (const RunSpan& span : log->spans()) {
      if (is_shown(span.kind, level)) spans.push_back(&span);
    }
  }
  std::ranges::stable_sort(spans, {}, [](const RunSpan* span) { return span->start; });
  RankTracks tracks(simulation.now());
  for (const RunSpan* span : spans) tracks.add(*span);
  std::string events = std::move(tracks).take_events();
  const sim::TraceRecorder* const units = simulation.machine().trace();
  if (units != nullptr && level == TraceLevel::units) {
    units->append_events(events, Time{0}, kFirstSip);
  }
  return sim::trace_document(std::move(events));
}

}  // namespace kernbench::runtime
