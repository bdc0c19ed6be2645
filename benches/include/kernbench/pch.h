// What a program that uses kernbench mostly includes, for a compiler that reads it once.
//
//   set(KERNBENCH_PRECOMPILED_HEADER ON)
//   find_package(kernbench CONFIG REQUIRED)
//
// precompiles it for every target that links kernbench::kernbench.

#pragma once

#include <fmt/format.h>
#include <kernbench/kernbench.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
