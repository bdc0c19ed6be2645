#include "benches/collectives/published_times.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::collectives {

namespace {

constexpr std::string_view kUnit = "_us";
constexpr std::array<std::string_view, 3> kOtherUnits = {"ns", "ms", "s"};
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr double kPicosecondsPerMicrosecond = 1e6;

struct Field {
  std::string_view text;
  TextMark mark;
};

std::vector<Field> split_fields(std::string_view line, int number) {
  std::vector<Field> fields;
  std::size_t begin = 0;
  while (begin <= line.size()) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    fields.push_back({line.substr(begin, end - begin), {number, static_cast<int>(begin) + 1}});
    begin = end + 1;
  }
  return fields;
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc{} && end == text.data() + text.size();
  return is_whole && value > 0 ? std::optional(value) : std::nullopt;
}

// Microseconds as a time of at least a picosecond; nullopt for what Time cannot hold, too.
std::optional<Time> time_in(std::string_view text) {
  const double picoseconds = number_in<double>(text).value_or(0) * kPicosecondsPerMicrosecond;
  if (!(picoseconds >= 1 && picoseconds < 0x1p63)) return std::nullopt;
  return Time{std::llround(picoseconds)};
}

// Says what a column without times is: of another unit, of bandwidths, or of something else.
std::string describe_column(std::string_view head) {
  for (const MeasuredCollective one : kMeasuredCollectives) {
    const std::string_view name = name_of(one);
    if (!head.starts_with(name) || !head.substr(name.size()).starts_with('_')) continue;
    const std::string_view unit = head.substr(name.size() + 1);
    if (std::ranges::find(kOtherUnits, unit) != kOtherUnits.end()) {
      return fmt::format("{} is in {}, and times are read in microseconds: write '{}{}'",
                         in_quotes(head), unit, name, kUnit);
    }
    return fmt::format("{} is no time in microseconds: write the time that it stands for as '{}{}'",
                       in_quotes(head), name, kUnit);
  }
  return fmt::format("{} is no collective's time; one is 'all_reduce{}'", in_quotes(head), kUnit);
}

// A file while it is read.
class PublishedFile {
 public:
  explicit PublishedFile(const std::string& name) : errors_(name) {}

  void read_line(std::string_view line, int number) {
    if (number == 1 && line.starts_with(kByteOrderMark)) {
      fail({1, 1}, "a byte order mark is in the way: save the file without it");
      line.remove_prefix(kByteOrderMark.size());
    }
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) return;
    if (const std::size_t quote = line.find('"'); quote != std::string_view::npos) {
      return fail({number, static_cast<int>(quote) + 1},
                  "a quote is in the way: write fields without quotes");
    }
    const std::vector<Field> fields = split_fields(line, number);
    columns_.empty() ? read_head(fields) : read_times(fields);
  }

  std::vector<PublishedTime> finish() {
    errors_.throw_if_any();
    if (columns_.empty()) fail({1, 1}, "no line begins with 'bytes,'");
    errors_.throw_if_any();
    std::vector<PublishedTime> all;
    for (const Column& column : columns_) {
      all.insert(all.end(), column.times.begin(), column.times.end());
    }
    if (all.empty()) errors_.add(kNowhere, "KB-Y048", "no rows");
    errors_.throw_if_any();
    return all;
  }

 private:
  struct Column {
    MeasuredCollective collective;
    std::vector<PublishedTime> times;
  };

  void fail(const TextMark& mark, const std::string& text) { errors_.add(mark, "KB-Y048", text); }

  void read_head(const std::vector<Field>& fields) {
    if (fields.front().text != "bytes" || fields.size() < 2) {
      fail(fields.front().mark, "expected a head such as 'bytes,all_reduce_us'");
    }
    for (const Field& field : std::span(fields).subspan(1)) {
      const auto found = std::ranges::find_if(kMeasuredCollectives, [&](MeasuredCollective one) {
        return field.text == fmt::format("{}{}", name_of(one), kUnit);
      });
      if (found == kMeasuredCollectives.end()) {
        fail(field.mark, describe_column(field.text));
      }
      if (std::ranges::count(fields, field.text, &Field::text) > 1) {
        fail(field.mark, fmt::format("{} is there more than once", in_quotes(field.text)));
      }
      columns_.push_back({found == kMeasuredCollectives.end() ? MeasuredCollective{} : *found, {}});
    }
    if (columns_.empty()) columns_.emplace_back();
  }

  void read_times(const std::vector<Field>& fields) {
    const auto size = number_in<Bytes>(fields.front().text);
    if (!size || fields.size() != columns_.size() + 1) {
      return fail(fields.front().mark,
                  fmt::format("expected a number of bytes and {} time{}", columns_.size(),
                              columns_.size() == 1 ? "" : "s"));
    }
    const TextMark& mark_of_size = fields.front().mark;
    const auto [first, is_new] = sizes_.emplace(*size, mark_of_size.line);
    if (!is_new) {
      return fail(mark_of_size,
                  fmt::format("the size {} has a row already, in line {}", *size, first->second));
    }
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const auto& [text, mark] = fields[i + 1];
      if (text.empty()) continue;
      const auto time = time_in(text);
      if (!time) {
        fail(mark, fmt::format("expected microseconds such as 13.12, got {}", in_quotes(text)));
        continue;
      }
      columns_[i].times.push_back({columns_[i].collective, *size, *time});
    }
  }

  ConfigErrors errors_;
  std::vector<Column> columns_;
  std::map<Bytes, int> sizes_;  // the line of each
};

}  // namespace

std::vector<PublishedTime> parse_published_times(std::string_view text, const std::string& file) {
  PublishedFile published(file);
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    published.read_line(text.substr(0, end), number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return published.finish();
}

}  // namespace kernbench::benches::collectives
