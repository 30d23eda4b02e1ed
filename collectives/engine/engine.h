// Runs named operations that any thread may submit, in any order on each rank, as Horovod does. An operation runs once
// all ranks have submitted it. Allreduces that are due together run as one collective. Each communicator has one
// thread, which works as soon as something is submitted.
//
// Errors: if ranks describe a tensor differently, that tensor fails on all of them, and nothing else does. After a rank
// has died or shut its engine down, everything fails.
//
// Turns: a rank with tensors that are not due takes part in turns. In each turn all ranks announce what they have
// (negotiation.h). A rank without tensors does not take part, and the others wait for it, since nothing could be due
// without it. Now and then an idle rank also takes part, so that the others learn that it has nothing. If a turn makes
// nothing due, the next turn begins with the next submission or after a pause, since another rank may have submitted
// the missing tensor. The pause doubles up to one millisecond.
//
// Thread: any, except for start() and the destructor.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/engine/autotuner.h"
#include "collectives/engine/executor.h"
#include "collectives/engine/negotiation.h"
#include "collectives/engine/settings.h"
#include "collectives/engine/stall_watch.h"
#include "collectives/engine/ticket.h"
#include "collectives/engine/timeline.h"
#include "collectives/group/communicator.h"

namespace muster::collectives::inline engine {

class Engine {
 public:
  // Collective over the ranks of `communicator`. The engine makes its own communicators from it. All ranks use rank 0's
  // values of the settings that must agree.
  static base::Result<std::unique_ptr<Engine>> start(Communicator& communicator, const EngineSettings& settings = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int rank() const { return data_->rank(); }
  int size() const { return data_->size(); }
  // Returns false in a forked child, which must not use its copy of the engine.
  bool is_of_this_process() const { return data_->world().is_of_this_process(); }

  // Queues a submission. INVALID_ARGUMENT if it is invalid. ALREADY_EXISTS if its name is in use by a tensor that is
  // not done. The ticket reports all later errors.
  base::Result<std::shared_ptr<Ticket>> submit(Submission submission);

  // Announces the shutdown to the other ranks. Tensors that are not done fail on all ranks. Waits until the other ranks
  // have received the announcement, for at most `time`. An idle rank receives it when it submits something or shuts
  // down.
  void shut_down(std::chrono::milliseconds time);

  // Returns the tensors that only some ranks have submitted, and the ranks that lack them, as of the last turn.
  std::vector<Negotiation::Late> late() const;
  // Returns the failure that ended the engine. The code is kOk if the engine runs, or if no rank caused the end.
  Failure failure() const;

  // Works on rank 0; other ranks ignore the call. An empty path ends the timeline.
  base::Status set_timeline(const std::string& path, bool marks_turns);

 private:
  struct Head;
  Engine(std::shared_ptr<Communicator> data, std::shared_ptr<Communicator> control, EngineSettings settings);
  base::Status start_threads();
  void run();
  base::Status work();
  void cancel(const Failure& why);
  void pin() const;
  bool take_submissions();
  bool wait_for_submissions();
  void wait_for_cycle();
  base::Status turn(bool& has_progressed);
  base::Result<std::vector<Announcements>> exchange(const Announcements& own);
  base::Result<std::vector<Announcements>> decode_heads(std::span<const std::uint64_t> heads, std::size_t words,
                                                        std::vector<std::size_t>& announced_bytes);
  void show(Timeline& timeline, std::span<const Announcements> announcements);
  void show_due(Timeline& timeline, std::span<const Due> due);
  void show_arrival(const Executor::Work* own);
  void show_oldest() const;
  base::Status do_due(const std::vector<Due>& due, Timeline* timeline);
  Failure explain_end(const Failure& left);
  bool has_submissions();
  void end(base::Status why);
  std::string name_of_rank(int rank) const;

  const std::shared_ptr<Communicator> data_;
  const std::shared_ptr<Communicator> control_;
  EngineSettings settings_;
  Tuned tuned_;                         // rank 0's values for this turn; only the thread uses this and the next members
  std::optional<Autotuner> autotuner_;  // only on rank 0
  base::MonotonicTime last_turn_{};
  Failure left_;  // names the rank that has shut down
  std::map<std::string, Executor::Work> pending_;
  std::set<std::string, std::less<>> negotiated_;  // names that the timeline shows as negotiating
  bool numbers_operations_ = false;  // this engine's operations are those whose start times the status page keeps
  std::uint64_t operations_ = 0;
  ArrivalSampler arrivals_{base::SampleKind::kEngine};
  Executor executor_;
  mutable std::mutex negotiation_mutex_;  // late() locks it to read while the thread is between turns
  Negotiation negotiation_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Executor::Work> submitted_;
  std::map<std::string, std::weak_ptr<Ticket>> in_flight_;  // names in use; finished tickets belong to their callers
  std::size_t sweep_at_ = 0;                                // number of names at which finished ones are removed
  base::Status ended_;
  Failure failure_;
  std::shared_ptr<Timeline> timeline_;
  bool has_new_timeline_ = false;
  std::atomic<int> changes_{0};
  std::atomic<bool> is_stopping_{false};
  bool is_over_ = false;
  std::condition_variable over_;
  std::thread thread_;
  std::unique_ptr<StallWatch> watch_;  // last, because it reads all above and must end first
};

}  // namespace muster::collectives::engine
