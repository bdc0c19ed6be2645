#include "sim_engine/topology/topology.h"

namespace kernbench {

std::string_view name_of(SipTopology topology) {
  constexpr std::array<std::string_view, 3> kNames = {"ring_1d", "torus_2d", "mesh_2d_no_wrap"};
  return kNames.at(static_cast<std::size_t>(topology));
}

std::string_view name_of(Edge edge) {
  constexpr std::array<std::string_view, 4> kNames = {"north", "east", "south", "west"};
  return kNames.at(static_cast<std::size_t>(edge));
}

std::string_view name_of(Dataflow dataflow) {
  constexpr std::array<std::string_view, 3> kNames = {"output_stationary", "weight_stationary",
                                                      "input_stationary"};
  return kNames.at(static_cast<std::size_t>(dataflow));
}

std::string_view name_of(MathKind kind) {
  constexpr std::array<std::string_view, kMathKinds.size()> kNames = {
      "add", "mul", "fma", "div", "compare", "move", "exp", "log", "sqrt", "rsqrt", "sigmoid"};
  return kNames.at(static_cast<std::size_t>(kind));
}

}  // namespace kernbench
