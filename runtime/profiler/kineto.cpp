#include "runtime/profiler/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "runtime/simulation/simulation.h"
#include "sim_engine/base/append.h"
#include "sim_engine/trace/trace_json.h"

namespace kernbench::runtime {

namespace {

using Kind = RunSpan::Kind;

constexpr int kKernelStream = 7;
constexpr int kMessageStream = 19;
constexpr int kFirstGroupStream = 20;
constexpr int kHostThread = 1;

class DeviceTrace {
 public:
  DeviceTrace(const Simulation& simulation, int device);

  void add(const RunSpan& span);  // REQUIRES: it is of this device
  std::string document();         // to be called once

 private:
  void add_kernel(const RunSpan& span);
  void add_communication(const RunSpan& span, int stream);
  void add_on_device(std::string_view category, const std::string& name, int stream, Time start,
                     Time end, const std::string& more);
  void add_on_host(std::string_view category, const std::string& name, Time start, Time end,
                   const std::string& arguments);
  void add_event(std::string_view category, const std::string& name, int thread, Time start,
                 Time end, const std::string& arguments);

  const Simulation& simulation_;
  const int device_;
  const Time now_;
  std::string events_;
  std::int64_t last_correlation_ = 0;
};

void DeviceTrace::add_event(std::string_view category, const std::string& name, int thread,
                            Time start, Time end, const std::string& arguments) {
  append(events_, R"({{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":)", category,
         sim::json_escaped(name), device_, thread);
  sim::append_us(events_, start);
  events_ += R"(,"dur":)";
  sim::append_us(events_, end - start);
  events_ += fmt::format(R"(,"args":{{{}}}}},)", arguments) + '\n';
}

void DeviceTrace::add_on_device(std::string_view category, const std::string& name, int stream,
                                Time start, Time end, const std::string& more) {
  add_event(category, name, stream, start, end,
            fmt::format(R"("device":{},"stream":{}{})", device_, stream, more));
}

void DeviceTrace::add_on_host(std::string_view category, const std::string& name, Time start,
                              Time end, const std::string& arguments) {
  add_event(category, name, kHostThread, start, end, arguments);
}

// A launch whose PEs do not run at once has an event for each stretch of time in which one does.
void DeviceTrace::add_kernel(const RunSpan& span) {
  const std::string correlation = fmt::format(R"(,"correlation":{})", ++last_correlation_);
  add_on_host("cuda_runtime", "cudaLaunchKernel", span.issued, span.issued, correlation.substr(1));
  const auto& all = simulation_.activity().computing(device_).all();
  auto busy = std::ranges::upper_bound(all, span.start, {}, &Intervals::Interval::end);
  for (; busy != all.end() && busy->start < span.end; ++busy) {
    const Time start = std::max(span.start, busy->start);
    const Time end = std::min({span.end, busy->end, now_});
    if (start < end) {
      add_on_device("kernel", span.name, kKernelStream, start, end, correlation);
    }
  }
}

void DeviceTrace::add_communication(const RunSpan& span, int stream) {
  std::string more = fmt::format(R"(,"Collective name":"{}","bytes":{})",
                                 sim::json_escaped(span.name), span.bytes);
  if (span.group >= 0) more += fmt::format(R"(,"Process Group Name":"{}")", span.group);
  if (span.peer >= 0) more += fmt::format(R"(,"peer":{})", span.peer);
  const std::string algorithm = span.algorithm.empty() ? "" : '_' + span.algorithm;
  add_on_device("kernel", fmt::format("ncclKernel_{}{}", span.name, algorithm), stream, span.start,
                std::min(span.end, now_), more);
}

void DeviceTrace::add(const RunSpan& span) {
  if (span.start >= now_ && span.start > Time{0}) return;
  switch (span.kind) {
    case Kind::kernel:
      add_kernel(span);
      return;
    case Kind::collective:
      add_communication(span, kFirstGroupStream + span.group);
      return;
    case Kind::message:
      add_communication(span, kMessageStream);
      return;
    case Kind::scope:
      if (span.rank >= 0) {
        add_on_host("user_annotation", span.name, span.start, std::min(span.end, now_), "");
      }
      return;
    case Kind::collective_kernel:
    case Kind::wait:
    case Kind::action:
    case Kind::mark:
      return;
  }
}

// HTA's time goes from the first event of a device to the last: two of no length stand at the
// begin and the end of the run.
DeviceTrace::DeviceTrace(const Simulation& simulation, int device)
    : simulation_(simulation), device_(device), now_(simulation.now()) {
  add_on_device("gpu_memset", "Memset (begin)", kKernelStream, Time{0}, Time{0}, "");
}

std::string DeviceTrace::document() {
  add_on_device("gpu_memset", "Memset (end)", kKernelStream, now_, now_, "");
  events_.erase(events_.size() - 2);  // the last comma
  return fmt::format(
      "{{\"schemaVersion\":1,\"distributedInfo\":{{\"backend\":\"ahbm\",\"rank\":{},"
      "\"world_size\":{}}},\n\"traceEvents\":[\n{}\n]}}\n",
      device_, simulation_.topology().system.sip_count, events_);
}

}  // namespace

std::vector<std::string> kineto_traces(const Simulation& simulation) {
  std::vector<DeviceTrace> traces;
  for (int device = 0; device < simulation.topology().system.sip_count; ++device) {
    traces.emplace_back(simulation, device);
  }
  for (const RunSpan& span : simulation.run_log()->spans()) {
    traces.at(static_cast<std::size_t>(span.device)).add(span);
  }
  std::vector<std::string> documents;
  for (DeviceTrace& trace : traces) documents.push_back(trace.document());
  return documents;
}

std::string kineto_file_name(std::size_t device) {
  return fmt::format("rank{}.json", device);
}

void remove_stale_kineto_files(const std::filesystem::path& folder, std::size_t count) {
  std::error_code ignored;  // usually there is no such file
  while (std::filesystem::remove(folder / kineto_file_name(count), ignored)) ++count;
}

}  // namespace kernbench::runtime
