#include "test/tidy/tidy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

namespace kernbench::tidy {

namespace {

namespace fs = std::filesystem;

struct Layer {
  std::string_view folder;
  std::vector<std::string_view> may_include;  // besides itself
};

const std::array<Layer, 6> kLayers = {{
    {"sim_engine", {}},
    {"runtime", {"sim_engine"}},
    {"ccl", {"sim_engine", "runtime"}},
    {"tp", {"sim_engine", "runtime"}},
    {"benches", {"sim_engine", "runtime", "ccl", "tp"}},
    {"test", {"sim_engine", "runtime", "ccl", "tp", "benches"}},
}};

struct Package {
  std::string_view include;              // how its headers' names begin
  std::vector<std::string_view> owners;  // how the paths of the files that may include it begin
};

const std::array<Package, 8> kPackages = {{
    {"boost/context/", {"runtime/fiber/", "micro/"}},  // the latter to compare with it bare
    {"boost/asio", {"runtime/guards/process_watch", "benches/"}},
    {"Eigen/",
     {"sim_engine/values/", "runtime/tensor/eigen", "micro/gemm",
      "benches/tensor_parallel/oracle/", "benches/calibration/"}},
    {"yaml-cpp/", {"sim_engine/config/"}},
    {"CLI/", {"benches/", "fuzz/", "runner/"}},
    {"nlohmann/",
     {"benches/", "fuzz/", "sim_engine/trace/trace_recorder_test.cpp", "ccl/kineto_test.cpp",
      "ccl/profile_test.cpp", "ccl/temporal_breakdown_test.cpp",
      "runtime/tl/composite_trace_test.cpp", "failures/flight_record_test.cpp",
      "tp/overlap_trace_test.cpp", "parallel/named_buckets_test.cpp"}},
    {"benchmark/", {"micro/"}},
    {"catch2/", {"test/", "benches/include/kernbench/testing.h"}},
}};

struct BannedWord {
  std::string_view word;
  std::string_view instead;
  bool in_comments = false;                   // comments are searched too
  std::vector<std::string_view> except = {};  // how the paths begin of files that may have it
};

// Written in two parts each, so that this file obeys its own rule.
const std::array<BannedWord, 8> kBannedWords = {{
    {"system_"
     "clock",
     "ask Engine::now()"},
    {"steady_"
     "clock",
     "ask Engine::now()",
     false,
     {"benches/", "test/micro/", "test/runner/", "test/fuzz/", "runtime/guards/process_watch"}},
    {"high_resolution_"
     "clock",
     "ask Engine::now()"},
    {"random_"
     "device",
     "draw from a seeded generator"},
    {"thread_"
     "local",
     "keep it in the context"},
    {"using namespace "
     "std",
     "write std::"},
    {"FIX"
     "ME",
     "fix it before merging", true},
    {"TO"
     "DO",
     "do it, or open an issue", true},
}};

constexpr std::size_t kMaxColumns = 100;
constexpr int kMaxLines = 400;

bool is_source(const fs::path& path) {
  return path.extension() == ".h" || path.extension() == ".cpp";
}

bool is_other_text(const fs::path& path) {
  static const std::set<std::string> kExtensions = {".txt", ".cmake", ".in",  ".json",
                                                    ".sh",  ".yaml",  ".yml", ".md"};
  return kExtensions.contains(path.extension().string());
}

void append_lines(const fs::path& root, const fs::path& path, Lines& lines) {
  std::ifstream stream(path);
  const std::string file = fs::relative(path, root).generic_string();
  std::string text;
  for (int number = 1; std::getline(stream, text); ++number) lines.push_back({file, number, text});
}

Lines read_files(const fs::path& root, std::set<fs::path> files) {
  Lines lines;
  for (const fs::path& file : files) append_lines(root, file, lines);
  return lines;
}

void collect(const fs::path& folder, bool (*wanted)(const fs::path&), std::set<fs::path>& files) {
  if (!fs::is_directory(folder)) return;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && wanted(entry.path())) files.insert(entry.path());
  }
}

// The name inside #include "..." or #include <...>.
std::optional<std::string> included_by(const std::string& text) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*["<]([^">]+)[">])");
  std::smatch match;
  return std::regex_search(text, match, kInclude) ? std::optional(match[1].str()) : std::nullopt;
}

std::string_view first_folder(std::string_view path) {
  return path.substr(0, path.find('/'));
}

const Layer* layer_of(std::string_view path) {
  const auto layer = std::ranges::find(kLayers, first_folder(path), &Layer::folder);
  return layer == kLayers.end() ? nullptr : &*layer;
}

// The umbrella header <kernbench/kernbench.h> lies in benches, where every layer meets.
std::string_view folder_included(std::string_view name) {
  return name.starts_with("kernbench/") ? "benches" : first_folder(name);
}

bool owns(const Package& package, std::string_view file) {
  constexpr std::string_view kTests = "test/";
  const std::string_view tested = file.starts_with(kTests) ? file.substr(kTests.size()) : file;
  return std::ranges::any_of(package.owners, [&](std::string_view owner) {
    return file.starts_with(owner) || tested.starts_with(owner);
  });
}

// The room that a path lies in, or null.
const Rooms::value_type* room_of(const Rooms& rooms, std::string_view path) {
  for (std::size_t end = path.rfind('/'); end != path.npos; end = path.rfind('/', end - 1)) {
    const auto room = rooms.find(path.substr(0, end));
    if (room != rooms.end()) return &*room;
    if (end == 0) break;
  }
  return nullptr;
}

// Leaves nearly what the compiler sees of a line: a comment's two slashes may also stand in a
// string.
std::string_view without_comment(std::string_view text) {
  return text.substr(0, text.find("//"));
}

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool contains_word(std::string_view text, std::string_view word) {
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || !is_word_character(text[at - 1]);
    if (begins && (end == text.size() || !is_word_character(text[end]))) return true;
  }
  return false;
}

// Code points: a comment may name things in Korean.
std::size_t column_count(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

template <class... Arguments>
void offend(Offences& offences, const Line& line, fmt::format_string<Arguments...> why,
            Arguments&&... arguments) {
  offences.push_back(fmt::format("{}:{}: {}", line.file, line.number,
                                 fmt::format(why, std::forward<Arguments>(arguments)...)));
}

}  // namespace

Lines read_sources(const fs::path& root) {
  std::set<fs::path> files;
  for (const Layer& layer : kLayers) collect(root / layer.folder, is_source, files);
  return read_files(root, files);
}

Lines read_other_texts(const fs::path& root) {
  std::set<fs::path> files;
  for (const Layer& layer : kLayers) collect(root / layer.folder, is_other_text, files);
  for (const char* folder : {"cmake", "topologies", "adr", "adr-ko"}) {
    collect(root / folder, is_other_text, files);
  }
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.is_regular_file() && is_other_text(entry.path())) files.insert(entry.path());
  }
  return read_files(root, files);
}

Offences check_layers(const Lines& lines) {
  Offences offences;
  for (const Line& line : lines) {
    const Layer* own = layer_of(line.file);
    const auto name = included_by(line.text);
    if (own == nullptr || !name) continue;
    const std::string_view used = folder_included(*name);
    if (*name == line.file) {
      offend(offences, line, "includes itself");
    } else if (line.text.find('"') != std::string::npos && layer_of(used) == nullptr) {
      offend(offences, line, "'{}' is not named from the repository root", *name);
    } else if (layer_of(used) != nullptr && used != own->folder &&
               std::ranges::find(own->may_include, used) == own->may_include.end()) {
      offend(offences, line, "{} may not include {}", own->folder, used);
    }
  }
  return offences;
}

Rooms read_rooms(const fs::path& file) {
  Rooms rooms;
  std::ifstream stream(file);
  for (std::string text; std::getline(stream, text);) {
    const std::size_t colon = text.find(':');
    if (colon == text.npos) continue;
    std::istringstream uses(text.substr(colon + 1));
    std::set<std::string>& used = rooms[text.substr(0, colon)];
    for (std::string room; uses >> room;) used.insert(room);
  }
  return rooms;
}

Offences check_rooms(const Lines& lines, const Rooms& rooms) {
  Offences offences;
  Rooms unused = rooms;
  for (const Line& line : lines) {
    const auto* own = room_of(rooms, line.file);
    const auto name = included_by(line.text);
    if (own == nullptr || !name) continue;
    const auto* used = room_of(rooms, *name);
    if (used == nullptr || used == own) continue;
    unused[own->first].erase(used->first);
    if (own->second.contains(used->first)) continue;
    offend(offences, line, "{} does not use {}: include less, or name it in {}/CMakeLists.txt",
           own->first, used->first, own->first);
  }
  for (const auto& [room, rest] : unused) {
    for (const std::string& used : rest) {
      offences.push_back(
          fmt::format("{}/CMakeLists.txt: USES {}, and includes nothing of it", room, used));
    }
  }
  return offences;
}

Offences check_installed(const Lines& lines, const std::set<std::string>& installed) {
  Offences offences;
  for (const Line& line : lines) {
    const auto name = included_by(line.text);
    const bool is_ours = name && line.text.find('"') != std::string::npos;
    if (!is_ours || !installed.contains(line.file) || installed.contains(*name)) continue;
    offend(offences, line, "'{}' is not installed: name it in the INSTALLS of its room", *name);
  }
  return offences;
}

Offences check_light(const Lines& lines, const std::set<std::string>& installed) {
  static const std::set<std::string> kCostly = {"algorithm",     "condition_variable",
                                                "deque",         "format",
                                                "fstream",       "future",
                                                "fmt/format.h",  "iomanip",
                                                "iostream",      "istream",
                                                "list",          "mutex",
                                                "ostream",       "random",
                                                "ranges",        "regex",
                                                "set",           "sstream",
                                                "thread",        "unordered_map",
                                                "unordered_set", "variant"};
  Offences offences;
  for (const Line& line : lines) {
    const auto name = included_by(line.text);
    if (!name || !installed.contains(line.file) || !kCostly.contains(*name)) continue;
    if (line.text.find("IWYU pragma: export") != std::string::npos) continue;
    offend(offences, line, "<{}> is costly for users: declare, or move the body into a .cpp",
           *name);
  }
  return offences;
}

Offences check_package_owners(const Lines& lines) {
  Offences offences;
  for (const Line& line : lines) {
    const auto name = included_by(line.text);
    if (!name) continue;
    for (const Package& package : kPackages) {
      if (!name->starts_with(package.include) || owns(package, line.file)) continue;
      offend(offences, line, "{} belongs to {}", package.include, package.owners.front());
    }
  }
  return offences;
}

Offences check_banned_words(const Lines& lines) {
  Offences offences;
  for (const Line& line : lines) {
    for (const BannedWord& banned : kBannedWords) {
      const std::string_view text =
          banned.in_comments ? std::string_view(line.text) : without_comment(line.text);
      const bool allowed = std::ranges::any_of(
          banned.except, [&](std::string_view path) { return line.file.starts_with(path); });
      if (allowed || !contains_word(text, banned.word)) continue;
      offend(offences, line, "{} is banned: {}", banned.word, banned.instead);
    }
  }
  return offences;
}

Offences check_words_of_collectives(const Lines& lines) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOthers = {{
      {"fragment", "slice"},
      {"grain", "CutSizes"},
      {"colour", "channel"},
      {"window", "slices_at_once"},
      {"dealt", "divided"},
      {"stretch", "range"},
  }};
  Offences offences;
  for (const Line& line : lines) {
    if (!line.file.starts_with("ccl/")) continue;
    std::string text = line.text;
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const auto& [other, word] : kOthers) {
      if (text.find(other) == std::string::npos) continue;
      offend(offences, line, "'{}' is another word for {}", other, word);
    }
  }
  return offences;
}

Offences check_lengths(const Lines& lines) {
  Offences offences;
  for (const Line& line : lines) {
    const std::size_t columns = column_count(line.text);
    if (columns > kMaxColumns) offend(offences, line, "has {} columns", columns);
    if (line.number == kMaxLines + 1) offend(offences, line, "the file passes {} lines", kMaxLines);
  }
  return offences;
}

Offences check_machine_paths(const Lines& lines) {
  static const std::regex kPath(R"((^|[^\w./~}-])/(work|home|tmp|root)/)");
  Offences offences;
  for (const Line& line : lines) {
    std::smatch match;
    if (!std::regex_search(line.text, match, kPath)) continue;
    offend(offences, line, "names a folder of one machine: /{}/", match[2].str());
  }
  return offences;
}

}  // namespace kernbench::tidy
