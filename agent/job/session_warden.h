// Watches a session's warden: reads its events, continues it if it is stopped, and lets it leave at the end.
//
// Owner: the job's session.
// Thread: the loop thread only. Callbacks come from the loop. They must not destroy this object.
// Destruction without close() kills the job's processes, as if the agent had died.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "agent/process/warden.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/status.h"

namespace muster::agent::inline job {

class SessionWarden {
 public:
  struct Events {
    std::function<void(WardenEvent&)> on_event;
    std::function<void()> on_end;        // the warden has left, or it was killed
    std::function<void()> on_close_due;  // after dismiss(): the warden's time to leave is over
  };

  SessionWarden(base::Loop& loop, Warden warden, Events events);
  SessionWarden(const SessionWarden&) = delete;
  SessionWarden& operator=(const SessionWarden&) = delete;

  Warden& operator*() { return warden_; }
  Warden* operator->() { return &warden_; }
  const Warden* operator->() const { return &warden_; }

  // Continues the warden if it is stopped. If it does not run for a second while `must_end_ranks` is true, kills it
  // and returns true. Then on_end() follows.
  bool check(base::MonotonicTime now, bool must_end_ranks);
  // Orders the warden to leave. on_end() or on_close_due() follows, also if the warden has ended before.
  void dismiss();
  // Reaps the warden and removes the session directory, also after the warden was killed. Blocks for at most some
  // seconds.
  base::Status close();

 private:
  void watch();
  void readable();

  base::Loop& loop_;
  Warden warden_;
  const Events events_;
  base::Timer watch_;
  base::Timer close_deadline_;
  std::optional<base::MonotonicTime> hangs_since_;  // since when the warden has not run although the ranks must end
};

}  // namespace muster::agent::job
