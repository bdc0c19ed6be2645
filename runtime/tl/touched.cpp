#include "runtime/tl/touched.h"

#include "runtime/tl/tl.h"

namespace kernbench::tl {

void Touched::prefetch(int stage) const {
  if (stage == 0) {
    ask_for(&context_, sizeof context_);
    ask_for(&run_, sizeof run_);
    ask_for(&run_.pe(), sim::ProcessingElement::kTouched);
    ask_for(&local_, sizeof local_);
    for (const sim::IpcqChannel* queue : queues_) ask_for(queue, sizeof *queue);
    ask_for(more_, kOwn);
    return;
  }
  if (more_ != nullptr) more_->prefetch(stage - 1);
  if (stage > 2) return;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    if (queues_[i] == nullptr) continue;
    const bool is_in = i >= queues_.size() / 2;
    const auto& ends = queues_[i]->ends();
    run_.pe().ipcq().prefetch(is_in ? ends.in : ends.out, is_in, stage - 1);
    if (stage == 1) queues_[i]->prefetch_posts();
  }
}

}  // namespace kernbench::tl
