#include "runtime/distributed/fingerprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kernbench::distributed {

namespace {

std::string text_of(const std::optional<ReduceOp>& op) {
  return op ? std::string(name_of(*op)) : "none";
}
std::string text_of(const std::optional<int>& root) {
  return root ? fmt::format("{}", *root) : "none";
}
std::string text_of(const std::optional<Shape>& shape) {
  return shape ? to_string(*shape) : "none";
}

}  // namespace

std::string list_of(std::span<const int> ranks) {
  return fmt::format("[{}]", fmt::join(ranks, ", "));
}

CollectiveFingerprint fingerprint_of(std::string_view function, CollectiveKind kind,
                                     std::source_location location) {
  CollectiveFingerprint fingerprint;
  fingerprint.function = function;
  fingerprint.kind = kind;
  fingerprint.location = location;
  return fingerprint;
}

void note(CollectiveFingerprint& fingerprint, const Tensor& x) {
  fingerprint.shape = x.shape();
  fingerprint.dtype = x.dtype();
  fingerprint.placement = x.dp();
  fingerprint.device = x.device();
}

std::string fingerprint_text(const CollectiveFingerprint& print, std::uint64_t sequence) {
  std::string text = fmt::format("CollectiveFingerPrint(SequenceNumber={}, OpType={}", sequence,
                                 op_type_of(print.kind));
  if (print.shape) {
    text += fmt::format(", TensorShape={}, TensorDtypes={}", to_string(*print.shape),
                        torch_name_of(print.dtype));
  }
  if (print.op) text += fmt::format(", ReduceOp={}", name_of(*print.op));
  if (print.root) text += fmt::format(", Root={}", *print.root);
  if (!print.members.empty()) text += fmt::format(", Group={}", list_of(print.members));
  if (print.shape) text += fmt::format(", Placement=({})", to_string(print.placement));
  return text + ")";
}

std::string describe(const CollectiveFingerprint& print, std::uint64_t sequence) {
  std::string text = fmt::format("{}#{}", print.function, sequence);
  if (print.shape) {
    text += fmt::format(" ({} {}", to_string(*print.shape), torch_name_of(print.dtype));
    if (print.op) text += fmt::format(" {}", name_of(*print.op));
    if (print.root) text += fmt::format(" root {}", *print.root);
    text += ")";
  }
  if (!print.members.empty()) text += fmt::format(" ({})", list_of(print.members));
  return fmt::format("{} at {}", text, call_site(print.location));
}

std::vector<std::string> differences(const CollectiveFingerprint& a,
                                     const CollectiveFingerprint& b) {
  if (a.kind != b.kind) {
    return {fmt::format("Op type: {} vs {}", op_type_of(a.kind), op_type_of(b.kind))};
  }
  const bool is_named = a.kind == CollectiveKind::objects || a.kind == CollectiveKind::barrier;
  if (is_named && a.function != b.function) {  // monitored_barrier meets no barrier
    return {fmt::format("Op type: {} vs {}", a.function, b.function)};
  }
  std::vector<std::string> aspects;
  const auto differ = [&](std::string_view what, const std::string& one, const std::string& other) {
    aspects.push_back(fmt::format("{}: {} vs {}", what, one, other));
  };
  if (!a.is_list && !b.is_list && a.shape != b.shape) {
    differ("Tensor shapes", text_of(a.shape), text_of(b.shape));
  }
  if (a.shape && b.shape && a.dtype != b.dtype) {
    differ("Tensor dtypes", std::string(torch_name_of(a.dtype)),
           std::string(torch_name_of(b.dtype)));
  }
  if (a.op != b.op) differ("Reduce op", text_of(a.op), text_of(b.op));
  if (a.root != b.root) differ("Root", text_of(a.root), text_of(b.root));
  if (a.members != b.members) differ("Group", list_of(a.members), list_of(b.members));
  if (a.shape && b.shape && a.placement != b.placement) {
    differ("Placement", to_string(a.placement), to_string(b.placement));
  }
  return aspects;
}

}  // namespace kernbench::distributed
