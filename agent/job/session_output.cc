#include "agent/job/session_output.h"

#include <chrono>

#include "base/clock.h"

namespace muster::agent::inline job {
namespace {

// The session offers output to the launcher for this long after all ranks have ended. A launcher that has not read
// the output within this time is not expected to return.
constexpr std::chrono::hours kOutputPatience{24};

}  // namespace

template <typename Task>
void SessionOutput::post(Task task) {
  loop_.post(gate_.wrap(std::move(task)));
}

base::Status SessionOutput::start(OutputSenderConfig config) {
  const bool reports_any = config.only_if_any;
  OutputSenderEvents events;
  events.on_stderr_tail = [this](int rank, std::string tail) {
    post([this, rank, tail = std::move(tail)] {
      events_.on_tail(rank, tail);
      tails_due_.erase(rank);
      events_.on_change();
    });
  };
  events.on_any = [this](bool was_any) {
    post([this, was_any] {
      had_any_ = was_any;
      awaits_any_ = false;
      events_.on_change();
    });
  };
  MUSTER_ASSIGN_OR_RETURN(sender_, OutputSender::start(std::move(config), std::move(events)));
  awaits_any_ = reports_any;
  return base::ok_status();
}

void SessionOutput::rank_started(RankStarted& started, bool has_terminal) {
  ranks_.insert(started.rank);
  sender_->add_rank(started.rank, std::move(started.stdout_fd), std::move(started.stderr_fd),
                    has_terminal ? OutputSender::StreamKind::kTerminal : OutputSender::StreamKind::kLines);
}

void SessionOutput::rank_exited(int rank) {
  if (!ranks_.contains(rank)) return;
  tails_due_.insert(rank);
  sender_->rank_exited(rank);
}

void SessionOutput::last_outputs(std::function<void(const std::map<int, LastOutput>&)> done) {
  if (sender_ == nullptr) return post([done = std::move(done)] { done({}); });
  sender_->last_outputs([this, done = std::move(done)](std::map<int, LastOutput> outputs) {
    post([done, outputs = std::move(outputs)] { done(outputs); });
  });
}

// Nothing here waits for the result. The launcher's output hub reports to the launcher when everything has arrived.
void SessionOutput::finish() {
  if (sender_ == nullptr) return;
  sender_->finish(base::monotonic_now() + kOutputPatience, [](const base::Status&) {});
}

}  // namespace muster::agent::job
