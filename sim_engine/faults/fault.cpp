#include "sim_engine/faults/fault.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/config/yaml_scalar.h"

namespace kernbench {

namespace {

using Kind = Fault::Kind;

constexpr std::int64_t kMostRank = 1'000'000;
constexpr std::int64_t kMostNumber = 1'000'000'000'000;
constexpr std::int64_t kMostSigma = 2 * std::int64_t{Share::kWhole};

constexpr std::array<std::string_view, 20> kFaultKeys = {
    "link",    "pe",     "rank",       "bandwidth", "dead", "clock",   "compute",
    "sigma",   "seed",   "start",      "dies",      "drop", "flip",    "element",
    "message", "result", "collective", "from",      "to",   "detected"};

// A form of fault: the key that says what happens, and those beside it.
struct FaultForm {
  Kind kind;
  std::string_view effect;
  std::vector<std::string_view> required;
  std::vector<std::string_view> optional;
};

const std::vector<FaultForm>& fault_forms() {
  static const std::vector<FaultForm> forms = {
      {Kind::bandwidth, "bandwidth", {"link"}, {"from", "to"}},
      {Kind::dead, "dead", {"link"}, {"to"}},
      {Kind::clock, "clock", {"pe"}, {"from", "to"}},
      {Kind::clock, "clock", {"rank"}, {"from", "to"}},
      {Kind::noise, "compute", {"sigma"}, {"rank", "seed"}},
      {Kind::start, "start", {"rank"}, {}},
      {Kind::dies, "dies", {"rank"}, {"detected"}},
      {Kind::drop, "drop", {"rank"}, {"collective"}},
      {Kind::flip, "flip", {"rank", "element", "message"}, {"collective"}},
      {Kind::flip, "flip", {"rank", "element", "result"}, {}},
  };
  return forms;
}

struct FaultWord {
  std::string_view key;
  std::string_view value;
};

bool has_key(std::span<const FaultWord> words, std::string_view key) {
  return std::ranges::find(words, key, &FaultWord::key) != words.end();
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = text.find_first_not_of(" \t\n");
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

// Reads values one by one, and keeps what is wrong with the first that is.
class FaultReader {
 public:
  std::string wrong;

  std::int64_t integer(const FaultWord& word, std::int64_t min, std::int64_t max) {
    return take(word, parse_integer(word.value, min, max));
  }
  Time time(const FaultWord& word) {
    std::string_view digits = word.value;
    const bool is_later = word.key == "start" || word.key == "detected";
    if (digits.starts_with('+') && is_later) digits.remove_prefix(1);
    return Time{take(word, parse_quantity(spaced(digits), time_quantity()))};
  }
  // "x0.25"
  Share factor(const FaultWord& word) {
    constexpr std::string_view kRange = "a factor from x0.000001 to x1, such as x0.25";
    if (!word.value.starts_with('x')) return fail(word, kRange), Share{};
    return {static_cast<int>(decimal(word, word.value.substr(1), Share::kWhole, kRange))};
  }
  Share sigma(const FaultWord& word) {
    return {static_cast<int>(
        decimal(word, word.value, kMostSigma, "a number from 0.000001 to 2, such as 0.1"))};
  }
  Fault::Noise noise(const FaultWord& word) {
    if (word.value != "normal" && word.value != "lognormal") fail(word, "normal or lognormal");
    return word.value == "normal" ? Fault::Noise::normal : Fault::Noise::lognormal;
  }

 private:
  static std::string spaced(std::string_view text) {
    std::string result(text);
    const std::size_t unit = text.find_first_not_of("0123456789.", text.starts_with('-') ? 1 : 0);
    if (unit != std::string_view::npos && unit > 0) result.insert(unit, 1, ' ');
    return result;
  }
  // In millionths.
  std::int64_t decimal(const FaultWord& word, std::string_view digits, std::int64_t max,
                       std::string_view range) {
    constexpr std::array<QuantityUnit, 1> kOnes = {{{"x", Share::kWhole}}};
    const ParsedScalar parsed = parse_quantity(std::string(digits) + " x", {.name = "a factor",
                                                                            .example = "0.5 x",
                                                                            .units = kOnes,
                                                                            .finest = "0.000001 x",
                                                                            .min = 1,
                                                                            .max = max});
    if (!parsed.code.empty()) fail(word, range);
    return parsed.code.empty() ? parsed.value : 1;
  }
  std::int64_t take(const FaultWord& word, const ParsedScalar& parsed) {
    if (!parsed.code.empty() && wrong.empty()) {
      wrong = fmt::format("{}={}: {}", word.key, shown(word.value), parsed.fault);
    }
    return parsed.value;
  }
  void fail(const FaultWord& word, std::string_view expected) {
    if (!wrong.empty()) return;
    wrong = fmt::format("{}={}: expected {}", word.key, shown(word.value), expected);
  }
};

// Sets what the word says; returns what is wrong with it, or nothing.
std::string set(Fault& fault, const FaultWord& word) {
  FaultReader read;
  const std::string_view key = word.key;
  if (key == "link") fault.link = word.value;
  if (key == "pe") fault.pe = word.value;
  if (key == "rank") fault.rank = static_cast<int>(read.integer(word, 0, kMostRank));
  if (key == "bandwidth" || key == "clock") fault.share = read.factor(word);
  if (key == "from" || key == "dead" || key == "start" || key == "dies") {
    fault.from = read.time(word);
  }
  if (key == "to") fault.to = read.time(word);
  if (key == "detected") fault.detected = read.time(word);
  if (key == "compute") fault.noise = read.noise(word);
  if (key == "sigma") fault.sigma = read.sigma(word);
  if (key == "seed") fault.seed = static_cast<std::uint64_t>(read.integer(word, 0, kMostNumber));
  if (key == "drop" || key == "message") fault.message = read.integer(word, 1, kMostNumber);
  if (key == "result") fault.result = read.integer(word, 1, kMostNumber);
  if (key == "collective") fault.collective = read.integer(word, 1, kMostNumber);
  if (key == "flip") fault.bit = static_cast<int>(read.integer(word, 0, 63));
  if (key == "element") fault.element = read.integer(word, 0, kMostNumber);
  return std::move(read.wrong);
}

// The form whose keys are there, else the first that has the effect; nullptr if none has.
const FaultForm* find_form(std::span<const FaultWord> words) {
  const FaultForm* found = nullptr;
  for (const FaultForm& form : fault_forms()) {
    if (!has_key(words, form.effect)) continue;
    const auto is_there = [&](std::string_view key) { return has_key(words, key); };
    if (std::ranges::all_of(form.required, is_there)) return &form;
    if (found == nullptr) found = &form;
  }
  return found;
}

std::string describe_forms() {
  return "give one of bandwidth, dead, clock, compute, start, dies, drop and flip, such as "
         "'link=sip0.link.east bandwidth=x0.25 from=10us to=1ms'";
}

std::string find_wrong_key(std::span<const FaultWord> words, const FaultForm& form) {
  for (const std::string_view key : form.required) {
    if (has_key(words, key)) continue;
    const std::string_view or_rank = form.kind == Kind::clock ? " or rank=" : "";
    const std::string_view or_result = key == "message" ? " or result=" : "";
    return fmt::format("{}= needs {}={}{}", form.effect, key, or_rank, or_result);
  }
  for (const FaultWord& word : words) {
    const bool is_known = word.key == form.effect ||
                          std::ranges::find(form.required, word.key) != form.required.end() ||
                          std::ranges::find(form.optional, word.key) != form.optional.end();
    if (!is_known) return fmt::format("{}= has no meaning beside {}=", word.key, form.effect);
  }
  return {};
}

std::string find_wrong_word(std::span<const FaultWord> words, std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals + 1 == word.size()) {
    return fmt::format("{} is no KEY=VALUE; {}", in_quotes(word), describe_forms());
  }
  const std::string_view key = word.substr(0, equals);
  if (has_key(words, key)) return fmt::format("{}= is given twice", key);
  if (std::ranges::find(kFaultKeys, key) != kFaultKeys.end()) return {};
  const std::string_view near = nearest(key, kFaultKeys);
  return fmt::format(
      "{} is no key; {}{}", in_quotes(key), near.empty() ? "there are: " : "did you mean ",
      near.empty() ? fmt::format("{}", fmt::join(kFaultKeys, ", ")) : fmt::format("'{}'?", near));
}

}  // namespace

ParsedFault parse_fault(std::string_view text) {
  ParsedFault parsed;
  const auto refuse = [&](std::string wrong) {
    parsed.wrong = std::move(wrong);
    return parsed;
  };
  const std::vector<std::string_view> texts = split_words(text);
  std::vector<FaultWord> words;
  for (const std::string_view word : texts) {
    if (std::string wrong = find_wrong_word(words, word); !wrong.empty()) return refuse(wrong);
    const std::size_t equals = word.find('=');
    words.push_back({word.substr(0, equals), word.substr(equals + 1)});
  }
  const FaultForm* const form = find_form(words);
  if (form == nullptr) return refuse("it does not say what happens: " + describe_forms());
  if (std::string wrong = find_wrong_key(words, *form); !wrong.empty()) return refuse(wrong);
  Fault& fault = parsed.fault;
  fault.kind = form->kind;
  fault.text = fmt::format("{}", fmt::join(texts, " "));
  for (const FaultWord& word : words) {
    if (std::string wrong = set(fault, word); !wrong.empty()) return refuse(wrong);
  }
  if (fault.to <= fault.from) {
    return refuse(
        fmt::format("it ends at {}, and begins at {}", to_string(fault.to), to_string(fault.from)));
  }
  return parsed;
}

void let_parts_be_lacking(std::vector<Fault>& faults) {
  for (Fault& fault : faults) fault.may_lack_part = true;
}

void add_effects(std::vector<FaultEffect>& sum, const std::vector<FaultEffect>& more) {
  for (const FaultEffect& effect : more) {
    const auto same = std::ranges::find(sum, effect.fault, &FaultEffect::fault);
    if (same == sum.end()) {
      sum.push_back(effect);
      continue;
    }
    const bool is_new = same->count == 0 && effect.count > 0;
    if (is_new) same->first = effect.first;
    if (is_new || same->detail.empty()) same->detail = effect.detail;
    same->count += effect.count;
    same->added += effect.added;
  }
}

void add_missing_effects(std::vector<FaultEffect>& sum, const std::vector<FaultEffect>& more) {
  for (const FaultEffect& effect : more) {
    const bool is_there = std::ranges::find(sum, effect.fault, &FaultEffect::fault) != sum.end();
    if (!is_there) sum.push_back(effect);
  }
}

std::string describe(const FaultEffect& effect) {
  if (effect.count == 0) {
    return fmt::format("{}: did nothing{}{}", effect.fault, effect.detail.empty() ? "" : ": ",
                       effect.detail);
  }
  std::string text = fmt::format(
      "{}: {}", effect.fault,
      effect.count == 1
          ? fmt::format("once, at {}", to_string(effect.first))
          : fmt::format("{} times, first at {}", effect.count, to_string(effect.first)));
  if (effect.added > Time{0}) text += fmt::format(", {} in sum", to_string(effect.added));
  if (!effect.detail.empty()) text += ": " + effect.detail;
  return text;
}

}  // namespace kernbench
