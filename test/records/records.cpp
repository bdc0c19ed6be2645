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

namespace kernbench::records {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexName = "INDEX.md";

struct Language {
  std::string folder;
  std::string_view heading;
  std::string_view columns;
};

// The canonical language first.
const std::array<Language, 2> kLanguages = {{
    {"adr", "Architecture decision records", "| ID | Decision | Status |"},
    {"adr-ko", "아키텍처 결정 기록", "| ID | 결정 | 상태 |"},
}};

struct Record {
  std::string file;  // its name inside the folder
  std::string id;    // of the file name: "0013"; empty if the name has no ID
  std::string first_line;
  std::string title_id;
  std::string title;
  std::vector<std::string> statuses;  // whole lines; a good record has one
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

std::string index_text(const Language& language, const Records& records) {
  std::string text =
      fmt::format("# {}\n\n<!-- Written by `kernbench_records index`; not edited by hand. -->\n\n",
                  language.heading);
  text += fmt::format("{}\n|---|---|---|\n", language.columns);
  for (const auto& [file, record] : records) {
    text += fmt::format("| [{}]({}) | {} | {} |\n", record.id, file, table_cell(record.title),
                        table_cell(status_of(record)));
  }
  return text;
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
      if (record.id.empty()) continue;
      const auto [first, is_new] = file_of_id.emplace(record.id, file);
      if (!is_new) offend(language, file, fmt::format("has the ID of {}", first->second));
    }
    const fs::path index = folder / kIndexName;
    if (!fs::exists(index)) {
      offend(language, kIndexName, "is missing; run: kernbench_records index");
    } else if (read_text(index) != index_text(kLanguages[language], records_[language])) {
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
    const std::string source = fmt::format("<!-- translates adr/{} -->", record.file);
    if (language != 0 && record.first_line != source) {
      offend(language, record.file, fmt::format("does not begin with '{}'", source));
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
  for (const Language& language : kLanguages) {
    const fs::path path = root / language.folder / kIndexName;
    std::ofstream stream(path, std::ios::binary);
    stream << index_text(language, read_records(root / language.folder));
    stream.close();
    if (!stream) throw std::runtime_error(fmt::format("cannot write {}", path.string()));
  }
}

}  // namespace kernbench::records
