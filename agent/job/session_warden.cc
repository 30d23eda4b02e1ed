#include "agent/job/session_warden.h"

#include <chrono>

namespace muster::agent::inline job {
namespace {

// A warden that was ordered to leave and is still there after this time is killed.
constexpr std::chrono::seconds kCloseBound{5};
// If a warden hangs or stays stopped for this long while the ranks must end, the agent kills it. The launcher waits for
// the grace and 6 s more (launcherd's kStopMargin). In these 6 s, killing what is left takes up to 3 s.
constexpr std::chrono::milliseconds kWardenPatience{1000};

}  // namespace

SessionWarden::SessionWarden(base::Loop& loop, Warden warden, Events events)
    : loop_(loop), warden_(std::move(warden)), events_(std::move(events)) {
  watch();
}

void SessionWarden::watch() {
  watch_ = loop_.on_readable(warden_.fd(), [this] { readable(); });
}

void SessionWarden::readable() {
  auto events = warden_.read_events();
  if (!events.ok()) {
    watch_.cancel();
    return events_.on_end();
  }
  for (WardenEvent& event : *events) events_.on_event(event);
}

bool SessionWarden::check(base::MonotonicTime now, bool must_end_ranks) {
  if (warden_.keep_running() || !must_end_ranks) {
    hangs_since_.reset();
    return false;
  }
  if (!hangs_since_) hangs_since_ = now;
  if (now - *hangs_since_ < kWardenPatience) return false;
  warden_.kill_hung();
  return true;
}

void SessionWarden::dismiss() {
  warden_.begin_close();
  close_deadline_ = loop_.after(kCloseBound, [this] { events_.on_close_due(); });
  // If the warden has already ended, its watch was cancelled. A new watch reports that end at once.
  if (!watch_.armed()) watch();
}

base::Status SessionWarden::close() {
  watch_.cancel();
  close_deadline_.cancel();
  return warden_.close();
}

}  // namespace muster::agent::job
