#pragma once

#include <span>
#include <string>

namespace kernbench::benches::page {

// The run's speed-ups if one resource is faster.
struct ResourceGain {
  std::string resource;  // "sip.link.bandwidth"
  std::string value;     // in force: "64 GB/s"
  double x2 = 1;         // twice as fast
  double x4 = 1;
  double infinite = 1;
  double alone_us = 0;  // the run's time if all others are infinite
};

// A curve for each of the first resources, and a table of all.
std::string what_if(std::span<const ResourceGain> gains);

}  // namespace kernbench::benches::page
