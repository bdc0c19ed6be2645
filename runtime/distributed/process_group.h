// torch.distributed.ProcessGroup.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace kernbench::distributed {

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

  // For a group that new_group() made.  Throw CollectiveError KB-R002 for any other handle.
  int size() const;
  const std::string& group_name() const;
  const std::string& group_desc() const;
  const std::vector<int>& ranks() const;  // global, by group rank

  friend bool operator==(const ProcessGroup&, const ProcessGroup&) = default;

  const std::shared_ptr<Group>& group() const { return group_; }

 private:
  const Group& checked() const;

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

}  // namespace kernbench::distributed
