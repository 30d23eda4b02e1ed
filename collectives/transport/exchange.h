// Moves the messages of one step of an operation over their links at the same time, until all are done. It waits as
// wait.h describes.
//
// Owner: a communicator, which keeps it for all its operations, so that small ones allocate nothing.
// Thread: one at a time.
// Errors: FAILED_PRECONDITION if a peer called something else. UNAVAILABLE if a link broke. DEADLINE_EXCEEDED if
// nothing has arrived for too long. The record's failure if the abort record is raised. All messages name the peer, and
// failed_peer() returns it. After an error the communicator's links are unusable, because bytes may be left in them.
//
//   exchange.begin(operation, Algorithm::kOneShot);
//   MUSTER_RETURN_IF_ERROR(exchange.send(peer, bytes));
//   MUSTER_RETURN_IF_ERROR(exchange.receive(peer, place));
//   return exchange.run();
#pragma once

#include <poll.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "collectives/transport/message.h"
#include "collectives/transport/peers.h"

namespace muster::collectives::inline transport {

// Part of each message's header, so that ranks detect that they chose different algorithms.
enum class Algorithm : std::uint32_t {
  kNone,
  kRing,
  kRecursiveDoubling,
  kPairwise,
  kOneShot,
  kTree,
  kChain,
  kDirect,
};

class Exchange {
 public:
  explicit Exchange(Peers& peers);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Peers& peers() { return peers_; }
  int rank() const { return peers_.rank(); }
  int size() const { return peers_.size(); }

  // Begins an operation or a part of one. Forgets the messages of the one before.
  void begin(const Operation& operation, Algorithm algorithm);

  // Adds a message. Add at most one in each direction for a peer before run(). The bytes must live until run() returns.
  base::Status send(int peer, std::span<const std::byte> bytes);
  base::Status receive(int peer, std::span<std::byte> place);
  // The next two calls add messages whose bytes `after` of run() provides later. The result is valid until the next
  // begin() or run().
  base::Result<Outgoing*> open_send(int peer, std::uint64_t bytes);
  base::Result<Incoming*> open_receive(int peer, std::uint64_t bytes);

  // Runs until all added messages are done, then forgets them.
  base::Status run() {
    return run([] {});
  }
  // `after()` is called once at the start, and whenever something has moved. It must provide bytes for messages that
  // need more.
  template <typename After>
  base::Status run(After after) {
    after();
    Waiter waiter(peers_.policy(), peers_.abort());
    while (!are_all_done()) {
      Moved moved = turn();
      if (moved == Moved::kNothing) {
        const base::Status waited = wait(waiter, &moved);
        if (!waited.ok()) return finish(waited);
      }
      if (moved == Moved::kBroken) return finish(error_);
      if (moved == Moved::kNothing) continue;
      waiter.progress();
      after();
    }
    return finish(base::ok_status());
  }

  // Returns at least `bytes` bytes, 64-aligned. The next call invalidates them.
  std::span<std::byte> scratch(std::size_t bytes);
  // Returns one pointer for each rank, for the inputs of a reduction.
  std::span<const void*> operands() { return operands_; }
  // Returns the communicator's rank that caused the last error; -1 if none.
  int failed_peer() const { return failed_peer_; }

 private:
  MessageHeader header(std::uint64_t bytes) const;
  Moved turn();
  Moved broken_sending(const Outgoing& message);
  Moved broken_receiving(const Incoming& message);
  bool are_all_done() const;
  base::Status wait(Waiter& waiter, Moved* moved);
  Moved sleep();
  base::Status finish(base::Status status);
  int first_pending_peer() const;
  int first_ended_peer() const;
  Failure late_failure();

  Peers& peers_;
  Operation operation_;
  Algorithm algorithm_ = Algorithm::kNone;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::vector<pollfd> fds_;
  std::vector<const void*> operands_;
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_size_ = 0;
  base::Status error_;
  bool has_sockets_ = false;  // true if any message uses a socket
  int failed_peer_ = -1;
};

}  // namespace muster::collectives::transport
