#include "runtime/context_parallel/key_rotation.h"

#include <utility>

#include "runtime/distributed/distributed.h"
#include "runtime/stream/stream.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::experimental {

namespace {

using distributed::Work;
using Works = std::vector<Work>;

// Tags that a program is unlikely to use in messages of its own that are under way meanwhile.
enum Tag : int { kKeys = 0x6370, kValues, kKeyGradients, kValueGradients };

struct Tags {
  int key = kKeys;
  int value = kValues;
};
constexpr Tags kGradients{kKeyGradients, kValueGradients};

Works send_on(const Ring& ring, const KeyValue& from, const Tags& tags) {
  const auto send = [&](const Tensor& x, int tag) {
    return ring.torch.distributed.isend(
        x, {.group = ring.group, .tag = tag, .group_dst = ring.next()});
  };
  return {send(from.key, tags.key), send(from.value, tags.value)};
}

Works receive(const Ring& ring, const KeyValue& into, const Tags& tags) {
  const auto receive_one = [&](const Tensor& x, int tag) {
    return ring.torch.distributed.irecv(
        x, {.group = ring.group, .tag = tag, .group_src = ring.previous()});
  };
  return {receive_one(into.key, tags.key), receive_one(into.value, tags.value)};
}

void wait_for(Works& works) {
  for (const Work& work : works) work.wait();
  works.clear();
}

KeyValue make_like(const Ring& ring, const KeyValue& other) {
  return {ring.torch.empty_like(other.key), ring.torch.empty_like(other.value)};
}

// A message waits for the caller's current stream.  Those that pass keys on wait for none, so that
// they do not wait for the kernels that the stream has.
class PassedKeys final : public KeyRotation {
 public:
  PassedKeys(const Ring& ring, KeyValue own)
      : ring_(ring), stream_(ring.torch.ahbm.Stream()), here_(std::move(own)) {
    if (ring.size == 1) return;
    post_receive();
    sends_ = send_on(ring_, here_, {});
  }
  ~PassedKeys() override = default;

  KeyValue arrive(int step) override {
    if (step == 0) return here_;
    wait_for(receives_);
    leaving_ = std::exchange(here_, std::exchange(coming_, {}));
    if (step + 1 < ring_.size) {
      const auto guard = ring_.torch.ahbm.stream(stream_);
      Works before = std::exchange(sends_, send_on(ring_, here_, {}));
      wait_for(before);
    } else {
      wait_for(sends_);
    }
    return here_;
  }

  void launched(int step) override {
    const ahbm::Event before = std::exchange(done_, ring_.torch.ahbm.Event());
    done_.record();
    if (step == 0 || step + 1 >= ring_.size) return;
    before.synchronize();
    leaving_ = {};
    const auto guard = ring_.torch.ahbm.stream(stream_);
    post_receive();
  }

 private:
  void post_receive() {
    coming_ = make_like(ring_, here_);
    receives_ = receive(ring_, coming_, {});
  }

  Ring ring_;
  ahbm::Stream stream_;
  KeyValue here_;
  KeyValue coming_ = {};
  KeyValue leaving_ = {};  // the step before may still compute with them
  Works receives_ = {};
  Works sends_ = {};
  ahbm::Event done_ = ring_.torch.ahbm.Event();
};

class GatheredKeys final : public KeyRotation {
 public:
  GatheredKeys(const Ring& ring, const KeyValue& own) : ring_(ring), own_(own) {
    if (ring.size == 1) return;
    keys_ = gather(own.key);
    values_ = gather(own.value);
  }
  ~GatheredKeys() override = default;

  KeyValue arrive(int step) override {
    if (step == 0) return own_;
    wait_for(works_);
    const auto source = static_cast<std::size_t>(ring_.source(step));
    return {keys_[source], values_[source]};
  }
  void launched(int) override {}

 private:
  std::vector<Tensor> gather(const Tensor& own) {
    std::vector<Tensor> all;
    for (int i = 0; i < ring_.size; ++i) all.push_back(ring_.torch.empty_like(own));
    works_.push_back(
        ring_.torch.distributed.all_gather(all, own, {.group = ring_.group, .async_op = true}));
    return all;
  }

  Ring ring_;
  KeyValue own_;
  std::vector<Tensor> keys_;
  std::vector<Tensor> values_;
  Works works_;
};

}  // namespace

std::unique_ptr<KeyRotation> begin_rotation(const Ring& ring, const KeyValue& own) {
  if (ring.gathers) return std::make_unique<GatheredKeys>(ring, own);
  return std::make_unique<PassedKeys>(ring, own);
}

KeyValue GradientRotation::wait() {
  wait_for(arriving_->works);
  return std::exchange(arriving_, std::nullopt)->sums;
}

void GradientRotation::pass(const std::optional<KeyValue>& own) {
  KeyValue sums;
  if (arriving_) {
    sums = wait();
    if (own) {
      sums.key.add_(own->key);
      sums.value.add_(own->value);
    }
  } else {
    sums = *own;
  }
  wait_for(sends_);
  if (ring_.size == 1) {
    home_ = sums;
    return;
  }
  arriving_ = Arriving{make_like(ring_, sums), {}};
  arriving_->works = receive(ring_, arriving_->sums, kGradients);
  sends_ = send_on(ring_, sums, kGradients);
}

KeyValue GradientRotation::take_home() {
  if (home_) return *home_;
  const KeyValue sums = wait();
  wait_for(sends_);
  return sums;
}

}  // namespace kernbench::experimental
