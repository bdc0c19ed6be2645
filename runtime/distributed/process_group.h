// torch.distributed.ProcessGroup and DeviceMesh.

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace kernbench {
class Tensor;
enum class ReduceOp : std::uint8_t;
}  // namespace kernbench

namespace kernbench::distributed {

class DistributedContext;
class Work;
struct Group;

class ProcessGroup;

// The options of a torch.distributed function, if they have a member `group`.
template <class Options>
concept TakesGroup = std::is_aggregate_v<Options> &&
    requires(Options options, ProcessGroup& group) {
  options.group = group;
};

// A handle to a group of ranks.  An empty handle stands for the default group, as torch's None and
// group.WORLD do.  Where options are expected, a group alone stands for options with that group:
// barrier(g) is barrier({.group = g}).
class ProcessGroup {
 public:
  ProcessGroup() = default;
  explicit ProcessGroup(std::shared_ptr<Group> group) : group_(std::move(group)) {}
  static ProcessGroup non_member() {
    ProcessGroup none;
    none.is_non_member_ = true;
    return none;
  }

  template <TakesGroup Options>
  operator Options() const {
    Options options;
    options.group = *this;
    return options;
  }

  bool is_default() const { return group_ == nullptr && !is_non_member_; }
  bool is_non_member() const { return is_non_member_; }

  // These work for a group that new_group() or _get_default_group() has given.  They throw
  // CollectiveError KB-R002 for any other handle.
  int size() const;
  int rank() const;          // the caller's; -1 if it is no member
  std::string name() const;  // of the backend, as torch 1.13's
  // As DistributedContext's, with async_op.
  Work allreduce(const Tensor& x,
                 std::source_location location = std::source_location::current()) const;
  Work allreduce(const Tensor& x, ReduceOp op,
                 std::source_location location = std::source_location::current()) const;
  Work barrier(std::source_location location = std::source_location::current()) const;
  const std::string& group_name() const;
  const std::string& group_desc() const;
  const std::vector<int>& ranks() const;  // global, by group rank

  friend bool operator==(const ProcessGroup&, const ProcessGroup&) = default;

  const std::shared_ptr<Group>& group() const { return group_; }

 private:
  const Group& checked() const;
  DistributedContext& context() const;

  std::shared_ptr<Group> group_;
  bool is_non_member_ = false;
};

// The value that new_group() returns on a rank that is no member.
struct GroupMember {
  static const ProcessGroup NON_GROUP_MEMBER;
};
struct group {
  static const ProcessGroup WORLD;
};

// torch.distributed.DeviceMesh: ranks as the points of a grid, with a group along each dimension.

// A handle to one rank's view of the mesh; DistributedContext::init_device_mesh() makes it.  Ranks
// are numbered row-major: along the last dimension they are consecutive.  A dimension is given by
// its number or its name.
class DeviceMesh {
 public:
  struct State;
  struct Dimension {
    Dimension(int its_number) : number(its_number) {}  // NOLINT: PyTorch takes either
    Dimension(const char* its_name);                   // NOLINT
    Dimension(std::string its_name);                   // NOLINT
    int number = 0;
    std::string name = {};
    bool has_name = false;
  };

  DeviceMesh() = default;
  explicit DeviceMesh(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  int ndim() const;
  const std::vector<int>& shape() const;
  const std::vector<std::string>& mesh_dim_names() const;  // empty: none were given
  int size() const;                                        // ranks in all
  int size(const Dimension& dimension) const;
  const std::vector<int>& mesh() const;  // the ranks, row by row

  // Return the caller's group along a dimension, and its rank there; a mesh of one dimension needs
  // no name of it.  They throw CollectiveError KB-C020, in torch's words, if there is no such
  // dimension, if none is given and the mesh has several, or if the caller is not in the mesh.
  const ProcessGroup& get_group(const Dimension& dimension) const;
  const ProcessGroup& get_group() const;
  int get_local_rank(const Dimension& dimension) const;
  int get_local_rank() const;
  // The caller's coordinate along every dimension; empty if the caller is not in the mesh.
  const std::vector<int>& get_coordinate() const;

  // Returns the submesh of these dimensions, in the mesh's order, that contains the caller.  The
  // whole mesh also knows the names that _flatten() has given.
  DeviceMesh operator[](std::string_view name) const;
  DeviceMesh operator[](std::initializer_list<std::string_view> names) const;
  DeviceMesh operator[](const std::vector<std::string>& names) const;

  // Returns a mesh of one dimension with all ranks of this one, which has a group of its own:
  // `mesh[{"dp_shard", "cp"}]._flatten("fsdp")`.  Without a name it is "dp_shard_cp".  All ranks of
  // the whole mesh call it, as new_group(); another call with that name returns the same.  Throws
  // CollectiveError KB-C020 for a mesh without names, and for a name that other dimensions have.
  DeviceMesh _flatten(std::string name = {},
                      std::source_location location = std::source_location::current()) const;

 private:
  const State& checked() const;
  std::size_t find_dimension(const Dimension& dimension) const;
  int only_dimension(std::string_view text) const;

  std::shared_ptr<const State> state_;
};

struct DeviceMesh::State {
  struct Whole;  // what slices of a mesh share

  std::vector<int> shape = {};
  std::vector<std::string> names = {};
  std::vector<int> ranks = {};
  std::vector<ProcessGroup> groups = {};  // the caller's, by dimension
  std::vector<int> coordinate = {};
  std::shared_ptr<Whole> whole = {};
  std::vector<std::size_t> dimensions = {};  // of the whole mesh that it has
};

// Returns the coordinates of a row-major grid's point from its number.
std::vector<int> coordinate_of(int point, const std::vector<int>& shape);

}  // namespace kernbench::distributed
