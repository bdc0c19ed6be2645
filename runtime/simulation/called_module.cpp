#include "runtime/simulation/called_module.h"

#include <utility>

#include "runtime/simulation/run_log.h"

namespace kernbench::runtime {

InModule::InModule(RunLog* log, int rank, CalledModule module) : log_(log), rank_(rank) {
  if (log_ == nullptr) return;
  before_ = log_->module_of(rank_);
  log_->set_module(rank_, std::move(module));
}

InModule::InModule(RunLog* log, int rank, std::string_view path, const void* module)
    : InModule(log, rank,
               log == nullptr ? CalledModule() : CalledModule{std::string(path), module}) {}

InModule::~InModule() {
  if (log_ != nullptr) log_->set_module(rank_, std::move(before_));
}

}  // namespace kernbench::runtime
