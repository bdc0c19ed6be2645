#include "benches/tensor_parallel/step_charts.h"

#include <fmt/format.h>

#include "benches/bench/row_cells.h"

namespace kernbench::benches::tensor_parallel {

namespace {

constexpr std::string_view kTitle = "Training step over tensor parallel ranks";

}  // namespace

figure::Chart strong_scaling_chart(std::span<const Row> steps, const std::string& what) {
  return {.form = "strong_scaling",
          .csv = "steps.csv",
          .title = fmt::format("{}: strong scaling", kTitle),
          .subtitle = what,
          .note =
              "Ideal: ranks share all of a step, and communication takes no time. Each has as "
              "many PEs at every tp.",
          .values = {{"first_tp", number_in(steps.front(), "tp")},
                     {"first_ns", number_in(steps.front(), "step_ns")}}};
}

figure::Chart step_time_chart(std::span<const Row> steps, const std::string& what) {
  return {.form = "step_time",
          .csv = "steps.csv",
          .title = fmt::format("{}: what its time is spent with", kTitle),
          .subtitle = what,
          .note =
              "Of the rank that takes longest. Communication: one of its collectives is under "
              "way; compute: a kernel of the model runs on its SIP.",
          .key_rows = 2,
          .values = {{"steps", static_cast<double>(steps.size())}}};
}

}  // namespace kernbench::benches::tensor_parallel
