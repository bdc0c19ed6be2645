#include "benches/variants/ranking.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "benches/bench/cell.h"
#include "benches/bench/cell_text.h"
#include "benches/variants/row_columns.h"

namespace kernbench::benches::variants {

namespace {

// The bands of one contest, by candidate.
struct Candidates {
  Contest contest;
  std::vector<std::string> names = {};
  std::vector<const Band*> bands = {};
};

std::string candidate_of(const Band& band, const std::string& by) {
  const Cell* const cell = band.row.find(by);
  return cell == nullptr ? "" : to_text(*cell);
}

Row without_column(const Row& row, const std::string& without) {
  Row result;
  for (const auto& [column, cell] : row.cells()) {
    if (column != without) result.set_cell(column, cell);
  }
  return result;
}

// The columns by which rows of different candidates match.
RowColumns columns_beside(std::span<const Band> bands, const std::string& by) {
  std::vector<std::string> names;
  std::vector<std::vector<Row>> rows;
  for (const Band& band : bands) {
    const std::string name = candidate_of(band, by);
    if (name.empty()) continue;
    const auto known = std::ranges::find(names, name);
    if (known == names.end()) {
      names.push_back(name);
      rows.emplace_back();
    }
    const auto at = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
    rows[at].push_back(without_column(band.row, by));
  }
  if (rows.empty()) return {};
  RowColumns columns = common_columns(rows);
  shorten_names(rows.front(), columns);
  return columns;
}

std::vector<Candidates> find_candidates(std::span<const Band> bands, const std::string& by) {
  const RowColumns columns = columns_beside(bands, by);
  std::vector<Candidates> all;
  std::map<std::string, std::size_t> by_key;
  for (const Band& band : bands) {
    const std::string name = candidate_of(band, by);
    if (name.empty()) continue;
    const auto [known, is_new] = by_key.emplace(matching_key(band.row, columns), all.size());
    if (is_new) {
      Row row;
      for (const auto& [column, cell] : band.row.cells()) {
        const bool is_common =
            std::ranges::find(columns.matching, column) != columns.matching.end();
        if (is_common) row.set_cell(column, cell);
      }
      all.push_back({.contest = {.row = std::move(row), .name = row_name(band.row, columns)}});
    }
    Candidates& candidates = all[known->second];
    if (std::ranges::find(candidates.names, name) != candidates.names.end()) continue;
    candidates.names.push_back(name);
    candidates.bands.push_back(&band);
  }
  std::erase_if(all, [](const Candidates& one) { return one.names.size() < 2; });
  return all;
}

constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

// The candidate that is faster than all others in a run; kNobody if two are equally fast; nullopt
// if one has no time.
std::optional<std::size_t> winner_of(const Candidates& candidates, std::size_t run) {
  std::size_t winner = kNobody;
  double least = 0;
  for (std::size_t i = 0; i < candidates.bands.size(); ++i) {
    const std::optional<double> time = candidates.bands[i]->times[run];
    if (!time) return std::nullopt;
    if (i == 0 || *time < least) {
      winner = i;
      least = *time;
    } else if (*time == least) {
      winner = kNobody;
    }
  }
  return winner;
}

// A run's value of a range, and whether the winner wins it.
struct Outcome {
  double value = 0;
  bool is_won = false;
};

// The best threshold of one range.  REQUIRES: outcomes are sorted by value
std::optional<Split> split_by_range(std::span<const Outcome> outcomes, std::size_t range) {
  const auto won = static_cast<std::size_t>(std::ranges::count(outcomes, true, &Outcome::is_won));
  std::optional<Split> best;
  std::size_t won_below = 0;
  for (std::size_t i = 1; i < outcomes.size(); ++i) {
    won_below += outcomes[i - 1].is_won ? 1 : 0;
    if (outcomes[i - 1].value == outcomes[i].value) continue;
    const std::size_t lost_above = outcomes.size() - i - (won - won_below);
    const std::size_t if_below = won_below + lost_above;
    const std::size_t if_above = outcomes.size() - if_below;
    const std::size_t agreeing = std::max(if_below, if_above);
    if (best && best->agreeing >= agreeing) continue;
    best = Split{range, if_below >= if_above, outcomes[i - 1].value, outcomes[i].value, agreeing};
  }
  return best;
}

std::optional<Split> find_split(std::span<const std::optional<std::size_t>> winners,
                                std::size_t winner, const Samples& samples) {
  std::optional<Split> best;
  for (std::size_t range = 0; range < samples.ranges.size(); ++range) {
    std::vector<Outcome> outcomes;
    for (std::size_t run = 0; run < winners.size(); ++run) {
      if (winners[run]) outcomes.push_back({samples.runs[run][range], *winners[run] == winner});
    }
    std::ranges::sort(outcomes, {}, &Outcome::value);
    const std::optional<Split> split = split_by_range(outcomes, range);
    if (split && (!best || split->agreeing > best->agreeing)) best = split;
  }
  return best;
}

Contest decide(Candidates candidates, const Samples& samples) {
  Contest& contest = candidates.contest;
  std::vector<std::size_t> wins(candidates.names.size());
  std::vector<std::optional<std::size_t>> winners;
  for (std::size_t run = 0; run < samples.runs.size(); ++run) {
    winners.push_back(winner_of(candidates, run));
    if (!winners.back()) continue;
    ++contest.run_count;
    ++(*winners.back() == kNobody ? contest.tie_count : wins[*winners.back()]);
  }
  std::vector<std::size_t> order(wins.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return wins[i]; });
  for (const std::size_t i : order) contest.wins.emplace_back(candidates.names[i], wins[i]);
  const std::size_t most = contest.wins.front().second;
  if (most > 0 && most < contest.run_count) {
    contest.split = find_split(winners, order.front(), samples);
  }
  return std::move(contest);
}

double log_choose(std::size_t n, std::size_t k) {
  const auto log_factorial = [](std::size_t of) {
    return std::lgamma(static_cast<double>(of) + 1);
  };
  return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
}

}  // namespace

bool Contest::is_decided(std::size_t range_count) const {
  constexpr double kChance = 0.05;
  if (!split) return false;
  const std::size_t won = wins.front().second;
  const std::size_t explained = std::min(won, run_count - won);
  const std::size_t wrong = run_count - split->agreeing;
  if (wrong * 10 > run_count || wrong * 4 > explained) return false;
  // The share of all orders of wins and losses that agree that well with some threshold.
  const double thresholds = static_cast<double>(2 * range_count * (wrong == 0 ? 1 : run_count));
  const double log_chance =
      std::log(thresholds) + log_choose(run_count, wrong) - log_choose(run_count, explained);
  return log_chance < std::log(kChance);
}

std::vector<Contest> rank(std::span<const Band> bands, const Samples& samples,
                          const std::string& by) {
  std::vector<Contest> contests;
  for (Candidates& candidates : find_candidates(bands, by)) {
    contests.push_back(decide(std::move(candidates), samples));
  }
  return contests;
}

}  // namespace kernbench::benches::variants
