#include "runtime/simulation/named_call.h"

#include <fmt/format.h>

#include "runtime/simulation/attachments.h"
#include "runtime/simulation/call_site.h"

namespace kernbench::runtime {

namespace {

struct CallsOfRank {
  std::string name;  // "" outside of operators
  std::source_location line;
  bool has_line = false;
  bool is_of_call = false;  // the line is that of the operator
};

using AllCalls = PerRank<CallsOfRank>;

CallsOfRank& calls_of_caller(Simulation& simulation) {
  return simulation.attachments().get<AllCalls>().of(simulation.local());
}

std::string* name_if_outer(Simulation& simulation) {
  CallsOfRank& calls = calls_of_caller(simulation);
  return calls.name.empty() ? &calls.name : nullptr;
}

}  // namespace

NamedCall::NamedCall(Simulation& simulation, std::string_view name, std::string_view suffix)
    : name_(name_if_outer(simulation)) {
  if (name_ == nullptr) return;
  name_->append(name).append(suffix);
  calls_of_caller(simulation).is_of_call = false;
}

NamedCall::NamedCall(Simulation& simulation, std::string_view name,
                     const std::source_location& location)
    : NamedCall(simulation, name) {
  if (name_ == nullptr) return;
  note_line(simulation, location);
  calls_of_caller(simulation).is_of_call = true;
}

NamedCall::~NamedCall() {
  if (name_ != nullptr) name_->clear();
}

void note_line(Simulation& simulation, const std::source_location& location) {
  CallsOfRank& calls = calls_of_caller(simulation);
  if (location.line() == 0) return;
  calls.line = location;
  calls.has_line = true;
}

std::string describe_call(Simulation& simulation) {
  const CallsOfRank& calls = calls_of_caller(simulation);
  if (calls.name.empty()) return {};
  if (!calls.has_line) return fmt::format(" of {}", calls.name);
  return fmt::format(" of {}{}{}", calls.name, calls.is_of_call ? " at " : ", after ",
                     call_site(calls.line));
}

}  // namespace kernbench::runtime
