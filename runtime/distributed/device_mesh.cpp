#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
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
    wrong_argument(
        fmt::format("Invalid mesh_dim_name '{}' specified. Valid mesh_dim_names are "
                    "[{}].",
                    name, fmt::join(state.names, ", ")));
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

DeviceMesh DeviceMesh::operator[](std::string_view name) const {
  return (*this)[std::vector<std::string>{std::string(name)}];
}

DeviceMesh DeviceMesh::operator[](const std::vector<std::string>& names) const {
  const State& whole = checked();
  auto part = std::make_shared<State>();
  std::vector<std::size_t> kept;
  for (const std::string& name : names) {
    kept.push_back(find_dimension(name));
    if (kept.size() > 1 && kept.back() <= kept[kept.size() - 2]) {
      wrong_argument(fmt::format("mesh_dim_names [{}] must be in the mesh's order [{}]",
                                 fmt::join(names, ", "), fmt::join(whole.names, ", ")));
    }
    part->shape.push_back(whole.shape[kept.back()]);
    part->names.push_back(name);
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

// Makes a group for each line of the grid, dimension by dimension, in the same order on all ranks.
DeviceMesh DistributedContext::init_device_mesh(std::string_view device_type,
                                                const std::vector<int>& mesh_shape,
                                                const std::vector<std::string>& mesh_dim_names,
                                                Location location) {
  if (device_type != state_->default_backend().name() && device_type != "ahbm") {
    wrong_argument(fmt::format("init_device_mesh: device_type '{}' is not 'ahbm'", device_type));
  }
  const int count = checked_count(mesh_shape, mesh_dim_names, get_world_size());
  const int own = state_->local().rank;
  auto state = std::make_shared<DeviceMesh::State>();
  state->shape = mesh_shape;
  state->names = mesh_dim_names;
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
