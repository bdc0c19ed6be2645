#include "runtime/testing/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "runtime/testing/hash.h"
#include "runtime/testing/machine_parts.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/units.h"

namespace kernbench::testing {

namespace {

constexpr std::string_view kReplayTag = "KBS2:";       // the number changes with what choices mean
constexpr std::string_view kKindLetters = "tamscplq";  // by ChoiceKind

template <class Number>
std::optional<Number> read_number(std::string_view text, int base = 10) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<Choice> read_choice(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::size_t kind = text.empty() ? text.npos : kKindLetters.find(text.front());
  if (equals == text.npos || kind == text.npos) return std::nullopt;
  const std::string_view name = text.substr(1, equals - 1);
  const std::size_t dot = std::min(name.find('.'), name.size());
  const auto number = read_number<std::uint64_t>(name.substr(0, dot));
  const auto value = read_number<std::uint64_t>(text.substr(equals + 1));
  const bool is_call = static_cast<ChoiceKind>(kind) == ChoiceKind::call;
  if (!number || !value || is_call != (dot < name.size())) return std::nullopt;
  if (!is_call) return Choice{static_cast<ChoiceKind>(kind), *number, *value};
  const auto call = read_number<std::uint32_t>(name.substr(dot + 1));
  if (!call) return std::nullopt;
  return Choice{ChoiceKind::call, call_number(static_cast<int>(*number), *call), *value};
}

[[noreturn]] void refuse_replay(std::string_view text, std::string_view part) {
  throw UsageError("KB-U030",
                   "KERNBENCH_REPLAY: '{}' is no part of a schedule; expected the line that a "
                   "failed exploration has printed, as KBS2:0123abcd:t4=2,m0=1:89ab, got '{}'",
                   part, text);
}

std::string checksum_of(std::string_view text) {
  return fmt::format("{:04x}", hash_text(text) & 0xffff);
}

std::string later(std::uint64_t picoseconds) {
  return fmt::format("{} later", to_string(Time{static_cast<std::int64_t>(picoseconds)}));
}

}  // namespace

std::string to_text(const Choice& choice) {
  const std::string number =
      choice.kind == ChoiceKind::call
          ? fmt::format("{}.{}", rank_of_call(choice.number), number_of_call(choice.number))
          : fmt::to_string(choice.number);
  return fmt::format("{}{}={}", kKindLetters[static_cast<std::size_t>(choice.kind)], number,
                     choice.value);
}

std::string to_text(const Replay& replay) {
  std::string text = fmt::format("{}{:08x}:", kReplayTag, replay.program);
  std::string_view comma;
  for (const Choice& choice : replay.schedule) {
    text += fmt::format("{}{}", comma, to_text(choice));
    comma = ",";
  }
  return text + ":" + checksum_of(text);
}

Replay parse_replay(std::string_view text) {
  if (!text.starts_with(kReplayTag)) {
    const std::string_view tag = text.substr(0, kReplayTag.size());
    if (!tag.starts_with("KBS")) refuse_replay(text, tag);
    throw UsageError("KB-U030",
                     "KERNBENCH_REPLAY: '{}' is a line of another version of kernbench, whose "
                     "lines begin with {}; explore again with this one",
                     text, kReplayTag);
  }
  const std::size_t end = text.rfind(':');
  if (checksum_of(text.substr(0, end)) != text.substr(end + 1)) {
    throw UsageError("KB-U030",
                     "KERNBENCH_REPLAY: '{}' is not as it was printed: its checksum, the last four "
                     "letters, does not fit; give the whole line",
                     text);
  }
  std::string_view rest = text.substr(0, end).substr(kReplayTag.size());
  const std::size_t colon = std::min(rest.find(':'), rest.size());
  const auto program = read_number<std::uint32_t>(rest.substr(0, colon), 16);
  if (!program || colon == rest.size()) refuse_replay(text, rest.substr(0, colon));
  Replay replay{.program = *program};
  rest.remove_prefix(colon + 1);
  if (rest.empty()) refuse_replay(text, text);
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const auto choice = read_choice(rest.substr(0, comma));
    if (!choice) refuse_replay(text, rest.substr(0, comma));
    replay.schedule.push_back(*choice);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return replay;
}

std::string describe(const Choice& choice) {
  const std::uint64_t number = choice.number;
  switch (choice.kind) {
    case ChoiceKind::tie:
      return fmt::format("tie {}: event {} of those that are due goes first", number, choice.value);
    case ChoiceKind::aside:
      return "receives from any rank get their messages when nothing else can go on";
    case ChoiceKind::match:
      return fmt::format("match {}: sender {} of those that there are", number, choice.value);
    case ChoiceKind::start:
      return fmt::format("rank {} begins {}", number, later(choice.value));
    case ChoiceKind::call:
      return fmt::format("call {} of rank {} comes {}", number_of_call(number),
                         rank_of_call(number), later(choice.value));
    case ChoiceKind::machine:
      return fmt::format("{} is {:.1f} % slower", name_of_part(number),
                         static_cast<double>(choice.value) / 10);
    case ChoiceKind::link_order:
      return fmt::format("what reaches a link at once is served in another order, {}",
                         choice.value);
    case ChoiceKind::depth:
      return fmt::format("queues have {} slot{}", choice.value, choice.value == 1 ? "" : "s");
  }
  return {};
}

}  // namespace kernbench::testing
