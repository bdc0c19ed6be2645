#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/misuse.h"
#include "runtime/distributed/process_group.h"

namespace kernbench::distributed {

namespace {

int product(const std::vector<int>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 1, std::multiplies<>());
}

// Returns the shape with what the other sizes leave of the world in the place of -1, as torchtitan
// does for dp_shard, and in its words.
std::vector<int> with_rest(std::vector<int> shape, const std::vector<std::string>& names,
                           int world_size) {
  const auto rest = std::ranges::find(shape, -1);
  if (rest == shape.end()) return shape;
  std::int64_t others = 1;
  std::vector<std::string> dims;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1) others = std::min<std::int64_t>(others * shape[i], world_size + 1);
    dims.push_back(
        fmt::format("{}({})", i < names.size() ? names[i] : fmt::format("dim{}", i), shape[i]));
  }
  const bool is_only = std::find(rest + 1, shape.end(), -1) == shape.end();
  if (!is_only || others < 1 || world_size % others != 0) {
    wrong_argument(fmt::format("Invalid parallel dims: {} != WORLD_SIZE({})",
                               fmt::join(dims, " * "), world_size));
  }
  *rest = static_cast<int>(world_size / others);
  return shape;
}

// Checks the arguments of init_device_mesh(); returns the number of ranks in the mesh.
int checked_count(const std::vector<int>& shape, const std::vector<std::string>& names,
                  int world_size) {
  if (!names.empty()) {
    if (std::set(names.begin(), names.end()).size() != names.size()) {
      wrong_argument(
          fmt::format("Each mesh_dim_name must be unique. Found repeated mesh_dim_name "
                      "in mesh_dim_names [{}]",
                      fmt::join(names, ", ")));
    }
    if (shape.size() != names.size()) {
      wrong_argument(
          fmt::format("mesh_shape and mesh_dim_names should have same length! Found "
                      "len(mesh_dim_names): {} and len(mesh_shape):{}.",
                      names.size(), shape.size()));
    }
  }
  const bool has_sizes =
      !shape.empty() && std::ranges::all_of(shape, [](int size) { return size > 0; });
  if (!has_sizes) {
    wrong_argument(fmt::format("init_device_mesh: mesh_shape [{}] must have sizes of at least 1",
                               fmt::join(shape, ", ")));
  }
  std::int64_t count = 1;
  for (const int size : shape) count = std::min<std::int64_t>(count * size, world_size + 1);
  if (count > world_size) {
    wrong_argument(
        fmt::format("Mesh should not be bigger than default world size {}, but found "
                    "mesh_shape [{}]!",
                    world_size, fmt::join(shape, ", ")));
  }
  return static_cast<int>(count);
}

}  // namespace

struct DeviceMesh::State::Whole {
  std::function<ProcessGroup(const std::vector<int>& ranks, Location location)> make_group;
  std::vector<int> shape;
  std::vector<std::string> names;
  std::map<std::string, State, std::less<>> flattened;  // without their `whole`, which is this
};

std::vector<int> coordinate_of(int point, const std::vector<int>& shape) {
  std::vector<int> coordinate(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    coordinate[i] = point % shape[i];
    point /= shape[i];
  }
  return coordinate;
}

const DeviceMesh::State& DeviceMesh::checked() const {
  if (state_ == nullptr) wrong_argument("the DeviceMesh is not made: call init_device_mesh");
  return *state_;
}

DeviceMesh::Dimension::Dimension(const char* its_name) : name(its_name), has_name(true) {}

DeviceMesh::Dimension::Dimension(std::string its_name)
    : name(std::move(its_name)), has_name(true) {}

std::size_t DeviceMesh::find_dimension(const Dimension& dimension) const {
  const State& state = checked();
  if (!dimension.has_name) {
    const int number = dimension.number;
    const int wrapped = number < 0 ? number + ndim() : number;
    if (wrapped < 0 || wrapped >= ndim()) {
      wrong_argument(
          fmt::format("mesh dimension {} is out of range: there are {}", number, ndim()));
    }
    return static_cast<std::size_t>(wrapped);
  }
  const std::string& name = dimension.name;
  const auto found = std::ranges::find(state.names, name);
  if (found == state.names.end()) {
    std::vector<std::string> valid = state.names;
    for (const auto& [flat, mesh] : state.whole->flattened) valid.push_back(flat);
    wrong_argument(
        fmt::format("Invalid mesh_dim_name '{}' specified. Valid mesh_dim_names are "
                    "[{}].",
                    name, fmt::join(valid, ", ")));
  }
  return static_cast<std::size_t>(found - state.names.begin());
}

int DeviceMesh::ndim() const {
  return static_cast<int>(checked().shape.size());
}
const std::vector<int>& DeviceMesh::shape() const {
  return checked().shape;
}
const std::vector<std::string>& DeviceMesh::mesh_dim_names() const {
  return checked().names;
}
int DeviceMesh::size() const {
  return product(checked().shape);
}
int DeviceMesh::size(const Dimension& dimension) const {
  return checked().shape[find_dimension(dimension)];
}
const std::vector<int>& DeviceMesh::mesh() const {
  return checked().ranks;
}
const std::vector<int>& DeviceMesh::get_coordinate() const {
  return checked().coordinate;
}

const ProcessGroup& DeviceMesh::get_group(const Dimension& dimension) const {
  const std::size_t index = find_dimension(dimension);
  if (checked().coordinate.empty()) wrong_argument("get_group: this rank is not in the mesh");
  return checked().groups[index];
}

int DeviceMesh::get_local_rank(const Dimension& dimension) const {
  const std::size_t index = find_dimension(dimension);
  if (checked().coordinate.empty()) wrong_argument("get_local_rank: this rank is not in the mesh");
  return checked().coordinate[index];
}

int DeviceMesh::only_dimension(std::string_view text) const {
  if (ndim() != 1) {
    wrong_argument(
        fmt::format("Found the DeviceMesh have {} dimensions. Optional kwarg `mesh_dim` needs to "
                    "be specified when device_mesh.ndim > 1: {}",
                    ndim(), text));
  }
  return 0;
}

const ProcessGroup& DeviceMesh::get_group() const {
  return get_group(only_dimension("get_group(\"NAME\")"));
}

int DeviceMesh::get_local_rank() const {
  return get_local_rank(only_dimension("get_local_rank(\"NAME\")"));
}

DeviceMesh DeviceMesh::operator[](std::string_view name) const {
  const State& state = checked();
  const auto flattened = state.whole->flattened.find(name);
  const bool is_whole = state.dimensions.size() == state.whole->shape.size();
  if (!is_whole || flattened == state.whole->flattened.end()) {
    return (*this)[std::vector<std::string>{std::string(name)}];
  }
  auto found = std::make_shared<State>(flattened->second);
  found->whole = state.whole;
  return DeviceMesh(std::move(found));
}

DeviceMesh DeviceMesh::operator[](std::initializer_list<std::string_view> names) const {
  return (*this)[std::vector<std::string>(names.begin(), names.end())];
}

DeviceMesh DeviceMesh::operator[](const std::vector<std::string>& names) const {
  const State& whole = checked();
  auto part = std::make_shared<State>(State{.whole = whole.whole});
  std::vector<std::size_t> kept;
  for (const std::string& name : names) {
    kept.push_back(find_dimension(name));
    if (kept.size() > 1 && kept.back() <= kept[kept.size() - 2]) {
      wrong_argument(fmt::format("mesh_dim_names [{}] must be in the mesh's order [{}]",
                                 fmt::join(names, ", "), fmt::join(whole.names, ", ")));
    }
    part->shape.push_back(whole.shape[kept.back()]);
    part->names.push_back(name);
    // A flattened mesh has one dimension, which stands for several of the whole one.
    if (whole.names.size() == whole.dimensions.size()) {
      part->dimensions.push_back(whole.dimensions[kept.back()]);
    } else {
      part->dimensions = whole.dimensions;
    }
    if (whole.coordinate.empty()) continue;
    part->groups.push_back(whole.groups[kept.back()]);
    part->coordinate.push_back(whole.coordinate[kept.back()]);
  }
  // The submesh has the ranks that agree with the caller in every dimension that is dropped.
  for (int point = 0; point < size() && !whole.coordinate.empty(); ++point) {
    const std::vector<int> at = coordinate_of(point, whole.shape);
    bool is_beside = true;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const bool is_kept = std::ranges::find(kept, i) != kept.end();
      is_beside = is_beside && (is_kept || at[i] == whole.coordinate[i]);
    }
    if (is_beside) part->ranks.push_back(whole.ranks[static_cast<std::size_t>(point)]);
  }
  return DeviceMesh(std::move(part));
}

namespace {

int point_of(const std::vector<int>& coordinate, const std::vector<int>& shape) {
  int point = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) point = point * shape[i] + coordinate[i];
  return point;
}

// Returns the points of each plane that these dimensions span, in the order of their first points.
std::vector<std::vector<int>> planes_along(const std::vector<int>& shape,
                                           const std::vector<std::size_t>& dimensions) {
  std::map<std::vector<int>, std::vector<int>> planes;
  for (int point = 0; point < product(shape); ++point) {
    std::vector<int> first = coordinate_of(point, shape);
    for (const std::size_t dimension : dimensions) first[dimension] = 0;
    planes[std::move(first)].push_back(point);
  }
  std::vector<std::vector<int>> found;
  for (auto& [first, points] : planes) found.push_back(std::move(points));
  return found;
}

}  // namespace

// Every rank makes the groups of all ranks, in the same order.
DeviceMesh DeviceMesh::_flatten(std::string name, std::source_location location) const {
  const State& state = checked();
  State::Whole& whole = *state.whole;
  if (state.names.empty()) wrong_argument("Cannot flatten a DeviceMesh without mesh_dim_names!");
  if (name.empty()) name = fmt::format("{}", fmt::join(state.names, "_"));
  if (state.names == std::vector{name}) return *this;
  const auto known = whole.flattened.find(name);
  const bool is_known = known != whole.flattened.end();
  if (is_known && known->second.dimensions == state.dimensions) {
    State same = known->second;
    same.whole = state.whole;
    return DeviceMesh(std::make_shared<State>(std::move(same)));
  }
  if (is_known || std::ranges::find(whole.names, name) != whole.names.end()) {
    std::vector<std::string> taken = whole.names;
    for (const auto& [flat, mesh] : whole.flattened) taken.push_back(flat);
    wrong_argument(
        fmt::format("{} already exists for submesh of the DeviceMesh. The mesh_dim_names of "
                    "submesh and flattened mesh are [{}]. Please specify another valid "
                    "mesh_dim_name.",
                    name, fmt::join(taken, ", ")));
  }
  State flat{.shape = {size()}, .names = {name}, .ranks = state.ranks};
  flat.dimensions = state.dimensions;
  flat.groups.emplace_back(ProcessGroup::non_member());
  for (const std::vector<int>& line : planes_along(whole.shape, state.dimensions)) {
    const ProcessGroup group = whole.make_group(line, location);
    if (line == state.ranks) flat.groups.back() = group;
  }
  if (!state.coordinate.empty()) flat.coordinate = {point_of(state.coordinate, state.shape)};
  State& kept = whole.flattened[name] = std::move(flat);
  auto result = std::make_shared<State>(kept);
  result->whole = state.whole;
  return DeviceMesh(std::move(result));
}

// Makes a group for each line of the grid, dimension by dimension, in the same order on all ranks.
DeviceMesh DistributedContext::init_device_mesh(std::string_view device_type,
                                                const std::vector<int>& given_shape,
                                                const std::vector<std::string>& mesh_dim_names,
                                                Location location) {
  if (device_type != state_->default_backend().name() && device_type != "ahbm") {
    wrong_argument(fmt::format("init_device_mesh: device_type '{}' is not 'ahbm'", device_type));
  }
  const std::vector<int> mesh_shape = with_rest(given_shape, mesh_dim_names, get_world_size());
  const int count = checked_count(mesh_shape, mesh_dim_names, get_world_size());
  const int own = get_rank();
  auto state = std::make_shared<DeviceMesh::State>();
  state->shape = mesh_shape;
  state->names = mesh_dim_names;
  state->dimensions.resize(mesh_shape.size());
  std::iota(state->dimensions.begin(), state->dimensions.end(), 0);
  state->whole = std::make_shared<DeviceMesh::State::Whole>(DeviceMesh::State::Whole{
      .make_group = [this](const std::vector<int>& ranks,
                           Location from) { return new_group(std::span(ranks), {}, from); },
      .shape = mesh_shape,
      .names = mesh_dim_names,
      .flattened = {}});
  state->ranks.resize(static_cast<std::size_t>(count));
  std::iota(state->ranks.begin(), state->ranks.end(), 0);
  if (own < count) state->coordinate = coordinate_of(own, mesh_shape);
  int stride = count;
  for (const int size : mesh_shape) {
    stride /= size;
    state->groups.emplace_back(ProcessGroup::non_member());
    for (int first = 0; first < count; ++first) {
      if (first / stride % size != 0) continue;
      std::vector<int> line;
      for (int i = 0; i < size; ++i) line.push_back(first + i * stride);
      const ProcessGroup group = new_group(std::span(line), {}, location);
      if (std::ranges::find(line, own) != line.end()) state->groups.back() = group;
    }
  }
  return DeviceMesh(std::move(state));
}

}  // namespace kernbench::distributed
