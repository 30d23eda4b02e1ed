// Accepts TCP connections and hands on only those that the owner check allows. No byte of a refused connection is read.
//
// Checks run side by side, so a slow one delays no other. A check that takes longer than `check_limit` closes its
// connection.
//
// The listener leaves base::spare_descriptors() to the rest of the process. If fewer are left, it closes the oldest
// unchecked connection. If no connection is unchecked, the listener pauses for 100 ms and calls `on_starved`. New
// connections then wait in the kernel's backlog.
//
// Thread: the loop's.
//
//   CheckedListener listener(loop, std::move(fd), check, [&](base::UniqueFd peer) { serve(std::move(peer)); });
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "rendezvous/owner_check.h"

namespace muster::rendezvous {

struct CheckedListenerLimits {
  int backlog = 4096;                // all ranks of a job connect at once; the kernel caps it at net.core.somaxconn
  std::size_t max_unchecked = 1024;  // the listener lowers it to a quarter of the descriptor limit
  base::Duration check_limit = std::chrono::seconds(5);
  std::function<void()> on_starved = {};  // called when accepting pauses, at most once a minute
};

class CheckedListener {
 public:
  using OnAccepted = std::function<void(base::UniqueFd peer)>;  // non-blocking, close-on-exec

  struct Counts {
    std::uint64_t allowed = 0;
    std::uint64_t refused = 0;  // refused by the owner check
    std::uint64_t dropped = 0;  // not checked in time, or closed because too many were unchecked
    std::uint64_t pauses = 0;   // times that accepting stopped because descriptors or memory ran out
  };

  // `listening` must be non-blocking and bound. `on_accepted` must not destroy the listener.
  CheckedListener(base::Loop& loop, base::UniqueFd listening, OwnerCheck check, OnAccepted on_accepted,
                  CheckedListenerLimits limits = {});
  ~CheckedListener();  // closes the listening socket and all unchecked connections
  CheckedListener(const CheckedListener&) = delete;
  CheckedListener& operator=(const CheckedListener&) = delete;

  const Counts& counts() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::rendezvous
