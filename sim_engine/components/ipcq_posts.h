// The receives that are posted on one queue.
//
// Every message of a queue has a number, and so has every post: the n-th post takes the n-th
// message.  Numbers are free-running counters of 32 bits.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sim_engine/components/command.h"
#include "sim_engine/components/ipcq_message.h"
#include "sim_engine/components/tile.h"

namespace kernbench::sim {

// A kernel that posts receives.
class ReceiveIssuer : public CommandIssuer {
 public:
  virtual const Operation& operation() const = 0;
  // A message is what one of its posts expects.  `in_slot`: a command that empties the message's
  // slot is under way from now on, issued for the kernel.
  virtual void accepted(const IpcqMessage& message, bool in_one_sip, bool in_slot) = 0;
  // Wakes the kernel, which waits for a post.
  virtual void wake_from_post() = 0;

 protected:
  ~ReceiveIssuer() = default;
};

struct IpcqPost {
  enum class State : std::uint8_t {
    open,       // its message is not there yet
    arrived,    // its message has arrived as expected: the tile has its value
    refused,    // its message did not match the post and was dropped
    discarded,  // its kernel is gone; it takes its message and drops it
    closed,     // done; its place may be used again
  };
  State state = State::open;
  bool wakes = false;                          // the kernel waits for it
  ReceiveIssuer* issuer = nullptr;             // the kernel that posted it, unless discarded
  Tile tile;                                   // where the message goes, while it is open
  Time issued{0};                              // when the PE_CPU had issued it
  Time seen{0};                                // when PE_IPCQ noticed its message
  CauseLog::Id cause{};                        // of `seen`, and before that of `issued`
  std::unique_ptr<const IpcqMessage> refused;  // the refused message, without its value
};

class IpcqPosts {
 public:
  // `first` is the number of the first post.
  explicit IpcqPosts(std::uint32_t first) : first_(first), next_(first) {}

  // The number that the next post gets.
  std::uint32_t next() const { return next_; }

  // The post with this number; nullptr if it is not made yet.  References are valid until the next
  // add().
  // REQUIRES: it is not closed
  const IpcqPost* find(std::uint32_t number) const {
    if (static_cast<std::int32_t>(number - next_) >= 0) return nullptr;
    if (number - first_ >= size()) [[unlikely]]
      refuse(number);
    return &at(number);
  }
  IpcqPost* find(std::uint32_t number) {
    return const_cast<IpcqPost*>(std::as_const(*this).find(number));
  }

  IpcqPost& add();
  void close(std::uint32_t number);

  // The number of posts that are neither closed nor discarded, of all kernels or of `issuer` alone.
  int count(const ReceiveIssuer* issuer = nullptr) const;

  // The kernel that made the posts is gone.  `sent` is the first message that was not sent yet:
  // posts from there on are undone; earlier ones will still take their messages and drop them.
  void withdraw(std::uint32_t sent);

  void reset(std::uint32_t first);

 private:
  std::uint32_t size() const { return next_ - first_; }
  [[noreturn]] static void refuse(std::uint32_t number);
  const IpcqPost& at(std::uint32_t number) const { return ring_.data()[number & mask_]; }
  IpcqPost& at(std::uint32_t number) { return ring_.data()[number & mask_]; }
  void grow();
  void forget_closed();

  std::uint32_t first_;         // the oldest post that is not closed
  std::uint32_t next_;          // [first_, next_) are in the ring
  std::vector<IpcqPost> ring_;  // its size is a power of two; post n lies at n modulo the size
  std::uint32_t mask_ = 0;      // the size less one
};

}  // namespace kernbench::sim
