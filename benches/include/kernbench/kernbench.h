// All of kernbench, for a program that uses the installed package.

#pragma once

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"
