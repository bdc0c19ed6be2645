#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <utility>

#include "tp/misuse.h"
#include "tp/parallel_state.h"

namespace kernbench::tp {

namespace {

constexpr std::array<std::string_view, 5> kNames = {"tp", "cp", "ep", "dp", "pp"};

// The parts of "dp-cp", in lower case.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '-') {
      parts.emplace_back();
    } else {
      parts.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return parts;
}

int size_along(const ParallelSizes& sizes, std::string_view name) {
  if (name == "tp") return sizes.tp;
  if (name == "cp") return sizes.cp;
  if (name == "ep") return sizes.ep;
  return name == "dp" ? sizes.dp : sizes.pp;
}

void check_names(const std::vector<std::string>& names, std::string_view text) {
  for (const std::string& name : names) {
    if (std::ranges::find(kNames, name) == kNames.end()) {
      wrong_sizes(
          fmt::format("'{}' in '{}' is no dimension; there are: tp, cp, ep, dp, pp", name, text));
    }
    if (std::ranges::count(names, name) > 1) {
      wrong_sizes(fmt::format("'{}' is in '{}' twice", name, text));
    }
  }
}

}  // namespace

RankGenerator::RankGenerator(const ParallelSizes& sizes, std::string_view order) {
  std::vector<std::string> names = split(order);
  check_names(names, order);
  for (const std::string_view name : kNames) {
    const int size = size_along(sizes, name);
    if (size < 1) wrong_sizes(fmt::format("the size of ({}) is ({}); at least 1", name, size));
    if (std::ranges::find(names, name) != names.end()) continue;
    if (size != 1) {
      wrong_sizes(fmt::format("The size of ({}) is ({}), but you haven'tspecified the order ({}).",
                              name, size, order));
    }
    names.emplace_back(name);
  }
  for (const std::string& name : names) {
    const int size = size_along(sizes, name);
    if (size > std::numeric_limits<int>::max() / world_size_) {
      wrong_sizes(fmt::format("the sizes along ({}) are more ranks than can be counted", order));
    }
    dimensions_.push_back({name, size, world_size_});
    world_size_ *= size;
  }
}

// The dimensions that the token names, or all others, in `order`.
std::vector<RankGenerator::Dimension> RankGenerator::along(std::string_view token,
                                                           bool wanted) const {
  const std::vector<std::string> names = split(token);
  check_names(names, token);
  std::vector<Dimension> chosen;
  for (const Dimension& dimension : dimensions_) {
    const bool is_named = std::ranges::find(names, dimension.name) != names.end();
    if (is_named == wanted) chosen.push_back(dimension);
  }
  return chosen;
}

// The ranks of all points of a grid relative to its first point; the first dimension varies
// fastest.
std::vector<int> RankGenerator::offsets(std::span<const Dimension> dimensions) {
  std::vector<int> points = {0};
  for (const Dimension& dimension : dimensions) {
    std::vector<int> more;
    more.reserve(points.size() * static_cast<std::size_t>(dimension.size));
    for (int i = 0; i < dimension.size; ++i) {
      for (const int point : points) more.push_back(point + i * dimension.stride);
    }
    points = std::move(more);
  }
  return points;
}

std::vector<std::vector<int>> RankGenerator::get_ranks(std::string_view token) const {
  const std::vector<int> members = offsets(along(token, true));
  std::vector<std::vector<int>> groups;
  for (const int first : offsets(along(token, false))) {
    std::vector<int>& group = groups.emplace_back(members);
    for (int& rank : group) rank += first;
  }
  return groups;
}

std::vector<int> RankGenerator::group_of(std::string_view token, int rank) const {
  const std::vector<Dimension> dimensions = along(token, true);
  int first = rank;
  for (const Dimension& dimension : dimensions) {
    first -= rank / dimension.stride % dimension.size * dimension.stride;
  }
  std::vector<int> group = offsets(dimensions);
  for (int& member : group) member += first;
  return group;
}

}  // namespace kernbench::tp
