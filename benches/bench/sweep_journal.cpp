#include "benches/bench/sweep_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "benches/bench/console.h"
#include "benches/bench/output_file.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/input_file.h"

namespace kernbench::benches {

namespace fs = std::filesystem;

namespace {

constexpr Bytes kMaxJournal = Bytes{1} << 30;  // a larger one is not ours

// Reads the journal.  A path that is no readable file counts as an output that cannot be written.
std::string read_journal(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  try {
    return read_input_file(path, kMaxJournal);
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    throw IoError("KB-I010",
                  "the journal cannot be used: {}; remove it, or give another output folder",
                  text.substr(text.find(' ') + 1));
  }
}

// A torn line, at the end, is none.
void for_each_line(std::string_view text, const std::function<void(std::string_view)>& action) {
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    action(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

}  // namespace

SweepJournal::SweepJournal(fs::path path, std::uint64_t inputs)
    : path_(std::move(path)), inputs_(inputs) {
  create_output_folder(path_.parent_path());
  const std::string text = read_journal(path_);
  const std::string whole = whole_lines(text);
  if (whole != text) OutputFile(path_.string()).commit(whole);
  is_empty_ = whole.empty();
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ >= 0) return;
  throw IoError("KB-I010", "cannot create '{}': {}", path_.string(), std::strerror(errno));
}

SweepJournal::~SweepJournal() {
  ::close(descriptor_);
  if (is_empty_) ::unlink(path_.c_str());
}

void SweepJournal::forget(const fs::path& path, std::uint64_t inputs) {
  std::error_code ignored;  // at worst it is found stale, or of use
  if (!fs::exists(path, ignored)) return;
  const std::string text = read_journal(path);
  std::string others;
  for_each_line(text, [&](std::string_view line) {
    const std::optional<NamedOutcome> named = parse_line(line);
    if (named && named->inputs != inputs) others.append(line).push_back('\n');
  });
  others.empty() ? static_cast<void>(fs::remove(path, ignored))
                 : OutputFile(path.string()).commit(others);
}

SweepJournal::Points SweepJournal::read(const fs::path& path, std::uint64_t inputs) {
  Points points;
  for_each_line(read_journal(path), [&](std::string_view line) {
    std::optional<NamedOutcome> named = parse_line(line);
    if (named && named->inputs == inputs) points[named->point] = std::move(named->outcome);
  });
  return points;
}

// Enters the points of the same inputs, and returns all whole lines; lines of other inputs are
// kept, since their run may be resumed.
std::string SweepJournal::whole_lines(std::string_view text) {
  std::string whole;
  for_each_line(text, [&](std::string_view line) {
    if (std::optional<NamedOutcome> named = parse_line(line)) {
      whole.append(line).push_back('\n');
      if (named->inputs == inputs_) found_[named->point] = std::move(named->outcome);
    } else {
      ++damaged_count_;
    }
  });
  return whole;
}

const PointOutcome* SweepJournal::find(const std::string& point) const {
  const auto found = found_.find(point);
  return found == found_.end() ? nullptr : &found->second;
}

void SweepJournal::append(const std::string& point, const PointOutcome& outcome) {
  if (failure_ != 0) return;
  const std::optional<std::string> line = to_line({inputs_, point, outcome});
  if (!line) return;
  failure_ = write_all(descriptor_, *line + '\n');
  is_empty_ = false;
}

}  // namespace kernbench::benches
