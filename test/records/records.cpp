#include "test/records/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "test/records/figures.h"

namespace kernbench::records {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexName = "INDEX.md";

struct Language {
  std::string folder;
  std::string_view heading;
  std::string_view columns;
  std::string_view read_first;
};

// The canonical language first.
const std::array<Language, 2> kLanguages = {{
    {"adr", "Architecture decision records", "| ID | Decision | Status |", "Read first"},
    {"adr-ko", "아키텍처 결정 기록", "| ID | 결정 | 상태 |", "먼저 읽을 것"},
}};

// The topics, in the order of the index, in each language.
using Topic = std::array<std::string_view, 2>;
constexpr std::array<Topic, 11> kTopics = {{
    {"time and engine", "시간과 엔진"},
    {"device", "장치"},
    {"values", "값"},
    {"launches and streams", "런치와 스트림"},
    {"collectives", "집합 통신"},
    {"tensors and functions", "텐서와 함수"},
    {"training", "학습"},
    {"benches", "벤치"},
    {"reports", "보고서"},
    {"errors and tests", "오류와 테스트"},
    {"the house", "집"},
}};
constexpr std::string_view kReadFirst = ", read first";

struct Record {
  std::string file;  // its name inside the folder
  std::string id;    // of the file name: "0013"; empty if the name has no ID
  std::string first_line;
  std::string title_id;
  std::string title;
  std::vector<std::string> statuses;  // whole lines; a good record has one
  std::vector<std::string> topics;    // what follows "Topic: "; a good record has one

  bool is_read_first() const { return !topics.empty() && topics.front().ends_with(kReadFirst); }
  std::string_view topic() const {
    std::string_view name = topics.empty() ? std::string_view() : topics.front();
    if (is_read_first()) name.remove_suffix(kReadFirst.size());
    return name;
  }
};

using Records = std::map<std::string, Record>;  // by file name

// Without byte order mark and carriage returns.
std::string read_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  std::erase(text, '\r');
  return text;
}

std::string id_in_file_name(const std::string& name) {
  static const std::regex kName(R"(ADR-(\d{4})-[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*\.md)");
  std::smatch match;
  return std::regex_match(name, match, kName) ? match[1].str() : "";
}

Record parse(const std::string& file, const std::string& text) {
  // Colon, em dash, en dash or hyphen: writers differ, and so do their editors.
  static const std::regex kTitle(
      "# ADR-(\\d{4})\\s*(?::|\xE2\x80\x94|\xE2\x80\x93|-)\\s*(.*\\S)\\s*");
  Record record;
  record.file = file;
  record.id = id_in_file_name(file);
  std::istringstream stream(text);
  std::string line;
  for (int number = 0; std::getline(stream, line); ++number) {
    if (number == 0) record.first_line = line;
    std::smatch match;
    if (record.title_id.empty() && std::regex_match(line, match, kTitle)) {
      record.title_id = match[1];
      record.title = match[2];
    }
    if (line.starts_with("Status:")) record.statuses.push_back(line);
    if (line.starts_with("Topic: ")) record.topics.push_back(line.substr(7));
  }
  return record;
}

Records read_records(const fs::path& folder) {
  Records records;
  if (!fs::is_directory(folder)) return records;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".md" || name == kIndexName) continue;
    records.emplace(name, parse(name, read_text(entry.path())));
  }
  return records;
}

std::string table_cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

std::string status_of(const Record& record) {
  constexpr std::string_view kKey = "Status:";
  if (record.statuses.empty()) return "";
  const std::string& line = record.statuses.front();
  const std::size_t begin = line.find_first_not_of(' ', kKey.size());
  return begin == std::string::npos ? "" : line.substr(begin);
}

std::string table_row(const Record& record) {
  return fmt::format("| [{}]({}) | {} | {} |\n", record.id, record.file, table_cell(record.title),
                     table_cell(status_of(record)));
}

std::string index_text(std::size_t number, const Records& records) {
  const Language& language = kLanguages[number];
  std::string text =
      fmt::format("# {}\n\n<!-- Written by `kernbench_records index`; not edited by hand. -->\n",
                  language.heading);
  const auto add_section = [&](std::string_view heading, auto belongs) {
    std::string rows;
    for (const auto& [file, record] : records) {
      if (belongs(record)) rows += table_row(record);
    }
    if (rows.empty()) return;
    text += fmt::format("\n## {}\n\n{}\n|---|---|---|\n{}", heading, language.columns, rows);
  };
  add_section(language.read_first, [](const Record& record) { return record.is_read_first(); });
  for (const Topic& topic : kTopics) {
    add_section(topic[number], [&](const Record& record) { return record.topic() == topic[0]; });
  }
  return text;
}

bool is_topic(std::string_view name) {
  return std::ranges::any_of(kTopics, [&](const Topic& topic) { return topic[0] == name; });
}

std::string topic_names() {
  std::string names;
  for (const Topic& topic : kTopics)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", topic[0]);
  return names;
}

class Checker {
 public:
  explicit Checker(const fs::path& root) : root_(root) {
    for (std::size_t i = 0; i < kLanguages.size(); ++i) {
      records_[i] = read_records(root / kLanguages[i].folder);
    }
  }

  std::vector<std::string> run() {
    for (std::size_t i = 0; i < kLanguages.size(); ++i) check_folder(i);
    check_twins();
    std::ranges::sort(offences_);
    return std::move(offences_);
  }

 private:
  void offend(std::size_t language, std::string_view file, std::string_view why) {
    offences_.push_back(fmt::format("{}/{}: {}", kLanguages[language].folder, file, why));
  }

  void check_folder(std::size_t language) {
    const fs::path folder = root_ / kLanguages[language].folder;
    if (!fs::is_directory(folder)) {
      offences_.push_back(fmt::format("{}: there is no such folder", kLanguages[language].folder));
      return;
    }
    std::map<std::string, std::string> file_of_id;
    for (const auto& [file, record] : records_[language]) {
      check_record(language, record);
      // The English text decides, so its figures and paths are the ones that are held.
      if (language == 0) check_claims(file, read_text(folder / file));
      if (record.id.empty()) continue;
      const auto [first, is_new] = file_of_id.emplace(record.id, file);
      if (!is_new) offend(language, file, fmt::format("has the ID of {}", first->second));
    }
    const fs::path index = folder / kIndexName;
    if (!fs::exists(index)) {
      offend(language, kIndexName, "is missing; run: kernbench_records index");
    } else if (read_text(index) != index_text(language, records_[language])) {
      offend(language, kIndexName, "is stale; run: kernbench_records index");
    }
  }

  void check_record(std::size_t language, const Record& record) {
    if (record.id.empty()) {
      offend(language, record.file, "is not named ADR-NNNN-title-in-words.md");
    }
    if (record.title_id.empty()) {
      offend(language, record.file, "has no title line '# ADR-NNNN: Title'");
    } else if (!record.id.empty() && record.title_id != record.id) {
      offend(language, record.file, fmt::format("its title says ADR-{}", record.title_id));
    }
    if (record.statuses.size() != 1) {
      offend(language, record.file,
             fmt::format("has {} lines 'Status: ...' instead of one", record.statuses.size()));
    }
    if (record.topics.size() != 1 || !is_topic(record.topic())) {
      offend(language, record.file,
             fmt::format("needs one line 'Topic: ...' of: {}", topic_names()));
    }
    const std::string source = fmt::format("<!-- translates adr/{} -->", record.file);
    if (language != 0 && record.first_line != source) {
      offend(language, record.file, fmt::format("does not begin with '{}'", source));
    }
  }

  void check_claims(const std::string& file, const std::string& text) {
    for (const std::string& figure : unheld_figures(text)) {
      offend(0, file, fmt::format("names no test and no command that shows: {}", figure));
    }
    for (const std::string& path : named_paths(text)) {
      if (!fs::exists(root_ / path)) offend(0, file, fmt::format("there is no {}", path));
    }
  }

  void check_twins() {
    for (const std::size_t language : {std::size_t{0}, std::size_t{1}}) {
      const std::size_t other = 1 - language;
      for (const auto& [file, record] : records_[language]) {
        const auto twin = records_[other].find(file);
        if (twin == records_[other].end()) {
          report_missing_twin(language, record);
        } else if (language == 0) {
          compare(record, twin->second);
        }
      }
    }
  }

  void report_missing_twin(std::size_t language, const Record& record) {
    const std::size_t other = 1 - language;
    for (const auto& [file, candidate] : records_[other]) {
      if (record.id.empty() || candidate.id != record.id) continue;
      // A pair whose names differ is one offence, told at the translation.
      if (language == 1) {
        offend(language, record.file,
               fmt::format("its twin is named {}/{}", kLanguages[other].folder, file));
      }
      return;
    }
    offend(language, record.file, fmt::format("has no twin in {}", kLanguages[other].folder));
  }

  void compare(const Record& english, const Record& korean) {
    if (!korean.title_id.empty() && korean.title_id != english.title_id) {
      offend(1, korean.file,
             fmt::format("its title says ADR-{}, its twin's says ADR-{}", korean.title_id,
                         english.title_id));
    }
    if (korean.topics != english.topics) {
      offend(1, korean.file, "its Topic is not its twin's, byte for byte");
    }
    if (korean.statuses != english.statuses) {
      offend(1, korean.file,
             fmt::format("its Status is '{}', its twin's is '{}'", status_of(korean),
                         status_of(english)));
    }
  }

  fs::path root_;
  std::array<Records, 2> records_;
  std::vector<std::string> offences_;
};

}  // namespace

std::vector<std::string> check(const std::filesystem::path& root) {
  return Checker(root).run();
}

void write_indexes(const std::filesystem::path& root) {
  for (std::size_t i = 0; i < kLanguages.size(); ++i) {
    const fs::path folder = root / kLanguages[i].folder;
    const fs::path path = folder / kIndexName;
    std::ofstream stream(path, std::ios::binary);
    stream << index_text(i, read_records(folder));
    stream.close();
    if (!stream) throw std::runtime_error(fmt::format("cannot write {}", path.string()));
  }
}

}  // namespace kernbench::records
