#include "benches/collectives/nccl_table.h"

#include <fmt/format.h>

#include "benches/bench/row_cells.h"
#include "benches/collectives/collective_table.h"

namespace kernbench::benches {

namespace {

// nccl-tests' names.
std::string_view redop_of(const BlocksInput& blocks) {
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

constexpr std::string_view kPlaces[] = {"out_of_place", "in_place"};

void set_place(Row& cells, std::string_view place, const NcclRow& row,
               const std::optional<Measurement>& measured) {
  const auto set = [&](std::string_view column, const auto& value) {
    cells.set(fmt::format("{}_{}", place, column), value);
  };
  std::optional<double> time;
  std::optional<double> algbw;
  std::optional<double> busbw;
  if (measured && measured->algorithm) {
    time = to_ns(measured->time);
    algbw = algbw_gbs(row.size(), measured->time);
    busbw = *algbw * spec_of(row.input.blocks.collective).factor.of(row.input.blocks.ranks);
  }
  set("time_ns", time);
  set("algbw_gbs", algbw);
  set("busbw_gbs", busbw);
  set("wrong", measured ? measured->wrong : std::nullopt);
}

// "12.345", or nccl-tests' N/A.
std::string in_column(std::optional<double> number, int width, int digits) {
  return number ? fmt::format("{:>{}.{}f}", *number, width, digits)
                : fmt::format("{:>{}}", "N/A", width);
}

std::string place_cells(const Row& row, std::string_view place, const Console& console) {
  const auto cell = [&](std::string_view column) {
    return number_or_null(row, fmt::format("{}_{}", place, column));
  };
  const std::optional<double> time = cell("time_ns");
  const std::string wrong = in_column(cell("wrong"), 6, 0);
  return fmt::format(" {} {} {} {}", in_column(time ? std::optional(*time / 1e3) : time, 11, 3),
                     in_column(cell("algbw_gbs"), 8, 2), in_column(cell("busbw_gbs"), 8, 2),
                     cell("wrong").value_or(0) == 0 ? wrong : console.alarming(wrong));
}

constexpr std::string_view kHead =
    "#\n"
    "# {0:>11} {0:>11} {0:>5} {0:>6} {0:>5}{1:>25}{2:>34}\n"
    "# {3:>11} {4:>11} {5:>5} {6:>6} {7:>5} {8:>11} {9:>8} {10:>8} {11:>6} {8:>11} {9:>8} {10:>8} "
    "{11:>6} {12:>11} {13:>7}  {14}\n"
    "# {15:>11} {16:>11} {0:>5} {0:>6} {0:>5} {17:>11} {18:>8} {18:>8} {0:>6} {17:>11} {18:>8} "
    "{18:>8} {0:>6} {17:>11}\n";

std::string head() {
  return fmt::format(kHead, "", "out-of-place", "in-place", "size", "count", "type", "redop",
                     "root", "time", "algbw", "busbw", "#wrong", "bound", "factor", "algorithm",
                     "(B)", "(elements)", "(us)", "(GB/s)");
}

std::string line(const Row& row, const Console& console) {
  const auto whole = [&](std::string_view column) {
    return static_cast<std::int64_t>(number_in(row, column));
  };
  const std::optional<double> bound = number_or_null(row, "lower_bound_ns");
  const bool has_algorithm = bound.has_value();
  return fmt::format("  {:>11} {:>11} {:>5} {:>6} {:>5}{}{} {} {:>7.4g}  {}\n", whole("bytes"),
                     whole("count"), text_in(row, "dtype"), text_in(row, "redop"), whole("root"),
                     place_cells(row, kPlaces[0], console), place_cells(row, kPlaces[1], console),
                     in_column(bound ? std::optional(*bound / 1e3) : bound, 11, 3),
                     number_in(row, "bus_factor"),
                     has_algorithm ? text_in(row, "algorithm") : "N/A");
}

}  // namespace

Bytes NcclRow::size() const {
  const BlocksInput& blocks = input.blocks;
  return blocks.count * size_of(blocks.dtype) *
         spec_of(blocks.collective).blocks_in_size(blocks.ranks);
}

Row to_row(const NcclRow& row) {
  const BlocksInput& blocks = row.input.blocks;
  const CollectiveSpec& spec = spec_of(blocks.collective);
  const Measurement& any = row.out_of_place ? *row.out_of_place : row.in_place.value();
  Row cells;
  cells.set("collective", spec.name)
      .set("backend", row.input.backend)
      .set("algorithm", any.algorithm)
      .set("world_size", blocks.ranks)
      .set("bytes", row.size())
      .set("count", blocks.count)
      .set("dtype", name_of(blocks.dtype))
      .set("redop", redop_of(blocks))
      .set("root", spec.has_root ? blocks.root : -1);
  set_place(cells, kPlaces[0], row, row.out_of_place);
  set_place(cells, kPlaces[1], row, row.in_place);
  cells.set("bus_factor", spec.factor.of(blocks.ranks))
      .set("lower_bound_ns",
           any.lower_bound ? std::optional(to_ns(*any.lower_bound)) : std::nullopt);
  return cells;
}

void print_nccl_table(Bench& bench, MeasuredCollective collective, std::span<const Row> rows) {
  const CollectiveSpec& spec = spec_of(collective);
  bench.print(fmt::format("#\n# {}\n{}", spec.name, head()));
  std::int64_t wrong = 0;
  std::vector<double> busbw_gbs;
  for (const Row& row : rows) {
    bench.print(line(row, bench.console()));
    for (const std::string_view place : kPlaces) {
      const auto busbw = number_or_null(row, fmt::format("{}_busbw_gbs", place));
      if (busbw) busbw_gbs.push_back(*busbw);
      wrong += static_cast<std::int64_t>(
          number_or_null(row, fmt::format("{}_wrong", place)).value_or(0));
    }
  }
  const double factor = number_in(rows.front(), "bus_factor");
  bench.print(nccl_foot(wrong, busbw_gbs,
                        spec.factor.sends_per_rank == 0
                            ? "1"
                            : fmt::format("{} = algbw * {:.4g}", spec.factor.form, factor),
                        bench.console()));
}

}  // namespace kernbench::benches
