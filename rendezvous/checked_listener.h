// Accepts TCP connections and hands on only those that the owner check allows; no byte of the others is ever read.
//
// Runs on the loop. Checks go on beside each other: a slow one holds up nobody, and one that does not end within
// `check_limit` closes its connection.
//
// It leaves base::spare_descriptors() to the rest of the process. Where fewer are left, the oldest unchecked connection
// makes room. Without one accepting pauses, the kernel's backlog holds the newcomers, and `on_starved` is called.
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
  int backlog = 4096;                // all ranks of a job come at once; the kernel caps it at net.core.somaxconn
  std::size_t max_unchecked = 1024;  // at most a quarter of the limit of descriptors
  base::Duration check_limit = std::chrono::seconds(5);
  std::function<void()> on_starved = {};  // accepting pauses; at most once a minute
};

class CheckedListener {
 public:
  using OnAccepted = std::function<void(base::UniqueFd peer)>;  // non-blocking, close-on-exec

  struct Counts {
    std::uint64_t allowed = 0;
    std::uint64_t refused = 0;  // by the owner check
    std::uint64_t dropped = 0;  // not checked in time, or too many at once
    std::uint64_t pauses = 0;   // for want of descriptors or memory
  };

  // `listening` is non-blocking and bound. `on_accepted` must not destroy the listener.
  CheckedListener(base::Loop& loop, base::UniqueFd listening, OwnerCheck check, OnAccepted on_accepted,
                  CheckedListenerLimits limits = {});
  ~CheckedListener();  // closes the listening socket and all that were not handed on
  CheckedListener(const CheckedListener&) = delete;
  CheckedListener& operator=(const CheckedListener&) = delete;

  const Counts& counts() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::rendezvous
