#include "benches/operators/perf_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "benches/bench/row_cells.h"
#include "sim_engine/base/line_width.h"

namespace kernbench::benches::operators {

namespace {

// The value rounded to `digits`; nullopt if it is not finite.
std::optional<double> rounded(double value, double digits) {
  if (!std::isfinite(value)) return std::nullopt;
  const double scale = std::pow(10, digits);
  return std::round(value * scale) / scale;
}

std::string or_dash(const std::optional<double>& number, int digits) {
  return number ? fmt::format("{:.{}f}", *number, digits) : "-";
}

std::string share_column(const ProviderInfo& provider) {
  return fmt::format("{} of roofline (%)", provider.title);
}

// The index of the handwritten provider, or of the last if there is none.
std::size_t index_of_fused(std::span<const ProviderInfo> providers) {
  const auto found = std::ranges::find(providers, "fused", &ProviderInfo::name);
  const auto one = found == providers.end() ? providers.end() - 1 : found;
  return static_cast<std::size_t>(one - providers.begin());
}

constexpr int kWideColumn = 14;
constexpr int kNarrowColumn = 10;
constexpr int kNarrowShare = 6;
constexpr std::size_t kFixedColumns = 43;

// "CF" of "Compiled Fused".
std::string initials(const ProviderInfo& provider) {
  std::string letters;
  char before = ' ';
  for (const char c : provider.title) {
    if (before == ' ') letters += c;
    before = c;
  }
  return letters;
}

// The table's columns of each provider.  Where the table would be too wide, times have less room
// and shares stand under initials.
struct ProviderColumns {
  explicit ProviderColumns(std::span<const ProviderInfo> providers)
      : is_narrow(kFixedColumns + 2 * (kWideColumn + 1) * providers.size() > kLineWidth) {}

  int time(const ProviderInfo& provider) const {
    return is_narrow ? std::max(kNarrowColumn, static_cast<int>(provider.title.size()))
                     : kWideColumn;
  }
  int share() const { return is_narrow ? kNarrowShare : kWideColumn; }
  std::string share_title(const ProviderInfo& provider) const {
    return is_narrow ? initials(provider) : provider.title;
  }

  bool is_narrow;
};

// Columns of the terminal's table are at least as wide as their head.
std::string head(std::span<const ProviderInfo> providers) {
  const ProviderColumns columns(providers);
  std::string names = fmt::format("# {:>6} {:>6} {:>6}", "dim", "batch", "seq");
  std::string units = fmt::format("# {:>6} {:>6} {:>6}", "", "", "");
  for (const ProviderInfo& provider : providers) {
    names += fmt::format(" {:>{}}", provider.title, columns.time(provider));
    units += fmt::format(" {:>{}}", "(us)", columns.time(provider));
  }
  names += fmt::format(" {:>8} {:>10}", "SpeedUp", "roofline");
  units += fmt::format(" {:>8} {:>10}", "", "(us)");
  for (const ProviderInfo& provider : providers) {
    names += fmt::format(" {:>{}}", columns.share_title(provider), columns.share());
    units += fmt::format(" {:>{}}", columns.is_narrow ? "(%)" : "(% of it)", columns.share());
  }
  return names + '\n' + units + '\n';
}

std::string format_line(const Row& row, std::span<const ProviderInfo> providers) {
  const ProviderColumns columns(providers);
  std::string line = fmt::format("  {:>6} {:>6} {:>6}", number_in(row, "dim"),
                                 number_in(row, "batch_size"), number_in(row, "seq_len"));
  for (const ProviderInfo& provider : providers) {
    line +=
        fmt::format(" {:>{}.3f}", number_in(row, time_column(provider)), columns.time(provider));
  }
  line += fmt::format(" {:>8} {:>10.3f}", or_dash(number_or_null(row, "SpeedUp"), 2),
                      number_in(row, "Roofline (us)"));
  for (const ProviderInfo& provider : providers) {
    line += fmt::format(" {:>{}}", or_dash(number_or_null(row, share_column(provider)), 1),
                        columns.share());
  }
  return line + '\n';
}

// Says what the initials over the shares mean.
std::string note_on_initials(std::span<const ProviderInfo> providers) {
  if (!ProviderColumns(providers).is_narrow) return {};
  std::string text;
  for (const ProviderInfo& provider : providers) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", initials(provider), provider.title);
  }
  return fmt::format("# (%): of the roofline; {}\n", text);
}

// "Compiled 2.00, Fused -"; empty if there is nobody but the first.
std::string means(std::span<const Row> rows, std::span<const ProviderInfo> providers) {
  std::string text;
  for (const ProviderInfo& provider : providers.subspan(1)) {
    const double mean = mean_speed_up(rows, providers, provider);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", provider.title,
                        or_dash(rounded(mean, 2), 2));
  }
  return text;
}

std::string kernels_column(const ProviderInfo& provider) {
  return fmt::format("{} kernels", provider.title);
}

std::string in_kernels_column(const ProviderInfo& provider) {
  return fmt::format("{} in kernels (us)", provider.title);
}

// The time of a provider's launches, from a row.
double launching(const Row& row, const ProviderInfo& provider) {
  return number_in(row, time_column(provider)) - number_in(row, in_kernels_column(provider));
}

// True if `more` is slower than `fewer` only because of its launches.
bool is_slower_by_launches(const Row& row, const ProviderInfo& more, const ProviderInfo& fewer) {
  const double slower = number_in(row, time_column(more)) - number_in(row, time_column(fewer));
  return number_in(row, kernels_column(more)) > number_in(row, kernels_column(fewer)) &&
         slower > 0 && launching(row, more) - launching(row, fewer) >= slower;
}

// Explains why a provider that should be faster is not.
std::string notes_on_launches(std::span<const Row> rows, std::span<const ProviderInfo> providers) {
  std::string text;
  for (const ProviderInfo& more : providers.subspan(1)) {
    for (const ProviderInfo& fewer : providers.subspan(1)) {
      const auto row = std::ranges::find_if(
          rows, [&](const Row& one) { return is_slower_by_launches(one, more, fewer); });
      if (row == rows.end()) continue;
      const double kernels = number_in(*row, kernels_column(more));
      text += fmt::format(
          "# {} launches {} kernels, {} {}: where that costs more ({:.1f} us each) than they save, "
          "it is slower\n",
          more.title, kernels, fewer.title, number_in(*row, kernels_column(fewer)),
          launching(*row, more) / kernels);
    }
  }
  return text;
}

// Explains shares above 1: a handwritten kernel may move fewer bytes than any that uses forward()'s
// values.
std::string notes_on_rooflines(std::span<const Row> rows, std::span<const ProviderInfo> providers) {
  std::string text;
  for (const ProviderInfo& provider : providers) {
    const auto beyond = std::ranges::count_if(rows, [&](const Row& row) {
      return number_in(row, in_kernels_column(provider)) < number_in(row, "Roofline (us)");
    });
    if (beyond == 0) continue;
    text += fmt::format(
        "# {}: {} of {} sizes take less time in kernels than the roofline: it moves fewer bytes "
        "than the values of forward() have, or leaves out work\n",
        provider.title, beyond, rows.size());
  }
  return text;
}

}  // namespace

std::string time_column(const ProviderInfo& provider) {
  return provider.title + " (us)";
}

Row perf_row(const Definition& definition, std::span<const ProviderInfo> providers,
             Direction direction, std::span<const MeasuredBoth> measured) {
  const auto of = [&](std::size_t i) -> const Measured& {
    return measured[i][static_cast<std::size_t>(direction)];
  };
  const auto& [batch, seq, dim] = definition.problem.size;
  Row row = Row().set("dim", dim).set("batch_size", batch).set("seq_len", seq);
  for (std::size_t i = 0; i < providers.size(); ++i) {
    row.set(time_column(providers[i]), microseconds(of(i).time));
  }
  const std::size_t fused_one = index_of_fused(providers);
  row.set("SpeedUp", rounded(microseconds(of(0).time) / microseconds(of(fused_one).time), 3));
  row.set("Roofline (us)", microseconds(of(0).roofline));
  for (std::size_t i = 0; i < providers.size(); ++i) {
    row.set(share_column(providers[i]), rounded(100 * of(i).share_of_roofline(), 2));
  }
  for (std::size_t i = 0; i < providers.size(); ++i) {
    row.set(kernels_column(providers[i]), of(i).kernels)
        .set(in_kernels_column(providers[i]), microseconds(of(i).in_kernels));
  }
  return row;
}

double speed_up(const Row& row, std::span<const ProviderInfo> providers,
                const ProviderInfo& provider) {
  return number_in(row, time_column(providers.front())) / number_in(row, time_column(provider));
}

double mean_speed_up(std::span<const Row> rows, std::span<const ProviderInfo> providers,
                     const ProviderInfo& provider) {
  double logarithms = 0;
  for (const Row& row : rows) logarithms += std::log(speed_up(row, providers, provider));
  return std::exp(logarithms / static_cast<double>(rows.size()));
}

std::string perf_table(std::string_view title, std::span<const Row> rows,
                       std::span<const ProviderInfo> providers) {
  std::string text = fmt::format("#\n# {}\n", title) + head(providers);
  for (const Row& row : rows) text += format_line(row, providers);
  text += note_on_initials(providers);
  text += fmt::format("# SpeedUp: {} / {}\n", providers.front().title,
                      providers[index_of_fused(providers)].title);
  if (providers.size() > 1) {
    text += fmt::format("# geometric mean of the speed-up over {}: {}\n", providers.front().title,
                        means(rows, providers));
  }
  return text + notes_on_launches(rows, providers) + notes_on_rooflines(rows, providers);
}

figure::Chart speed_up_chart(std::string_view title, std::string_view subtitle, std::string csv,
                             std::span<const Row> rows, std::span<const ProviderInfo> providers) {
  std::vector<std::string> others;
  for (const ProviderInfo& provider : providers.subspan(1)) others.push_back(provider.title);
  std::set<double> dims;
  for (const Row& row : rows) dims.insert(number_in(row, "dim"));
  const std::string& first = providers.front().title;
  return {
      .form = "speedup",
      .csv = std::move(csv),
      .title = fmt::format("{}: speed-up over {}", title, first),
      .subtitle = std::string(subtitle),
      .note = fmt::format("Geometric mean: {}. Times include launches.", means(rows, providers)),
      .key_rows = static_cast<int>((others.size() * dims.size() + 1 + 2) / 3),  // in 3 columns
      .values = {{"first", first},
                 {"provider", std::move(others)},
                 {"dim", std::vector<double>(dims.begin(), dims.end())}}};
}

}  // namespace kernbench::benches::operators
