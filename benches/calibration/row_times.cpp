#include "benches/calibration/row_times.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "benches/bench/row_cells.h"
#include "benches/collectives/calibrate.h"
#include "benches/variants/reruns.h"

namespace kernbench::benches::calibration {

namespace {

// The only parameter in which two points differ.
std::optional<std::size_t> find_difference(const Texts& a, const Texts& b) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

}  // namespace

void RowTimes::forget_what_moves() {
  effects_.assign(calibration_.rows.size() * parameters_.size(), Effect::unknown);
  recent_.clear();
}

RowTimes::Known RowTimes::known_by(std::size_t row, const Texts& texts) const {
  Known known{row, texts};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (effect(row, i) == Effect::none) known.second[i].clear();
  }
  return known;
}

void RowTimes::simulate(const std::map<Known, Texts>& missing) {
  if (missing.empty()) return;
  std::map<Known, variants::Variant> made;  // by machine
  variants::Reruns reruns(bench_.run());
  Sweep sweep(reruns.bench(), "fit");
  for (const auto& [known, texts] : missing) {
    const CalibratedRow& row = calibration_.rows[known.first];
    const Machine& machine = calibration_.machines[row.machine];
    auto found = made.find({row.machine, texts});
    if (found == made.end()) {
      found =
          made.emplace(Known(row.machine, texts), make_variant(machine, parameters_, texts)).first;
    }
    const variants::Variant& variant = found->second;
    collectives::MeasuredInput input = machine.input;
    input.has_theory = false;  // it may take as long as the simulation
    sweep.add(fmt::format("{} at {}", row.name_in(machine.file), fmt::join(texts, ", ")),
              [&row, &variant, input](PointContext& point) {
                const collectives::Measurement measured = collectives::simulate(
                    point, variant.topology, variant.ccl, input, row.published);
                return Row().set("time_ps", measured.time.count());
              });
  }
  const std::vector<Row> rows = sweep.run();
  auto row = rows.begin();
  for (const auto& [known, texts] : missing) {
    times_[known] = Time{static_cast<std::int64_t>(number_in(*row++, "time_ps"))};
  }
  simulated_ += missing.size();
}

std::vector<Time> RowTimes::of(std::span<const Wanted> wanted) {
  std::map<Known, Texts> missing;
  for (const auto& [row, texts] : wanted) {
    Known known = known_by(row, texts);
    if (!times_.contains(known)) missing.emplace(std::move(known), texts);
  }
  simulate(missing);
  std::vector<Time> times;
  for (const auto& [row, texts] : wanted) times.push_back(times_.at(known_by(row, texts)));
  return times;
}

std::vector<std::vector<Time>> RowTimes::at(std::span<const Texts> points) {
  const std::size_t count = calibration_.rows.size();
  std::vector<Wanted> wanted;
  for (const Texts& point : points) {
    for (std::size_t row = 0; row < count; ++row) wanted.push_back({row, point});
  }
  const std::vector<Time> all = of(wanted);
  std::vector<std::vector<Time>> times;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * count);
    times.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
    learn(points[i], times.back());
  }
  enter_recent();
  return times;
}

void RowTimes::learn(const Texts& texts, const std::vector<Time>& times) {
  for (const auto& [other, other_times] : recent_) {
    const std::optional<std::size_t> parameter = find_difference(texts, other);
    if (!parameter) continue;
    for (std::size_t row = 0; row < times.size(); ++row) {
      Effect& known = effect(row, *parameter);
      if (times[row] != other_times[row]) {
        known = Effect::moves;
      } else if (known == Effect::unknown) {
        known = Effect::none;
      }
    }
  }
  recent_.insert(recent_.begin(), {texts, times});
  const std::size_t most = parameters_.size() + 2;  // a point and one beside it for each
  if (recent_.size() > most) recent_.pop_back();
}

// Times are found by what their rows are known to depend on now.
void RowTimes::enter_recent() {
  for (const auto& [texts, times] : recent_) {
    for (std::size_t row = 0; row < times.size(); ++row) {
      times_.try_emplace(known_by(row, texts), times[row]);
    }
  }
}

bool RowTimes::verify(const Texts& point) {
  const std::vector<Time> kept = at(point);
  const std::vector<Effect> effects = effects_;
  forget_what_moves();
  std::erase_if(times_, [&](const auto& known) { return known.first.second == point; });
  const bool is_right = at(point) == kept;
  if (is_right) {
    effects_ = effects;
  } else {
    times_.clear();
  }
  return is_right;
}

}  // namespace kernbench::benches::calibration
