// benches::SweepJournal: the points that an interrupted sweep has left.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benches/bench/content_hash.h"
#include "benches/bench/point_outcome.h"
#include "benches/bench/sweep_journal.h"
#include "test/fuzz/parser.h"
#include "test/fuzz/scratch_file.h"

namespace kernbench::fuzz::journal {

namespace {

using benches::NamedOutcome;

constexpr std::uint64_t kInputs = 0x0123456789abcdef;
constexpr std::size_t kChecksum = 17;  // 16 digits and a space

// The lines that are checked one by one; the file is opened with all.
constexpr std::size_t kMostLines = 1000;

// The line with the checksum of what it holds, so that damage reaches the JSON behind it.
std::string with_checksum(const std::string& line) {
  const std::string json = line.substr(std::min(line.size(), kChecksum));
  return fmt::format("{:016x} {}", benches::content_hash(json), json);
}

// Returns whether the line is one of a journal.
bool check_line(const std::string& line) {
  const std::optional<NamedOutcome> named = benches::parse_line(line);
  if (!named) return false;
  const std::optional<std::string> printed = to_line(*named);
  if (!printed) throw Finding("accepted, and cannot be printed: " + line);
  const std::optional<NamedOutcome> again = benches::parse_line(*printed);
  if (!again) throw Finding("accepted, and refused when printed: " + *printed);
  if (to_line(*again) != printed) throw Finding("read again it is another point: " + *printed);
  return true;
}

// A journal that was opened holds whole lines, so that opening it again finds no damage.
void check_file(const std::string& text, const std::vector<std::string>& lines) {
  const ScratchFile file("journal", text);
  { const benches::SweepJournal opened(file.path(), kInputs); }
  const benches::SweepJournal journal(file.path(), kInputs);
  if (journal.damaged_count() != 0) throw Finding("opening a journal has left damaged lines");
  for (const std::string& line : lines) {
    const std::optional<NamedOutcome> named = benches::parse_line(line);
    if (named && named->inputs == kInputs && journal.find(named->point) == nullptr) {
      throw Finding("opening a journal has lost a point: " + line);
    }
  }
}

void check(std::string_view input) {
  std::vector<std::string> lines;
  bool accepted = false;
  for (std::string_view rest = input; !rest.empty() && lines.size() < kMostLines;) {
    const std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    accepted = check_line(line) || accepted;
    lines.push_back(with_checksum(line));
    accepted = check_line(lines.back()) || accepted;
  }
  std::string text(input);
  for (const std::string& line : lines) text += '\n' + line;
  check_file(text + '\n', lines);
  if (!accepted) throw IoError("KB-I010", "no line of a journal");
}

}  // namespace

Parser parser() {
  return {.name = "journal",
          .check = check,
          .refusal = ExitCode::output,
          .words =
              "inputs point ok rows systems real inf nan -inf true false null 0123456789abcdef "
              "1e308 1e400 -0.0 18446744073709551615 [ ] { } : , \" \\u0000 \\ud800"};
}

}  // namespace kernbench::fuzz::journal
