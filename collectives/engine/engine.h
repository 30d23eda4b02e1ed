// Named operations from any thread, in any order on each rank, as Horovod's users know them: what all ranks have
// submitted is done, allreduces that are due together in one collective. One thread a communicator, which works as soon
// as something is submitted.
//
// A tensor that ranks describe differently fails on all of them, and nothing else does. After a rank has died, or any
// has shut its engine down, everything fails.
//
// Turns: while this rank has something that is not due it takes part in turns, in each of which all ranks say what
// they have (negotiation.h). A rank that has nothing takes part in none, and the others wait for it: nothing could be
// due without it. Only now and then it takes part all the same, so that the others learn that it has nothing. Where a
// turn has brought nothing, the next one comes with the next submission, or after a moment that doubles up to a
// millisecond, since another rank may have submitted what it lacked.
//
// Thread-safe but for start() and the destructor.
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
  // Collective over the ranks of `communicator`, of which it makes its own. What ranks have to agree on is as rank 0
  // has it.
  static base::Result<std::unique_ptr<Engine>> start(Communicator& communicator, const EngineSettings& settings = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int rank() const { return data_->rank(); }
  int size() const { return data_->size(); }
  // False: a copy in a child that was forked, of which nothing may be used.
  bool is_of_this_process() const { return data_->world().is_of_this_process(); }

  // INVALID_ARGUMENT: nothing that can be done; ALREADY_EXISTS: the name is taken until that tensor is done. Otherwise
  // what goes wrong is told by the ticket.
  base::Result<std::shared_ptr<Ticket>> submit(Submission submission);

  // Tells the other ranks, whose tensors that are not done fail as this rank's do. Waits until they have heard it, for
  // at most `time`: a rank that has nothing to do hears it when it submits something, or shuts down itself.
  void shut_down(std::chrono::milliseconds time);

  // What some ranks wait for, and which have not submitted it, as of the last turn.
  std::vector<Negotiation::Late> late() const;
  // Whose doing the engine's end was; code kOk: it has not ended, or nobody's.
  Failure failure() const;

  // Of rank 0; on others nothing happens. Empty: no timeline from now on.
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
  base::Result<std::vector<Said>> exchange(const Said& own);
  base::Result<std::vector<Said>> said_by(std::span<const std::uint64_t> heads, std::size_t words,
                                          std::vector<std::size_t>& announced_bytes);
  void show(Timeline& timeline, std::span<const Said> said);
  void show_due(Timeline& timeline, std::span<const Due> due);
  base::Status do_due(const std::vector<Due>& due, Timeline* timeline);
  Failure look_into(const Failure& left);
  bool has_submissions();
  void end(base::Status why);
  std::string name_of_rank(int rank) const;

  const std::shared_ptr<Communicator> data_;
  const std::shared_ptr<Communicator> control_;
  EngineSettings settings_;
  Tuned tuned_;                         // of rank 0 in this turn; of the thread, as the next ones
  std::optional<Autotuner> autotuner_;  // of rank 0
  base::MonotonicTime last_turn_{};
  Failure left_;  // of the rank that has shut down
  std::map<std::string, Executor::Work> pending_;
  std::set<std::string, std::less<>> negotiated_;  // in the timeline, and not due yet
  Executor executor_;
  mutable std::mutex negotiation_mutex_;  // late() reads while the thread is between turns
  Negotiation negotiation_;

  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::vector<Executor::Work> submitted_;
  std::map<std::string, std::weak_ptr<Ticket>> in_flight_;  // names that are taken; what is done, is owned by others
  std::size_t sweep_at_ = 0;  // how many names there are when those that are free again are forgotten
  base::Status ended_;
  Failure failure_;
  std::shared_ptr<Timeline> timeline_;
  bool has_new_timeline_ = false;
  std::atomic<int> has_news_{0};
  std::atomic<bool> is_stopping_{false};
  bool is_over_ = false;
  std::condition_variable over_;
  std::thread thread_;
  std::unique_ptr<StallWatch> watch_;  // looks at all above: ends first
};

}  // namespace muster::collectives::engine
