// The schedules of pipelines that benches know by name.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "benches/pipeline/measured_pipeline.h"
#include "runtime/pipelining/action_lists.h"

namespace kernbench::benches::pipeline {

enum class StagesPerRank : std::uint8_t { one, two, chunks };

// A bubble as a multiple of (p - 1) computations of a stage, from the means of these times.
using Bubble = double (*)(const StageTimes& times);

// The micro-batches for which a formula holds, for p ranks.
enum class Holds : std::uint8_t { always, from_p, from_2p, multiples_of_p };

struct NamedLists {
  std::string_view name;
  distributed::pipelining::ActionLists (*lists)(const distributed::pipelining::PipelineSize& size);
  StagesPerRank stages = StagesPerRank::one;
  Bubble bubble = nullptr;  // null: no formula for all times
  Holds holds = Holds::always;

  int stages_per_rank(int chunks) const {
    if (stages == StagesPerRank::chunks) return chunks;
    return stages == StagesPerRank::two ? 2 : 1;
  }
};

// Forms with their sources are in runtime/pipelining/action_lists.h.
inline double whole(const StageTimes& times) {
  return times.forward + times.backward + times.input + times.weight;
}
inline double input_and_more(const StageTimes& times) {
  return times.input + std::max(0.0, times.forward - times.weight);
}
inline double forward_alone(const StageTimes& times) {
  return times.forward;
}

inline constexpr std::array kSchedules = {
    NamedLists{"gpipe", distributed::pipelining::gpipe, StagesPerRank::one, whole},
    NamedLists{"1f1b", distributed::pipelining::one_f_one_b, StagesPerRank::one, whole},
    NamedLists{"eager_1f1b", distributed::pipelining::eager_one_f_one_b, StagesPerRank::one, whole},
    NamedLists{"interleaved", distributed::pipelining::interleaved, StagesPerRank::chunks, whole,
               Holds::multiples_of_p},
    NamedLists{"looped_bfs", distributed::pipelining::looped_bfs, StagesPerRank::chunks, whole,
               Holds::from_p},
    NamedLists{"zb_h1", distributed::pipelining::zb_h1, StagesPerRank::one, input_and_more,
               Holds::from_p},
    NamedLists{"zb_h2", distributed::pipelining::zb_h2, StagesPerRank::one, forward_alone,
               Holds::from_2p},
    NamedLists{"interleaved_zb", distributed::pipelining::interleaved_zero_bubble,
               StagesPerRank::chunks, input_and_more, Holds::multiples_of_p},
    NamedLists{"zbv", distributed::pipelining::zbv_zero_bubble, StagesPerRank::two, nullptr},
    NamedLists{"dual_pipe_v", distributed::pipelining::dual_pipe_v, StagesPerRank::two, nullptr}};

inline std::string_view name_of(const NamedLists& schedule) {
  return schedule.name;
}

}  // namespace kernbench::benches::pipeline
