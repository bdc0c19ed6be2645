#include "test/benches/figure/svg_reader.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <charconv>

namespace kernbench::test {

namespace {

const std::map<std::string, char> kEntities = {
    {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}};

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  SvgElements read() {
    expect(rest_.starts_with("<svg "), "the root is <svg>");
    do {
      if (take("</")) {
        end_tag();
      } else if (take("<")) {
        start_tag();
      } else {
        content();
      }
    } while (!open_.empty());
    expect(rest_ == "\n", "nothing follows </svg> but the end of the line");
    return std::move(elements_);
  }

 private:
  void expect(bool holds, const std::string& what) const {
    if (!holds) FAIL("expected: " << what << "\nat: " << rest_.substr(0, 80));
  }

  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  std::string take_until(std::string_view ends) {
    const std::size_t end = rest_.find_first_of(ends);
    expect(end != std::string_view::npos, "one of " + std::string(ends));
    std::string taken(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return taken;
  }

  std::string resolved(const std::string& text) const {
    std::string result;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const auto byte = static_cast<unsigned char>(text[at]);
      expect(byte >= 0x20 || byte == '\n', "no control characters in '" + text + "'");
      if (text[at] != '&') {
        result += text[at];
        continue;
      }
      const std::size_t end = text.find(';', at);
      expect(end != std::string::npos, "the end of an entity in '" + text + "'");
      const auto entity = kEntities.find(text.substr(at + 1, end - at - 1));
      expect(entity != kEntities.end(), "a known entity in '" + text + "'");
      result += entity->second;
      at = end;
    }
    return result;
  }

  void content() {
    const std::string text = take_until("<>");
    expect(rest_.front() == '<', "no bare '>'");
    const std::string words = resolved(text);
    if (words.find_first_not_of(" \n") != std::string::npos) elements_[open_.back()].text += words;
  }

  void start_tag() {
    SvgElement element{.name = take_until(" />"), .depth = static_cast<int>(open_.size())};
    expect(!element.name.empty(), "a name");
    while (take(" ")) {
      const std::string name = take_until("= />");
      expect(take("=\""), "a quoted value of " + name);
      const std::string value = take_until("\"<");
      expect(take("\""), "the end of the value of " + name);
      expect(element.attributes.emplace(name, resolved(value)).second, name + " only once");
    }
    const bool is_empty = take("/>");
    expect(is_empty || take(">"), "the end of <" + element.name);
    elements_.push_back(element);
    if (!is_empty) open_.push_back(elements_.size() - 1);
  }

  void end_tag() {
    const std::string name = take_until(">");
    expect(take(">") && elements_[open_.back()].name == name,
           "</" + elements_[open_.back()].name + ">");
    open_.pop_back();
  }

  std::string_view rest_;
  SvgElements elements_;
  std::vector<std::size_t> open_;
};

}  // namespace

double SvgElement::number(const std::string& attribute) const {
  INFO("<" << name << "> " << attribute);
  const auto found = attributes.find(attribute);
  REQUIRE(found != attributes.end());
  const std::string& digits = found->second;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  REQUIRE((error == std::errc() && end == digits.data() + digits.size()));
  return value;
}

SvgElements read_svg(std::string_view svg) {
  return Reader(svg).read();
}

SvgElements named(const SvgElements& elements, const std::string& name) {
  SvgElements result;
  std::ranges::copy_if(elements, std::back_inserter(result),
                       [&](const SvgElement& element) { return element.name == name; });
  return result;
}

SvgElement text_element(const SvgElements& elements, const std::string& words) {
  INFO(words);
  REQUIRE(count_texts(elements, words) == 1);
  return *std::ranges::find_if(elements, [&](const SvgElement& element) {
    return element.name == "text" && element.text == words;
  });
}

int count_texts(const SvgElements& elements, const std::string& words) {
  return static_cast<int>(std::ranges::count_if(elements, [&](const SvgElement& element) {
    return element.name == "text" && element.text == words;
  }));
}

}  // namespace kernbench::test
