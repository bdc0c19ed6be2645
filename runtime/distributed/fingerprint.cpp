#include "runtime/distributed/fingerprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

namespace kernbench::distributed {

std::string format_list(std::span<const int> ranks) {
  return fmt::format("[{}]", fmt::join(ranks, ", "));
}

std::string fingerprint_text(const CollectiveCall& call) {
  const runtime::FlightEvent& event = call.event;
  std::string text = fmt::format("CollectiveFingerPrint(SequenceNumber={}, OpType={}",
                                 event.sequence, traits_of(call.kind).op_type);
  if (event.has_tensor) {
    text += fmt::format(", TensorShape={}, TensorDtypes={}", to_string(event.shape),
                        torch_name_of(event.dtype));
  }
  if (!event.reduce_op.empty()) text += fmt::format(", ReduceOp={}", event.reduce_op);
  if (event.root >= 0) text += fmt::format(", Root={}", event.root);
  if (!call.members.empty()) text += fmt::format(", Group={}", format_list(call.members));
  if (event.has_tensor) text += fmt::format(", Placement=({})", to_string(call.placement));
  return text + ")";
}

std::string describe(const CollectiveCall& call) {
  const runtime::FlightEvent& event = call.event;
  std::string text = fmt::format("{}#{}", event.function, event.sequence);
  if (event.has_tensor) {
    text += fmt::format(" ({} {}", to_string(event.shape), torch_name_of(event.dtype));
    if (!event.reduce_op.empty()) text += fmt::format(" {}", event.reduce_op);
    if (event.root >= 0) text += fmt::format(" root {}", event.root);
    text += ")";
  }
  if (!call.members.empty()) text += fmt::format(" ({})", format_list(call.members));
  return fmt::format("{} at {}", text, call_site(event.location));
}

std::string describe_in_group(const CollectiveCall& call) {
  const std::string text = describe(call);
  return call.event.group == 0 ? text : fmt::format("{}, of group {}", text, call.event.group);
}

std::vector<std::string> differences(const CollectiveCall& a, const CollectiveCall& b) {
  if (a.kind != b.kind) {
    return {fmt::format("Op type: {} vs {}", traits_of(a.kind).op_type, traits_of(b.kind).op_type)};
  }
  const bool is_named = a.kind == CollectiveKind::objects || a.kind == CollectiveKind::barrier;
  if (is_named && a.event.function != b.event.function) {  // monitored_barrier meets no barrier
    return {fmt::format("Op type: {} vs {}", a.event.function, b.event.function)};
  }
  std::vector<std::string> aspects;
  const auto compare = [&](std::string_view what, const auto& one, const auto& other, auto text) {
    if (one == other) return;
    aspects.push_back(fmt::format("{}: {} vs {}", what, text(one), text(other)));
  };
  const auto text = [](const auto& value) { return to_string(value); };
  const auto as_it_is = [](const auto& value) { return value; };
  const bool have_tensors = a.event.has_tensor && b.event.has_tensor;
  if (have_tensors && !a.is_list && !b.is_list) {
    compare("Tensor shapes", a.event.shape, b.event.shape, text);
  }
  if (have_tensors) compare("Tensor dtypes", a.event.dtype, b.event.dtype, torch_name_of);
  compare("Reduce op", a.event.reduce_op, b.event.reduce_op, as_it_is);
  compare("Reproducible", a.reproducible, b.reproducible,
          [](Reproducible of) { return name_of(of); });
  compare("Root", a.event.root, b.event.root, as_it_is);
  compare("Group", a.members, b.members, format_list);
  if (have_tensors) compare("Placement", a.placement, b.placement, text);
  return aspects;
}

}  // namespace kernbench::distributed
