#include "benches/collectives/collective_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <ranges>
#include <utility>

#include "benches/bench/bench_run.h"
#include "benches/bench/cell.h"
#include "benches/bench/row_cells.h"
#include "benches/collectives/group_split.h"
#include "runtime/distributed/collective.h"

namespace kernbench::benches::collectives {

namespace {

constexpr std::array kBothPlaces = {
    TableColumn{"size", "(B)", 11, "bytes"},
    TableColumn{"count", "(elements)", 11, "count"},
    TableColumn{"type", "", 5, "dtype"},
    TableColumn{"redop", "", 6, "redop"},
    TableColumn{"root", "", 5, "root"},
    TableColumn{"time", "(us)", 11, "out_of_place_time_ns", 1e-3, 3},
    TableColumn{"algbw", "(GB/s)", 8, "out_of_place_algbw_gbs", 1, 2},
    TableColumn{"busbw", "(GB/s)", 8, "out_of_place_busbw_gbs", 1, 2},
    TableColumn{"#wrong", "", 6, "out_of_place_wrong"},
    TableColumn{"time", "(us)", 11, "in_place_time_ns", 1e-3, 3},
    TableColumn{"algbw", "(GB/s)", 8, "in_place_algbw_gbs", 1, 2},
    TableColumn{"busbw", "(GB/s)", 8, "in_place_busbw_gbs", 1, 2},
    TableColumn{"#wrong", "", 6, "in_place_wrong"},
    TableColumn{"bound", "(us)", 11, "lower_bound_ns", 1e-3, 3},
    TableColumn{"hbm", "(us)", 11, "memory_bound_ns", 1e-3, 3},
    TableColumn{"factor", "", 7, "bus_factor"},
    TableColumn{"algorithm", "", -20, "algorithm"},
    TableColumn{"longest wait", "(us)", 0, "longest_wait"},
};

constexpr std::array kOnePlace = {
    TableColumn{"size", "(B)", 11, "bytes"},
    TableColumn{"count", "(elements)", 11, "n_elem"},
    TableColumn{"type", "", 6, "dtype"},
    TableColumn{"redop", "", 6, "redop"},
    TableColumn{"time", "(us)", 11, "time_ns", 1e-3, 3},
    TableColumn{"crit", "(us)", 11, "crit_ns", 1e-3, 3},
    TableColumn{"algbw", "(GB/s)", 9, "algbw_gbs", 1, 2},
    TableColumn{"busbw", "(GB/s)", 9, "busbw_gbs", 1, 2},
    TableColumn{"bound", "(us)", 11, "lower_bound_ns", 1e-3, 3},
    TableColumn{"model", "(us)", 11, "model_ns", 1e-3, 3},
    TableColumn{"#wrong", "", 7, "wrong"},
};

// These columns stand beside those of kBothPlaces if several groups run at once.
constexpr TableColumn kGroup{"group", "", 18, "group"};
constexpr std::array kBesideAlone = {
    TableColumn{"alone", "(us)", 11, "alone_time_ns", 1e-3, 3},
    TableColumn{"slower", "", 7, "slowdown", 1, 2},
};

// The tables of a collective, one below the other where one would be too wide.
std::vector<std::vector<TableColumn>> list_tables(TableForm form) {
  if (form == TableForm::one_place) return fold(kOnePlace, 1);
  std::vector<TableColumn> columns(kBothPlaces.begin(), kBothPlaces.end());
  if (form == TableForm::both_places) return fold(columns, 1);
  columns.insert(columns.begin() + 1, kGroup);
  const auto in_place = std::ranges::find(columns, "in_place_time_ns", &TableColumn::cell);
  columns.insert(in_place, kBesideAlone.begin(), kBesideAlone.end());
  return fold(columns, 2);
}

// "out-of-place" and "in-place" over the middle of their columns.
std::string heads_of_places(std::span<const TableColumn> columns) {
  std::string line = "#";
  for (const auto& [title, cells] :
       {std::pair{"out-of-place", "out_of_place"}, std::pair{"in-place", "in_place"}}) {
    std::size_t begin = 1;
    std::size_t width = 0;
    for (const TableColumn& column : columns) {
      if (column.cell.starts_with(cells)) width += compute_width(column);
      if (width == 0) begin += compute_width(column);
    }
    const std::size_t right = begin + (width + std::string_view(title).size()) / 2;
    if (width > 0) line += fmt::format("{:>{}}", title, std::max(right, line.size()) - line.size());
  }
  return line + '\n';
}

std::optional<double> in_ns(const std::optional<Time>& time) {
  return time ? std::optional(to_ns(*time)) : std::nullopt;
}

double busbw_gbs(const BlocksInput& blocks, Time time) {
  return algbw_gbs(blocks.bytes(), time) * spec_of(blocks.collective).factor.of(blocks.ranks);
}

void set_place(Row& row, std::string_view place, const BlocksInput& blocks,
               const std::optional<Measurement>& measured) {
  const auto set = [&](std::string_view column, const auto& value) {
    row.set(fmt::format("{}_{}", place, column), value);
  };
  const std::optional<Time> time =
      measured && measured->algorithm ? std::optional(measured->time) : std::nullopt;
  const auto bandwidth = [&](double (*of)(const BlocksInput&, Time)) {
    return time ? std::optional(of(blocks, measured->time)) : std::nullopt;
  };
  set("time_ns", in_ns(time));
  set("algbw_gbs",
      bandwidth([](const BlocksInput& own, Time t) { return algbw_gbs(own.bytes(), t); }));
  set("busbw_gbs", bandwidth(busbw_gbs));
  set("wrong", measured ? measured->wrong : std::nullopt);
}

// The most that a PE has waited for each cause, and the largest of these: "link 0.123".
void set_waits(Row& row, const Measurement& measured) {
  const sim::Waits& waits = measured.waits;
  for (const sim::WaitCause cause : sim::kWaitCauses) {
    row.set(fmt::format("wait_{}_ns", name_of(cause)),
            measured.algorithm ? std::optional(to_ns(waits[cause])) : std::nullopt);
  }
  const sim::WaitCause cause = waits.largest();
  row.set("longest_wait",
          waits[cause] == Time{0}
              ? std::nullopt
              : std::optional(fmt::format("{} {:.3f}", name_of(cause), to_ns(waits[cause]) / 1e3)));
}

}  // namespace

std::string_view redop_name(const BlocksInput& blocks) {
  if (!spec_of(blocks.collective).reduces) return "none";
  switch (blocks.op) {
    case ReduceOp::avg:
      return "avg";
    case ReduceOp::product:
      return "prod";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    default:
      return "sum";
  }
}

Row to_row(const MeasuredInput& input, const std::optional<Measurement>& out_of_place,
           const std::optional<Measurement>& in_place) {
  const BlocksInput& blocks = input.blocks;
  const CollectiveSpec& spec = spec_of(blocks.collective);
  const Measurement& any = out_of_place ? *out_of_place : in_place.value();
  Row row;
  row.set("collective", spec.name)
      .set("backend", input.backend)
      .set("algorithm", any.algorithm)
      .set("world_size", blocks.ranks)
      .set("bytes", blocks.bytes())
      .set("count", blocks.count)
      .set("dtype", name_of(blocks.dtype))
      .set("redop", redop_name(blocks))
      .set("root", spec.has_root ? blocks.root : -1);
  set_place(row, "out_of_place", blocks, out_of_place);
  set_place(row, "in_place", blocks, in_place);
  row.set("bus_factor", spec.factor.of(blocks.ranks))
      .set("lower_bound_ns", in_ns(any.lower_bound))
      .set("memory_bound_ns", in_ns(any.memory_bound))
      .set("model_ns", in_ns(any.model));
  row.set("faster_algorithm", any.faster_model ? std::optional(any.faster) : std::nullopt)
      .set("faster_model_ns", in_ns(any.faster_model));
  set_waits(row, any);
  return row;
}

Row to_row(const MeasuredInput& input, const Measurement& measured, const ccl::Config& config) {
  const BlocksInput& blocks = input.blocks;
  Row row;
  row.set("collective", name_of(blocks.collective))
      .set("algorithm", measured.algorithm)
      .set("world_size", blocks.ranks)
      .set("buffer_kind", name_of(config.ipcq().buffer_kind))
      .set("n_elem", blocks.count)
      .set("dtype", name_of(blocks.dtype))
      .set("bytes", blocks.bytes())
      .set("crit_ns", to_ns(measured.critical))
      .set("joint_ns", to_ns(measured.joint))
      .set("time_ns", to_ns(measured.time))
      .set("algbw_gbs", algbw_gbs(blocks.bytes(), measured.time))
      .set("busbw_gbs", busbw_gbs(blocks, measured.time))
      .set("lower_bound_ns", in_ns(measured.lower_bound))
      .set("memory_bound_ns", in_ns(measured.memory_bound))
      .set("model_ns", in_ns(measured.model))
      .set("faster_algorithm",
           measured.faster_model ? std::optional(measured.faster) : std::nullopt)
      .set("faster_model_ns", in_ns(measured.faster_model))
      .set("form", measured.form.empty() ? std::nullopt : std::optional(measured.form))
      .set("wrong", measured.wrong);
  set_waits(row, measured);
  return row;
}

void add_alone(Row& row, const MeasuredInput& input, const Measurement& at_once,
               const Measurement& alone) {
  const std::optional<Time> time = alone.algorithm ? std::optional(alone.time) : std::nullopt;
  const bool has_ratio = time && *time > Time{0};
  row.set("group", members_text(input.members))
      .set("alone_time_ns", in_ns(time))
      .set("slowdown",
           has_ratio ? std::optional(to_ns(at_once.time) / to_ns(*time)) : std::nullopt);
}

CollectiveTable::CollectiveTable(Bench& bench, MeasuredCollective collective, TableForm form)
    : bench_(bench),
      spec_(spec_of(collective)),
      tables_(list_tables(form)),
      is_in_one_place_(form == TableForm::one_place),
      missing_(is_in_one_place_ ? "-" : "N/A") {}

void CollectiveTable::print_head(std::span<const TableColumn> columns) {
  const bool has_places = std::ranges::any_of(columns, [](const TableColumn& column) {
    return column.cell.find("_place_") != column.cell.npos;
  });
  bench_.print("#\n" + (has_places ? heads_of_places(columns) : std::string()) +
               table_head(columns));
}

void CollectiveTable::add(const Row& row) {
  if (rows_.empty()) {
    if (!is_in_one_place_) bench_.print(fmt::format("#\n# {}\n", spec_.name));
    print_head(tables_.front());
  }
  bench_.print(table_line(tables_.front(), row, bench_.run().console, missing_));
  rows_.push_back(row);
  for (const TableColumn& column : std::views::join(tables_)) {
    const bool is_wrong = column.title == "#wrong";
    if (!is_wrong && column.title != "busbw") continue;
    const std::optional<double> number = number_or_null(row, column.cell);
    if (is_wrong) wrong_ += static_cast<std::int64_t>(number.value_or(0));
    if (!is_wrong && number) busbw_gbs_.push_back(*number);
  }
  bus_factor_ = spec_.factor.of(static_cast<int>(number_in(row, "world_size")));
  const Cell* const form = row.find("form");
  if (form != nullptr && std::holds_alternative<std::string>(*form)) {
    forms_.insert(text_in(row, "form"));
  }
}

// By which algorithm the rows ran: a line for those that follow one another.
std::string CollectiveTable::algorithms_text() const {
  std::string text;
  for (std::size_t first = 0, end = 0; first < rows_.size(); first = end) {
    const std::string& name = text_in(rows_[first], "algorithm");
    while (end < rows_.size() && text_in(rows_[end], "algorithm") == name) ++end;
    const auto size = [&](std::size_t at) { return number_in(rows_[at], "bytes"); };
    text += fmt::format("{:<25}{} of {} B\n", first == 0 ? "# Algorithm            :" : "#", name,
                        end - first == 1 ? fmt::format("{}", size(first))
                                         : fmt::format("{} to {}", size(first), size(end - 1)));
  }
  return text;
}

// The size at which another algorithm would gain most by the model; empty if there is none, or if
// the environment wants sums of one order, which others may not have.
std::string CollectiveTable::faster_text() const {
  if (distributed::least_reproducible_by_environment() != Reproducible::run) return {};
  const Row* most = nullptr;
  double ratio = 1;
  for (const Row& row : rows_) {
    const std::optional<double> faster = number_or_null(row, "faster_model_ns");
    if (!faster || number_in(row, "model_ns") / *faster <= ratio) continue;
    ratio = number_in(row, "model_ns") / *faster;
    most = &row;
  }
  if (most == nullptr) return {};
  return fmt::format("# Faster by the model  : {} {:.1f} us of {} B, {} {:.1f} us\n",
                     text_in(*most, "faster_algorithm"), number_in(*most, "faster_model_ns") / 1e3,
                     number_in(*most, "bytes"), text_in(*most, "algorithm"),
                     number_in(*most, "model_ns") / 1e3);
}

void CollectiveTable::end() {
  for (const auto& columns : std::span(tables_).subspan(1)) {
    print_head(columns);
    for (const Row& row : rows_) {
      bench_.print(table_line(columns, row, bench_.run().console, missing_));
    }
  }
  const double sum = std::accumulate(busbw_gbs_.begin(), busbw_gbs_.end(), 0.0);
  bench_.print(fmt::format(
      "# Out of bounds values : {} {}\n"
      "# Avg bus bandwidth    : {}  (busbw = algbw * {}{:.4g})\n",
      wrong_, wrong_ == 0 ? "OK" : bench_.run().console.alarming("FAILED"),
      busbw_gbs_.empty() ? "N/A"
                         : fmt::format("{:.4g} GB/s", sum / static_cast<double>(busbw_gbs_.size())),
      bus_factor_ == 1 ? "" : fmt::format("{} = algbw * ", spec_.factor.form), bus_factor_));
  if (is_in_one_place_) bench_.print(algorithms_text());
  bench_.print(faster_text());
  if (forms_.size() != 1) return;
  bench_.print(
      fmt::format("# Closed form          : {}\n#                        (links alone; a, b: "
                  "latency and time per byte "
                  "between neighbours)\n",
                  *forms_.begin()));
}

}  // namespace kernbench::benches::collectives
