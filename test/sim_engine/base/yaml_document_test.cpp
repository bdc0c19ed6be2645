#include "sim_engine/config/yaml_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "sim_engine/config/yaml_reader.h"
#include "test/support/error_text.h"

namespace kernbench::yaml_document_test {

namespace {

using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;
using test::Says;

// All errors of `text`, the kept ones too.
std::string error_of(std::string_view text) {
  return test::config_error_of(
      [&] { YamlDocument::parse(text, "t.yaml").errors().throw_if_any(); });
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

}  // namespace

TEST_CASE("a document is a tree with 1-based positions and paths", "[yaml]") {
  const YamlDocument document = YamlDocument::parse(
      "# head\n"
      "a: {b: 1, 'c': \"x y\"}\n"
      "list:\n"
      "  - 7\n"
      "  - k: v\n"
      "none:\n",
      "t.yaml");
  CHECK(document.errors().count() == 0);
  const YamlNode& root = document.root();
  CHECK(root.kind == YamlNode::Kind::map);
  const YamlNode& b = *root.find("a")->find("b");
  CHECK(b.kind == YamlNode::Kind::plain);
  CHECK(b.text == "1");
  CHECK(b.mark == TextMark{2, 8});
  CHECK(b.key_mark == TextMark{2, 5});
  CHECK(make_path(b) == "a.b");
  CHECK(root.find("a")->find("c")->kind == YamlNode::Kind::quoted);
  CHECK(root.find("a")->find("c")->text == "x y");
  const YamlNode& list = *root.find("list");
  CHECK(list.kind == YamlNode::Kind::list);
  CHECK(list.children.at(0)->mark == TextMark{4, 5});
  CHECK(make_path(*list.children.at(1)->find("k")) == "list[1].k");
  CHECK(root.find("none")->kind == YamlNode::Kind::null);
  CHECK(root.find("b") == nullptr);
  CHECK(b.find("b") == nullptr);
}

TEST_CASE("a byte order mark and CRLF change nothing, not even positions", "[yaml]") {
  const YamlDocument document = YamlDocument::parse(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: 2\r\n",
      "t.yaml");
  CHECK(document.root().find("a")->text == "1");
  CHECK(document.root().find("a")->key_mark == TextMark{1, 1});
  CHECK(document.root().find("b")->text == "2");
  CHECK(document.root().find("b")->mark == TextMark{2, 4});
}

TEST_CASE("what is no YAML text is refused with its position", "[yaml]") {
  CHECK_THAT(error_of("a: 1\nb: [1, 2\n"), Says("KB-Y001", "3:1"));
  CHECK_THAT(error_of("a: 1\n  b: 2\n"), Says("KB-Y001", "2:4"));
  CHECK_THAT(error_of("a:\n\tb: 1\n"), Says("KB-Y001", "2:1", "tab"));
  CHECK_THAT(error_of(std::string("a: 1\0", 5)), Says("KB-Y001", "1:5", "NUL"));
  CHECK_THAT(error_of("a: \x01"), Says("KB-Y001", "1:4", "0x01"));
  CHECK_THAT(error_of("a: 1\n# gr\xfc\xdf\n"), Says("KB-Y001", "2:5", "UTF-8", "0xfc"));
  CHECK_THAT(error_of(std::string("\xFF\xFE\x61\0", 4)), Says("KB-Y001", "1:1", "UTF-8", "0xff"));
  CHECK_THAT(error_of("a: 1\n}\n"), Says("KB-Y001", "2:1"));
}

TEST_CASE("UTF-8 is accepted exactly", "[yaml]") {
  for (const char* good :
       {"\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    CHECK(error_of(std::string("a: x # ") + good) == "no error");
  }
  for (const char* bad :
       {"\x80", "\xC1\x81", "\xC3", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x28\xA1"}) {
    CHECK_THAT(error_of(std::string("a: x # ") + bad), Says("KB-Y001", "1:8", "UTF-8"));
  }
}

TEST_CASE("a file holds exactly one document", "[yaml]") {
  for (const char* empty : {"", "\n\n", "# nothing\n", "---\n", "~\n", "\xEF\xBB\xBF"}) {
    CHECK_THAT(error_of(empty), Says("KB-Y002", "1:1"));
  }
  CHECK_THAT(error_of("a: 1\n---\nb: 2\n"), Says("KB-Y003", "2:1"));
  CHECK_THAT(error_of("---\na: 1\n---\n"), Says("KB-Y003", "3:1"));
  CHECK_THAT(error_of("{a: 1}\nb: 2\n"), Says("KB-Y003", "2:1"));
  CHECK(error_of("%YAML 1.2\n---\na: 1\n...\n") == "no error");
}

TEST_CASE("a duplicate key is refused and names the first", "[yaml]") {
  CHECK_THAT(error_of("a:\n  w: 1\n  h: 2\n  w: 3\n"), Says("KB-Y012", "4:3", "'w'", "2:3"));
  CHECK_THAT(error_of("{a: 1, \"a\": 1, a: 1}"), Says("KB-Y012", "1:8", "1:16", "'a'", "1:2"));
  CHECK(error_of("{a: {w: 1}, b: {w: 1}}") == "no error");
  const YamlDocument document = YamlDocument::parse("{a: 1, a: 2}", "t.yaml");
  CHECK(document.root().children.size() == 1);
  CHECK(document.root().find("a")->text == "1");
}

TEST_CASE("an escape gives nothing that the file may not hold", "[yaml]") {
  CHECK_THAT(error_of(R"(a: "x\_y")"), Says("KB-Y011", "1:4", "'x\\xa0y'", "UTF-8", "0xa0"));
  CHECK_THAT(error_of(R"({"\N": 1})"), Says("KB-Y011", "'\\x85'", "UTF-8"));
  CHECK_THAT(error_of(R"(a: ["\e[31m"])"), Contains("control character 0x1b"));
  CHECK_THAT(error_of(R"(a: "\0")"), Contains("a NUL byte"));
  const YamlDocument document = YamlDocument::parse(R"(a: "\u00e9\n\"")", "t.yaml");
  CHECK(document.root().find("a")->text == "é\n\"");
}

TEST_CASE("keys are words, and tags are refused", "[yaml]") {
  CHECK_THAT(error_of("{[1, 2]: 3, a: 4}"), Says("KB-Y011", "1:2", "key"));
  CHECK_THAT(error_of("? {a: {b: c}}\n: 3\nd: 4\n"), Says("KB-Y011", "1:3", "key"));
  CHECK_THAT(error_of(": 3\n"), Says("KB-Y011", "key"));
  CHECK_THAT(error_of("? [{[1]: 2}]\n: 3\n"), Says("KB-Y011", "1:3", "key"));
  CHECK_THAT(error_of("a: !!int 4"), Says("KB-Y011", "1:4", "tags"));
  CHECK_THAT(error_of("a: !mine [4]"), Contains("tags are not supported ('!mine')"));
  CHECK(YamlDocument::parse("{[1, 2]: 3, a: 4}", "t.yaml").root().children.size() == 1);
}

TEST_CASE("anchors, aliases and merge keys are refused at once, bombs too", "[yaml]") {
  CHECK_THAT(error_of("a: &x 1\nb: *x\n"),
             Says("KB-Y013", "1:4", "anchors", "'&x'", "2:4", "aliases"));
  CHECK_THAT(error_of("a: &x [*x]\n"), Says("KB-Y013", "aliases"));
  CHECK_THAT(error_of("a: *nothing\n"), Says("KB-Y013", "aliases"));
  CHECK_THAT(error_of("a: &x {b: 1}\nc:\n  <<: *x\n"), Says("KB-Y013", "3:3", "merge keys"));
  CHECK(error_of("'<<': 1") == "no error");
  std::string bomb = "l0: &l0 [x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += fmt::format("l{0}: &l{0} [*l{1}, *l{1}, *l{1}, *l{1}, *l{1}, *l{1}]\n", i, i - 1);
  }
  CHECK_THAT(error_of(bomb), Says("KB-Y013", "1:5", "anchors"));
  CHECK(YamlDocument::parse(bomb, "t.yaml").node_count() < 200);  // nothing was expanded
}

TEST_CASE("depth and size are bounded", "[yaml]") {
  CHECK(error_of(nested(32)) == "no error");
  CHECK_THAT(error_of(nested(33)), Says("KB-Y014", "1:33", "32"));
  CHECK_THAT(error_of(std::string(1'000'000, '[')), Says("KB-Y014", "32"));
  CHECK_THAT(error_of(std::string(1'000'000, '{')), Says("KB-Y014", "32"));
  std::string blocks;
  for (int i = 0; i < 300'000; ++i) blocks += "- ";
  CHECK_THAT(error_of(blocks), Says("KB-Y014", "32"));
  std::string text = "a: 1\n#";
  text.resize(1 << 20, '-');
  CHECK(error_of(text) == "no error");
  CHECK_THAT(error_of(text + '-'), Says("KB-Y015", "1:1", "1 MiB"));
}

TEST_CASE("at most 20 errors are listed, in file order, the rest is counted", "[yaml]") {
  std::string text;
  for (int i = 0; i < 25; ++i) text += "a: 1\n";
  const std::string errors = error_of(text);
  CHECK(std::ranges::count(errors, '\n') == 20);
  CHECK_THAT(errors, Contains("t.yaml:21:1: ") && !Contains("t.yaml:22:1: "));
  CHECK_THAT(errors, EndsWith("\nand 4 more"));

  ConfigErrors out_of_order("t.yaml");
  for (int line = 25; line > 0; --line) out_of_order.add({line, 1}, "KB-Y010", "wrong");
  CHECK(out_of_order.count() == 25);
  CHECK(out_of_order.would_list({20, 0}));
  CHECK_FALSE(out_of_order.would_list({20, 1}));
  const std::string sorted = test::config_error_of([&] { out_of_order.throw_if_any(); });
  CHECK_THAT(sorted, StartsWith("t.yaml:1:1: [KB-Y010] wrong\nt.yaml:2:1: ") &&
                         Contains("t.yaml:20:1: ") && EndsWith("\nand 5 more"));
}

TEST_CASE("hundreds of thousands of errors take no time to speak of", "[yaml]") {
  std::string text;
  for (int i = 0; text.size() < (1 << 20) - 16; ++i) text += fmt::format("{:x}: 1\n", i);
  const YamlDocument document = YamlDocument::parse(text, "t.yaml");
  const std::string errors = test::config_error_of([&] {
    YamlReader reader(document);
    reader.map(document.root()).has("known");
    reader.finish();
  });
  CHECK_THAT(errors, Contains("unknown key '0'; there are: known") && EndsWith(" more"));
}

TEST_CASE("text from the file is shown short, and what cannot be seen is escaped", "[yaml]") {
  CHECK(in_quotes("a\nb\x1b[31m\x7f") == R"('a\nb\x1b[31m\x7f')");
  CHECK(in_quotes(std::string(80, 'x')) == '\'' + std::string(80, 'x') + '\'');
  CHECK(in_quotes(std::string(81, 'x')) == '\'' + std::string(80, 'x') + "...'");
  // Never half a character.
  CHECK(in_quotes(std::string(79, 'x') + "\xC3\xA9") == '\'' + std::string(79, 'x') + "...'");
}

TEST_CASE("a listing throws a configuration error with the first one's code", "[yaml]") {
  CHECK_THROWS_MATCHES(YamlDocument::parse("a: 1\n---\n", "t.yaml"), ConfigError, Says("KB-Y003"));
}

TEST_CASE("an element of a list is changed by its number, and one that is not there refused",
          "[yaml]") {
  YamlDocument document = YamlDocument::parse("a: [{b: 1}, {b: 2}]\n", "t.yaml");
  document.change({.path = "a[1].b", .items = {"3"}});
  CHECK(document.root().find("a")->children[1]->find("b")->text == "3");
  for (const std::string path : {"a[2].b", "a[x].b", "a[1.b", "a[].b"}) {
    CHECK_THROWS_MATCHES(document.change({.path = path, .items = {"3"}}), ConfigError,
                         Says("KB-Y010", "t.yaml", "has no element"));
  }
}

}  // namespace kernbench::yaml_document_test
