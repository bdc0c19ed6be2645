// Ranks that do alike, of which one stands for others (RuntimeOptions::fold).

#pragma once

#include <string_view>

#include "runtime/distributed/backend.h"
#include "runtime/distributed/collective.h"
#include "runtime/simulation/attachments.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::distributed {

// The time that collectives have taken by their model, on each rank, since ranks are nearly alike.
struct ModelledTime final : runtime::Attachment {
  Time sum{0};

  void forget_ranks() override {}
};

// Throws CollectiveMismatchError KB-C026: ranks do not do alike, which `what` names and `why`
// explains.
[[noreturn]] void refuse_unlike(std::string_view what, std::string_view why);

// Refuse what ranks cannot do alike, if one stands for others.  `backend` runs the call.
void check_can_be_alike(const runtime::Simulation& simulation, int ranks);
void check_can_be_alike(const runtime::Simulation& simulation, const CollectiveCall& call,
                        const Backend& backend);

}  // namespace kernbench::distributed
