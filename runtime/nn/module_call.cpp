// A module's call names the module in errors, and in the log of a profiled run.

#include <optional>
#include <string>

#include "runtime/nn/module.h"
#include "runtime/simulation/run_log.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn {

namespace {

std::string join_path(const std::string& outer, const std::string& inner) {
  return outer.empty() || inner.empty() ? outer + inner : outer + '.' + inner;
}

}  // namespace

std::optional<std::string> Module::find_path_to(const void* part) const {
  if (part == this) return "";
  for (const auto& child : named_children()) {
    if (child.value().get() == part) return child.key();
  }
  for (const auto& child : named_children()) {
    if (const auto path = child.value()->find_path_to(part)) return join_path(child.key(), *path);
  }
  return std::nullopt;
}

// Notes the paths of all modules, and whose parameters the tensors in the log are.
void Module::name_parameters(runtime::RunLog& log, const std::string& path) const {
  const auto name = [&](const Tensor& tensor) {
    if (tensor.is_host()) return;
    runtime::RunTensor* const noted = log.find_tensor(tensor.storage()->memory->logged);
    if (noted != nullptr) noted->module = path;
  };
  log.set_path(serial_, path);
  for (const auto& item : parameters_) name(item.value());
  for (const auto& item : buffers_) name(item.value());
  for (const auto& child : children_) {
    child.value()->name_parameters(log, join_path(path, child.key()));
  }
}

runtime::InModule Module::enter(const Tensor* input) const {
  if (input == nullptr || !input->defined()) return {};
  const auto& simulation = input->storage()->simulation;  // null: a tensor of the host
  runtime::RunLog* const log = simulation == nullptr ? nullptr : simulation->run_log();
  if (log == nullptr) return {};
  const int rank = simulation->local().rank;
  const runtime::CalledModule& outer = log->module_of(rank);
  if (outer.module == nullptr) {
    if (outer.is_recomputed) {
      const std::string* const path = log->find_path(serial_);
      return {log, rank, path == nullptr ? "" : *path, this};
    }
    // A module that a backward pass calls belongs to the module of that pass.
    if (!outer.path.empty()) return {};
    if (log->find_path(serial_) == nullptr) name_parameters(*log, "");
    return {log, rank, "", this};
  }
  const auto path = static_cast<const Module*>(outer.module)->find_path_to(this);
  if (!path) return {};
  return {log, rank, join_path(outer.path, *path), this};
}

void Module::add_to_place(Error& error) const {
  const Error::Place& place = error.place();
  if (place.owner == nullptr) {
    error.set_place({"", name(), this});
  } else if (const auto path = find_path_to(place.owner)) {
    error.set_place({join_path(*path, place.path), place.kind, this});
  }
}

void Module::name_in_error() const noexcept {
  try {
    try {
      throw;
    } catch (Error& error) {
      add_to_place(error);
    }
  } catch (...) {  // What is handled goes on, without a place if there is no memory for one.
  }
}

}  // namespace kernbench::nn
