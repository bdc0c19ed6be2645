// Wrong programs that end rightly in the usual schedule.

#pragma once

#include <catch2/catch.hpp>
// Catch2 comes first.
#include <kernbench/testing.h>

#include <string_view>
#include <vector>

namespace kernbench::test::planted_bugs {

struct PlantedBug {
  std::string_view name;
  testing::WorldBody body;
  std::string_view backend = "local";
};

std::vector<PlantedBug> all_bugs();

// One of them, which needs queues of three slots.
void send_before_receive(testing::World& world);

}  // namespace kernbench::test::planted_bugs
