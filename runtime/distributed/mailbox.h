// Sends and receives of one group that have no match yet.
//
// Messages are unbuffered, as gloo's are: one exists only once both sides have called.  A receive
// takes the earliest send that matches it, and a send the earliest receive: by sender (or any),
// receiver and tag.

#pragma once

#include <any>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/distributed/collective.h"
#include "runtime/distributed/options.h"
#include "runtime/distributed/work.h"
#include "runtime/fiber/function_ref.h"

namespace kernbench::distributed {

struct Message {
  // Its function, place and group; its peer (a global rank, -1: any) and tag; its tensor.
  runtime::FlightEvent event = {};
  bool is_send = false;
  int own = 0;  // global rank
  Block block = {};
  std::shared_ptr<std::any> objects = nullptr;  // replaces the block: the objects
  bool is_deferred = false;                     // a receive from any rank waits for settle()
  std::shared_ptr<Work::State> work = nullptr;  // finishes when the message has arrived
};

class Mailbox {
 public:
  // Removes and returns the earliest message that matches; nullopt if there is none.
  std::optional<Message> take_match(const Message& message);
  void put(Message message);

  // Removes and returns all messages.
  std::vector<Message> take_all();

  // The fields that must be equal for messages to match, except the sender.
  struct Address {
    int receiver = 0;
    int tag = 0;
    bool is_of_objects = false;
    auto operator<=>(const Address&) const = default;
  };
  static Address make_address(const Message& message);
  struct Match {
    Message receive;
    Message send;
  };
  // If a deferred receive at this address could take a send, and no settling is under way, one
  // begins; returns its number at the address, from 0.
  std::optional<std::uint64_t> begin_settling(const Address& address);
  // Ends the settling: the earliest deferred receive takes the earliest send of the sender that
  // choose() says, of the ranks, ascending.  Returns all matches that then follow.
  std::vector<Match> settle(const Address& address,
                            runtime::FunctionRef<std::size_t(std::span<const int>)> choose);

 private:
  struct Waiting {  // in the order of their calls
    std::deque<Message> sends;
    std::deque<Message> receives;
    bool is_settling = false;
  };

  std::map<Address, Waiting> waiting_;
  std::map<Address, std::uint64_t> settlings_;  // begun so far
};

// The arguments of a send or receive.
struct MessageCall {
  std::string_view function;
  bool is_send = false;
  bool is_blocking = true;
  std::optional<int> peer = std::nullopt;
  std::optional<int> group_peer = std::nullopt;
  ProcessGroup group = {};
  int tag = 0;
  std::source_location location = {};
  Tensor version = {};  // snapshot of the sent tensor, if already taken
};
MessageCall sending(std::string_view function, const SendOptions& options,
                    std::source_location location);
MessageCall receiving(std::string_view function, const RecvOptions& options,
                      std::source_location location);

// "send to rank 1 (tag 0) at ddp.cpp:41"
std::string describe(const Message& message);

}  // namespace kernbench::distributed
