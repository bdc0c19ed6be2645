// Sends and receives of one group that have not found each other yet.
//
// Unbuffered, as gloo's: a message exists only once both sides have called.  A receive takes the
// earliest send that fits it, a send the earliest receive: same sender (or any), receiver and tag.

#pragma once

#include <any>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <vector>

#include "runtime/distributed/collective.h"
#include "runtime/distributed/work.h"

namespace kernbench::distributed {

struct Message {
  bool is_send = false;
  int own = 0;                              // global rank
  std::optional<int> other = std::nullopt;  // of a receive: any
  int tag = 0;
  Block block = {};
  std::shared_ptr<std::any> objects = nullptr;  // instead of a block: what the receive gets
  std::source_location location = {};
  std::shared_ptr<Work::State> work = nullptr;  // finishes when the message is there
};

class Mailbox {
 public:
  // The earliest that `message` fits, taken out; nullopt if there is none.
  std::optional<Message> take_match(const Message& message);
  void put(Message message);

 private:
  // What messages must agree on to meet, but for the sender.
  struct Address {
    int receiver = 0;
    int tag = 0;
    bool is_of_objects = false;
    auto operator<=>(const Address&) const = default;
  };
  struct Waiting {  // in the order of their calls
    std::deque<Message> sends;
    std::deque<Message> receives;
  };

  static Address address_of(const Message& message);

  std::map<Address, Waiting> waiting_;
};

// "send to rank 1 (tag 0) at ddp.cpp:41"
std::string describe(const Message& message);

}  // namespace kernbench::distributed
