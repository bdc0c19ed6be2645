#include "runtime/guards/flight_recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "sim_engine/base/append.h"

namespace kernbench::runtime {

namespace {

// Writes text to a file through its own buffer, without malloc: the process may be ending inside
// malloc.
class FileWriter {
 public:
  explicit FileWriter(const char* path)
      : file_(::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {}
  ~FileWriter() {
    if (file_ >= 0) ::close(file_);
  }
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  bool is_open() const { return file_ >= 0; }

  // REQUIRES: the text is no longer than kLongest
  template <class... Arguments>
  void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    if (length_ + kLongest > buffer_.size()) flush();
    length_ += format_into(std::span(buffer_).subspan(length_, kLongest), format,
                           std::forward<Arguments>(arguments)...);
  }
  // Returns true if all text is in the file.
  bool finish() {
    flush();
    return is_open() && is_good_;
  }

 private:
  static constexpr std::size_t kLongest = 512;

  void flush() {
    const char* next = buffer_.data();
    while (length_ > 0 && is_good_) {
      const ssize_t count = ::write(file_, next, length_);
      is_good_ = count > 0;
      if (is_good_) length_ -= static_cast<std::size_t>(count), next += count;
    }
    length_ = 0;
  }

  const int file_;
  std::array<char, 8192> buffer_;
  std::size_t length_ = 0;
  bool is_good_ = true;
};

std::string_view name_of(FlightEvent::State state) {
  switch (state) {
    case FlightEvent::State::issued:
      return "issued";
    case FlightEvent::State::started:
      return "started";
    default:
      return "completed";
  }
}

// Prints the name of a source file.  Characters that would need an escape are left out; they occur
// only in unusual source trees.
void print_place(FileWriter& file, const std::source_location& location) {
  const std::string_view path(location.file_name());
  file.print(", \"at\": \"");
  for (const char c : path.substr(path.find_last_of('/') + 1)) {
    if (c != '"' && c != '\\' && c >= ' ') file.print("{}", c);
  }
  file.print(":{}\"", location.line());
}

void print_event(FileWriter& file, FlightRecorder::Id id, const FlightEvent& event) {
  file.print("{{\"id\": {}, \"function\": \"{}\", \"group\": {}", id, event.function, event.group);
  if (event.sequence >= 0) {
    file.print(", \"sequence\": {}", event.sequence);
  } else {
    file.print(", \"peer\": {}, \"tag\": {}", event.peer, event.tag);
  }
  if (event.has_tensor) {
    file.print(", \"sizes\": [");
    for (const std::int64_t& size : event.shape.sizes()) {
      file.print("{}{}", &size == event.shape.begin() ? "" : ", ", size);
    }
    file.print("], \"dtype\": \"{}\"", kernbench::name_of(event.dtype));
  }
  if (!event.reduce_op.empty()) file.print(", \"reduce_op\": \"{}\"", event.reduce_op);
  if (event.root >= 0) file.print(", \"root\": {}", event.root);
  file.print(", \"async\": {}, \"state\": \"{}\", \"issued_ps\": {}", event.is_async,
             name_of(event.state), event.issued.count());
  if (event.state >= FlightEvent::State::started) {
    file.print(", \"started_ps\": {}", event.started.count());
  }
  if (event.state == FlightEvent::State::completed) {
    file.print(", \"completed_ps\": {}", event.completed.count());
  }
  print_place(file, event.location);
  file.print("}}");
}

using Path = std::array<char, 4096>;

void set_path(Path& path, std::string_view folder, std::string_view code, std::string_view end) {
  const std::size_t written =
      format_into(std::span(path).first(path.size() - 1), "{}{}kb-fr-{}.json{}", folder,
                  folder.empty() || folder.ends_with('/') ? "" : "/", code, end);
  path[written] = '\0';
}

void say(std::string_view format, const Path& path) {
  std::array<char, 5120> line;
  const std::size_t length = format_into(line, fmt::runtime(format), path.data());
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), length);
}

}  // namespace

FlightRecorder::FlightRecorder(const char* wanted) {
  if (wanted == nullptr) return;
  folder_ = wanted;
  is_off_ = folder_ == "off";
}

FlightRecorder::Id FlightRecorder::issue(int rank, const FlightEvent& event) {
  const auto index = static_cast<std::size_t>(rank);
  if (index >= rings_.size()) [[unlikely]]
    rings_.resize(index + 1);
  Ring& ring = rings_[index];
  if (ring.events.size() < kCapacity) {
    ring.events.push_back(event);
  } else {
    ring.events[ring.count % kCapacity] = event;
  }
  return ring.count++;
}

// Returns nullptr if later events have overwritten this one, or if a new run has begun.
FlightEvent* FlightRecorder::find(int rank, Id id) {
  const auto index = static_cast<std::size_t>(rank);
  if (index >= rings_.size()) return nullptr;
  Ring& ring = rings_[index];
  if (id >= ring.count || ring.count - id > kCapacity) return nullptr;
  return &ring.events[id % kCapacity];
}

void FlightRecorder::start(int rank, Id id, Time now) {
  FlightEvent* const event = find(rank, id);
  if (event == nullptr) return;
  event->state = FlightEvent::State::started;
  event->started = now;
}

void FlightRecorder::runs_by(int rank, Id id, std::string_view algorithm) {
  if (FlightEvent* event = find(rank, id)) event->algorithm = algorithm;
}

void FlightRecorder::complete(int rank, Id id, Time now) {
  FlightEvent* const event = find(rank, id);
  if (event == nullptr) return;
  event->state = FlightEvent::State::completed;
  event->completed = now;
}

void FlightRecorder::clear() {
  for (Ring& ring : rings_) {
    ring.events.clear();
    ring.count = 0;
  }
  failure_.clear();
}

std::vector<FlightEvent> FlightRecorder::events(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  if (index >= rings_.size()) return {};
  const Ring& ring = rings_[index];
  std::vector<FlightEvent> events;
  for (Id id = ring.count - ring.events.size(); id < ring.count; ++id) {
    events.push_back(ring.events[id % kCapacity]);
  }
  return events;
}

void FlightRecorder::failed(std::string_view code, Time now) {
  failure_ = code;
  if (folder_.empty() || is_off_) return;
  std::error_code ignored;  // write() says that there is no such folder
  std::filesystem::create_directories(folder_, ignored);
  write(code, now);
}

void FlightRecorder::write(std::string_view code, Time now) const noexcept {
  if (is_off_) return;
  Path path;
  Path unfinished;
  set_path(path, folder_, code, "");
  set_path(unfinished, folder_, code, ".tmp");
  // A temporary file is written and then renamed, so that no reader finds a part of a record.
  bool is_written = false;
  {
    FileWriter file(unfinished.data());
    if (file.is_open()) {
      file.print(
          "{{\"kernbench_flight_record\": 1, \"code\": \"{}\", \"time_ps\": {},\n \"ranks\": [",
          code, now.count());
      for (std::size_t rank = 0; rank < rings_.size(); ++rank) {
        const Ring& ring = rings_[rank];
        file.print("{}\n  {{\"rank\": {}, \"recorded\": {}, \"events\": [", rank == 0 ? "" : ",",
                   rank, ring.count);
        const Id first = ring.count - ring.events.size();
        for (Id id = first; id < ring.count; ++id) {
          file.print("{}\n   ", id == first ? "" : ",");
          print_event(file, id, ring.events[id % kCapacity]);
        }
        file.print("]}}");
      }
      file.print("]}}\n");
      is_written = file.finish();
    }
  }
  if (is_written && std::rename(unfinished.data(), path.data()) == 0) {
    return say("kernbench: flight record: {}\n", path);
  }
  ::unlink(unfinished.data());
  say("kernbench: warning: [KB-I012] cannot write the flight record {}\n", path);
}

}  // namespace kernbench::runtime
