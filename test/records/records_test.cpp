#include "test/records/records.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace kernbench::records::records_test {

namespace {

namespace fs = std::filesystem;
using Offences = std::vector<std::string>;

const std::string kFile = "ADR-0007-one-clock.md";

// A tree of records that is gone at the end of the test.
class Tree {
 public:
  Tree() {
    std::string pattern = (fs::temp_directory_path() / "kernbench-records-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    root_ = pattern;
    fs::create_directory(root_ / "adr");
    fs::create_directory(root_ / "adr-ko");
  }
  ~Tree() { fs::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  void write(const std::string& path, const std::string& text) const {
    std::ofstream(root_ / path, std::ios::binary) << text;
  }
  std::string read(const std::string& path) const {
    std::ifstream stream(root_ / path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void remove(const std::string& path) const { fs::remove(root_ / path); }

  void write_index() const { write_indexes(root_); }
  Offences offences() const { return check(root_); }
  Offences offences_with_fresh_index() const {
    write_index();
    return offences();
  }

 private:
  fs::path root_;
};

std::string english(const std::string& title = "# ADR-0007: One clock",
                    const std::string& status = "Status: accepted, 2026-01-02") {
  return title + "\n\n" + status + "\n\nTopic: values\n\n## Question\n\nWhich?\n";
}

std::string korean(const std::string& title = "# ADR-0007: 시계 하나",
                   const std::string& status = "Status: accepted, 2026-01-02",
                   const std::string& file = kFile) {
  return "<!-- translates adr/" + file + " -->\n" + title + "\n\n" + status +
         "\n\nTopic: values\n\n## 질문\n";
}

void write_pair(const Tree& tree, const std::string& english_text = english(),
                const std::string& korean_text = korean(), const std::string& file = kFile) {
  tree.write("adr/" + file, english_text);
  tree.write("adr-ko/" + file, korean_text);
}

std::string with_crlf(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '\n' ? "\r\n" : std::string(1, c);
  return result;
}

}  // namespace

TEST_CASE("a pair with a fresh index has no offences", "[records]") {
  const Tree tree;
  write_pair(tree);
  CHECK(tree.offences_with_fresh_index().empty());
}

TEST_CASE("two empty folders are in order once they have an index", "[records]") {
  const Tree tree;
  CHECK(tree.offences_with_fresh_index().empty());
}

TEST_CASE("line ends do not matter", "[records]") {
  const Tree tree;
  write_pair(tree, english(), with_crlf(korean()));
  tree.write_index();
  tree.write("adr/INDEX.md", with_crlf(tree.read("adr/INDEX.md")));
  CHECK(tree.offences().empty());
}

TEST_CASE("a byte order mark does not matter", "[records]") {
  const Tree tree;
  write_pair(tree, "\xEF\xBB\xBF" + english(), "\xEF\xBB\xBF" + korean());
  CHECK(tree.offences_with_fresh_index().empty());
}

TEST_CASE("a colon or any dash may follow the ID of a title", "[records]") {
  const Tree tree;
  for (const std::string separator : {":", " —", " –", " -", "—"}) {
    INFO("separator '" << separator << "'");
    write_pair(tree, english("# ADR-0007" + separator + " One clock"));
    CHECK(tree.offences_with_fresh_index().empty());
    CHECK_THAT(tree.read("adr/INDEX.md"), Catch::Contains("| One clock |"));
  }
}

TEST_CASE("a file name may have underscores", "[records]") {
  const Tree tree;
  const std::string file = "ADR-0007-op_log-and_replay.md";
  write_pair(tree, english(), korean("# ADR-0007: 재생", "Status: accepted, 2026-01-02", file),
             file);
  CHECK(tree.offences_with_fresh_index().empty());
}

TEST_CASE("a record without translation is told", "[records]") {
  const Tree tree;
  tree.write("adr/" + kFile, english());
  CHECK(tree.offences_with_fresh_index() == Offences{"adr/" + kFile + ": has no twin in adr-ko"});
}

TEST_CASE("a translation without original is told", "[records]") {
  const Tree tree;
  tree.write("adr-ko/" + kFile, korean());
  CHECK(tree.offences_with_fresh_index() == Offences{"adr-ko/" + kFile + ": has no twin in adr"});
}

TEST_CASE("a pair whose names differ is one offence", "[records]") {
  const Tree tree;
  const std::string file = "ADR-0007-the-clock.md";
  tree.write("adr/" + kFile, english());
  tree.write("adr-ko/" + file, korean("# ADR-0007: 시계", "Status: accepted, 2026-01-02", file));
  CHECK(tree.offences_with_fresh_index() ==
        Offences{"adr-ko/" + file + ": its twin is named adr/" + kFile});
}

TEST_CASE("a title with another ID than its file is told", "[records]") {
  const Tree tree;
  write_pair(tree, english(), korean("# ADR-0008: 시계 하나"));
  const std::string path = "adr-ko/" + kFile;
  CHECK(tree.offences_with_fresh_index() ==
        Offences{path + ": its title says ADR-0008",
                 path + ": its title says ADR-0008, its twin's says ADR-0007"});
}

TEST_CASE("a pair with one wrong ID in both titles is told twice", "[records]") {
  const Tree tree;
  write_pair(tree, english("# ADR-0008: One clock"), korean("# ADR-0008: 시계 하나"));
  CHECK(tree.offences_with_fresh_index() ==
        Offences{"adr-ko/" + kFile + ": its title says ADR-0008",
                 "adr/" + kFile + ": its title says ADR-0008"});
}

TEST_CASE("a Status that differs by a byte is told", "[records]") {
  const Tree tree;
  write_pair(tree, english(), korean("# ADR-0007: 시계 하나", "Status: Accepted, 2026-01-02"));
  CHECK(tree.offences_with_fresh_index() ==
        Offences{"adr-ko/" + kFile + ": its Status is 'Accepted, 2026-01-02', " +
                 "its twin's is 'accepted, 2026-01-02'"});
}

TEST_CASE("a record has exactly one Status", "[records]") {
  const Tree tree;
  SECTION("none") {
    write_pair(tree, english("# ADR-0007: One clock", "accepted"),
               korean("# ADR-0007: 시계 하나", "accepted"));
    CHECK(tree.offences_with_fresh_index().at(1) ==
          "adr/" + kFile + ": has 0 lines 'Status: ...' instead of one");
  }
  SECTION("two") {
    const std::string statuses = "Status: proposed\nStatus: accepted";
    write_pair(tree, english("# ADR-0007: One clock", statuses),
               korean("# ADR-0007: 시계 하나", statuses));
    CHECK(tree.offences_with_fresh_index().at(1) ==
          "adr/" + kFile + ": has 2 lines 'Status: ...' instead of one");
  }
}

TEST_CASE("a record needs a title", "[records]") {
  const Tree tree;
  write_pair(tree, english("ADR-0007: One clock"));
  CHECK(tree.offences_with_fresh_index().back() ==
        "adr/" + kFile + ": has no title line '# ADR-NNNN: Title'");
}

TEST_CASE("a translation names its original in the first line", "[records]") {
  const Tree tree;
  write_pair(tree, english(),
             korean("# ADR-0007: 시계 하나", "Status: accepted, 2026-01-02", "ADR-0001-time.md"));
  CHECK(tree.offences_with_fresh_index() ==
        Offences{"adr-ko/" + kFile + ": does not begin with '<!-- translates adr/" + kFile +
                 " -->'"});
}

TEST_CASE("two records with one ID are told", "[records]") {
  const Tree tree;
  const std::string file = "ADR-0007-zoned-time.md";
  write_pair(tree);
  write_pair(tree, english(), korean("# ADR-0007: 시간", "Status: accepted, 2026-01-02", file),
             file);
  CHECK(tree.offences_with_fresh_index() == Offences{"adr-ko/" + file + ": has the ID of " + kFile,
                                                     "adr/" + file + ": has the ID of " + kFile});
}

TEST_CASE("a file that is no record is told", "[records]") {
  const Tree tree;
  for (const std::string file :
       {"notes.md", "ADR-07-clock.md", "ADR-0007.md", "adr-0007-clock.md"}) {
    INFO(file);
    write_pair(tree, english(), korean("# ADR-0007: 시계", "Status: accepted, 2026-01-02", file),
               file);
    CHECK(tree.offences_with_fresh_index() ==
          Offences{"adr-ko/" + file + ": is not named ADR-NNNN-title-in-words.md",
                   "adr/" + file + ": is not named ADR-NNNN-title-in-words.md"});
    tree.remove("adr/" + file);
    tree.remove("adr-ko/" + file);
  }
}

TEST_CASE("an index that no longer fits is told", "[records]") {
  const Tree tree;
  write_pair(tree);
  tree.write_index();
  write_pair(tree, english("# ADR-0007: A single clock"));
  CHECK(tree.offences() == Offences{"adr/INDEX.md: is stale; run: kernbench_records index"});
}

TEST_CASE("an index that is missing is told", "[records]") {
  const Tree tree;
  write_pair(tree);
  tree.write_index();
  tree.remove("adr-ko/INDEX.md");
  CHECK(tree.offences() == Offences{"adr-ko/INDEX.md: is missing; run: kernbench_records index"});
}

TEST_CASE("a folder that is missing is told, and cannot be indexed", "[records]") {
  const Tree tree;
  tree.write_index();
  tree.remove("adr-ko/INDEX.md");
  tree.remove("adr-ko");
  CHECK(tree.offences() == Offences{"adr-ko: there is no such folder"});
  CHECK_THROWS_WITH(tree.write_index(), Catch::Contains("adr-ko"));
}

TEST_CASE("the index has a section for each topic, in order of IDs", "[records]") {
  const Tree tree;
  const std::string file = "ADR-0003-a-or-b.md";
  write_pair(tree);
  write_pair(tree, english("# ADR-0003: A|B", "Status: proposed"),
             korean("# ADR-0003: 가|나", "Status: proposed", file), file);
  tree.write_index();
  CHECK_THAT(
      tree.read("adr/INDEX.md"),
      Catch::EndsWith("## values\n\n| ID | Decision | Status |\n|---|---|---|\n"
                      "| [0003](ADR-0003-a-or-b.md) | A\\|B | proposed |\n"
                      "| [0007](ADR-0007-one-clock.md) | One clock | accepted, 2026-01-02 |\n"));
  CHECK_THAT(tree.read("adr-ko/INDEX.md"),
             Catch::Contains("## 값\n") && Catch::Contains("| 시계 하나 |"));
  CHECK_THAT(tree.read("adr/INDEX.md"), !Catch::Contains("Read first"));
}

// The pair with this topic in both languages, or with that of the translation in `korean_topic`.
void write_topics(const Tree& tree, const std::string& topic, const std::string& korean_topic) {
  const auto with = [](std::string text, const std::string& name) {
    return text.replace(text.find("values"), 6, name);
  };
  write_pair(tree, with(english(), topic), with(korean(), korean_topic));
}

TEST_CASE("the index begins with the records to read first", "[records]") {
  const Tree tree;
  write_topics(tree, "values, read first", "values, read first");
  CHECK(tree.offences_with_fresh_index().empty());
  CHECK_THAT(tree.read("adr/INDEX.md"),
             Catch::Matches("[^]*## Read first[^#]*0007[^#]*## values[^#]*0007[^#]*",
                            Catch::CaseSensitive::Yes));
}

TEST_CASE("a topic that is not one of the index, or differs, is told", "[records]") {
  const Tree tree;
  write_topics(tree, "poems", "values");
  const Offences offences = tree.offences_with_fresh_index();
  REQUIRE(offences.size() == 2);
  CHECK(offences[0] == "adr-ko/" + kFile + ": its Topic is not its twin's, byte for byte");
  CHECK_THAT(offences[1], Catch::StartsWith("adr/" + kFile +
                                            ": needs one line 'Topic: ...' of: time and engine,"));
}

TEST_CASE("a figure without what shows it, and a path that is gone, are told", "[records]") {
  const Tree tree;
  write_pair(tree, english() + "\nIt takes 4.93 us.\n\nSee `test/gone_test.cpp`.\n");
  CHECK(tree.offences_with_fresh_index() ==
        Offences{"adr/" + kFile + ": names no test and no command that shows: 4.93 us",
                 "adr/" + kFile + ": there is no test/gone_test.cpp"});
}

// The Korean texts: the records' translations, and the guides beside their originals.
std::vector<fs::path> korean_files() {
  const fs::path root = KERNBENCH_ROOT;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(root / "adr-ko")) files.push_back(entry.path());
  for (const auto& entry : fs::directory_iterator(root)) files.push_back(entry.path());
  for (const char* const folder : {"benches", "ccl", "runtime", "sim_engine", "topologies", "tp"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      files.push_back(entry.path());
    }
  }
  std::erase_if(files, [](const fs::path& file) {
    const std::string name = file.string();
    return !name.ends_with(".md") ||
           (name.find("adr-ko") == name.npos && !name.ends_with(".ko.md"));
  });
  return files;
}

TEST_CASE("the Korean texts have one word for each thing", "[records]") {
  const std::vector<std::pair<std::string, std::string>> kOthers = {
      {"좋음:", "장점:"},       {"좋은 점:", "장점:"}, {"나쁨:", "단점:"},
      {"나쁜 점:", "단점:"},    {"뿌리", "루트"},      {"피가수", "더할 항"},
      {"그래디언트", "기울기"}, {"디바이스", "장치"},  {"집합 연산", "집합 통신"},
      {"론치", "런치"},         {"발사", "런치"},      {"행렬곱", "행렬 곱"}};
  const std::vector<fs::path> files = korean_files();
  CHECK(files.size() > 60);
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    for (const auto& [other, word] : kOthers) {
      CAPTURE(file.string(), other, word);
      CHECK(text.find(other) == std::string::npos);
    }
  }
}

TEST_CASE("the records of this repository are in order", "[records]") {
  for (const std::string& offence : check(KERNBENCH_ROOT)) FAIL_CHECK(offence);
  const fs::path folder = fs::path(KERNBENCH_ROOT) / "adr";
  const auto files = std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  CHECK(files <= 60 + 1);  // as many as one reads, and the index
}

}  // namespace kernbench::records::records_test
