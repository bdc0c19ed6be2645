#include "runtime/parallel/same_modules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/distributed/distributed.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn::parallel {

namespace {

[[noreturn]] void refuse_module(const std::string& text) {
  throw CollectiveError("KB-A015", text);
}

// Ranks must agree on these.
struct Description {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  bool requires_grad = true;

  friend bool operator==(const Description&, const Description&) = default;
};
using Descriptions = std::vector<Description>;
// Ranks show each other what they have, and copy nothing: each sees all others'.
using SharedDescriptions = std::shared_ptr<const Descriptions>;

SharedDescriptions describe(const Module& module, const std::vector<std::string>& ignored) {
  Descriptions all;
  for (const auto& item : module.named_parameters()) {
    if (std::ranges::find(ignored, item.key()) != ignored.end()) continue;
    const Tensor& tensor = item.value();
    all.push_back({item.key(), tensor.shape(), tensor.dtype(), tensor.requires_grad()});
  }
  return std::make_shared<const Descriptions>(std::move(all));
}

// The names that one has and the other has not, as "; rank 1 has also 'c.weight', 'c.bias'".
std::string names_beyond(int rank, const Descriptions& own, const Descriptions& other) {
  std::vector<std::string> names;
  for (const Description& one : own) {
    if (std::ranges::find(other, one.name, &Description::name) == other.end()) {
      names.push_back(fmt::format("'{}'", one.name));
    }
  }
  if (names.empty()) return "";
  return fmt::format("; rank {} has also {}", rank, fmt::join(names, ", "));
}

void compare_counts(int rank, const std::vector<SharedDescriptions>& all) {
  const Descriptions& own = *all[static_cast<std::size_t>(rank)];
  for (int other = 0; other < static_cast<int>(all.size()); ++other) {
    const Descriptions& theirs = *all[static_cast<std::size_t>(other)];
    if (own.size() == theirs.size()) continue;
    refuse_module(
        fmt::format("DDP expects same model across all ranks, but Rank {} has {} params, while "
                    "rank {} has inconsistent {} params.{}{}",
                    rank, own.size(), other, theirs.size(), names_beyond(rank, own, theirs),
                    names_beyond(other, theirs, own)));
  }
}

void compare_with_rank_0(int rank, const Descriptions& own, const Descriptions& first) {
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].shape != first[i].shape) {
      refuse_module(
          fmt::format("[{}]: params[{}] in this process with sizes {} appears not to match sizes "
                      "of the same param in process 0. ('{}', which has sizes {} in process 0)",
                      rank, i, to_string(own[i].shape), own[i].name, to_string(first[i].shape)));
    }
    if (own[i].name == first[i].name && own[i].requires_grad != first[i].requires_grad) {
      const auto wants = [](const Description& one) { return one.requires_grad ? "a" : "no"; };
      refuse_module(
          fmt::format("[{}]: params[{}] in this process, '{}', requires {} gradient, in process 0 "
                      "{} gradient: ranks freeze the same parameters before they are wrapped",
                      rank, i, own[i].name, wants(own[i]), wants(first[i])));
    }
    if (own[i] != first[i]) {
      refuse_module(fmt::format(
          "[{}]: params[{}] in this process is '{}' of {}, in process 0 '{}' of {}: "
          "ranks register the same parameters in the same order",
          rank, i, own[i].name, name_of(own[i].dtype), first[i].name, name_of(first[i].dtype)));
    }
  }
}

}  // namespace

void check_same_modules(RuntimeContext& torch, const Module& module,
                        const distributed::ProcessGroup& group, std::source_location location,
                        const std::vector<std::string>& ignored) {
  const int rank = torch.distributed.get_rank(group);
  if (rank < 0) {
    refuse_module(
        fmt::format("DistributedDataParallel: rank {} is not a member of its process_group: the "
                    "group's ranks alone construct it, {}:{}",
                    torch.distributed.get_rank(), location.file_name(), location.line()));
  }
  std::vector<SharedDescriptions> all;
  torch.distributed.all_gather_object(all, describe(module, ignored), group, location);
  compare_counts(rank, all);
  compare_with_rank_0(rank, *all[static_cast<std::size_t>(rank)], *all.front());
}

}  // namespace kernbench::nn::parallel
