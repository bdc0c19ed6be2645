#include "runtime/simulation/gate.h"

#include <fmt/format.h>

#include "runtime/simulation/simulation.h"
#include "sim_engine/base/error.h"

namespace kernbench::runtime {

namespace {

// Lives as long as a rank of a spawn().
struct LivingRank {
  std::shared_ptr<const int> identity = std::make_shared<const int>(0);
};

const std::shared_ptr<const int>& identity_of_caller(Simulation& simulation) {
  return simulation.attachments().get<PerRank<LivingRank>>().of(simulation.local()).identity;
}

std::string name_of(bool is_driver, int rank) {
  return is_driver ? std::string("the code outside of ranks") : fmt::format("rank {}", rank);
}

}  // namespace

void check_outside_kernels(Simulation& simulation, std::string_view call, DescribeObject object) {
  const FiberLocal& caller = simulation.local();
  if (caller.kind != FiberLocal::Kind::kernel) return;
  throw CollectiveError("KB-R012",
                        "{}{} inside kernel '{}'; a kernel uses its tl and its arguments alone: "
                        "let the worker call this before the launch or after it",
                        call, object ? " of " + object() : "", caller.kernel);
}

void check_lives(const Simulation& simulation, std::string_view call, DescribeObject object) {
  if (!simulation.attachments().are_cleared()) return;
  throw CollectiveError("KB-R013",
                        "{}: {} belongs to a context that has ended; use it while its "
                        "RuntimeContext lives",
                        call, object());
}

void check_same_context(const Simulation& of, const Simulation& used_in, std::string_view call,
                        DescribeObject object, DescribeObject beside) {
  if (&of == &used_in) return;
  throw DeviceError("KB-M013", "{}: {} belongs to another context{}", call, object(),
                    beside ? fmt::format(" than {}", beside()) : "");
}

Owner::Owner(Simulation& simulation)
    : rank_(identity_of_caller(simulation)),
      number_(simulation.local().rank),
      is_driver_(simulation.local().kind == FiberLocal::Kind::unbound) {}

bool Owner::is_caller(Simulation& simulation) const {
  const FiberLocal& caller = simulation.local();
  // What acts for a rank may be asked for by the code outside of ranks too, which has no number.
  if (caller.kind == FiberLocal::Kind::work) return caller.rank == number_ && !rank_.expired();
  return rank_.lock() == identity_of_caller(simulation);
}

std::string Owner::describe() const {
  const std::string name = name_of(is_driver_, number_);
  return rank_.expired() ? fmt::format("{} of a spawn() that has ended", name) : name;
}

void Owner::check_is_caller(Simulation& simulation, std::string_view call,
                            DescribeObject object) const {
  check_outside_kernels(simulation, call, object);
  check_lives(simulation, call, object);
  if (is_caller(simulation)) return;
  const FiberLocal& caller = simulation.local();
  throw CollectiveError("KB-R020", "{}: {} belongs to {}, and {} uses it; each rank makes its own",
                        call, object(), describe(),
                        name_of(caller.kind == FiberLocal::Kind::unbound, caller.rank));
}

}  // namespace kernbench::runtime
