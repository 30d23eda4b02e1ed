// Named operations from any thread, in any order on each rank, as Horovod's users know them: what all ranks have
// submitted is done, allreduces that are due together in one collective. One thread a communicator, which works as soon
// as something is submitted.
//
// A tensor that ranks describe differently fails on all of them, and nothing else does. After a rank has died, or any
// has shut its engine down, everything fails.
//
// Turns: while this rank has something that is not due it takes part in turns, in each of which all ranks say what
// they have (negotiation.h). A rank that has nothing takes part in none, and the others wait for it: nothing could be
// due without it. Where a turn has brought nothing, the next one comes with the next submission, or after a moment that
// doubles up to a millisecond, since another rank may have submitted what it lacked.
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
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "collectives/communicator.h"
#include "collectives/engine/executor.h"
#include "collectives/engine/negotiation.h"
#include "collectives/engine/ticket.h"

namespace muster::collectives {

struct EngineOptions {
  std::size_t fusion_bytes = std::size_t{128} << 20;  // of what is packed together; 0: nothing is
  std::size_t cache_capacity = 1024;                  // names; 0: everything is announced in full each time
};

class Engine {
 public:
  // Collective over the ranks of `communicator`, of which it makes its own.
  static base::Result<std::unique_ptr<Engine>> start(Communicator& communicator, EngineOptions options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int rank() const { return data_->rank(); }
  int size() const { return data_->size(); }

  // INVALID_ARGUMENT: nothing that can be done; ALREADY_EXISTS: the name is taken until that tensor is done. Otherwise
  // what goes wrong is told by the ticket.
  base::Result<std::shared_ptr<Ticket>> submit(Submission submission);

  // Tells the other ranks, whose tensors that are not done fail as this rank's do. Waits until they have heard it, for
  // at most `time`: a rank that has nothing to do hears it when it submits something, or shuts down itself.
  void shut_down(std::chrono::milliseconds time);

  // What this rank waits for, and which ranks have not submitted it, as of the last turn.
  std::vector<Negotiation::Late> late() const;

 private:
  Engine(std::shared_ptr<Communicator> data, std::shared_ptr<Communicator> control, EngineOptions options);
  void run();
  bool take_submissions();
  void wait_for_submissions();
  base::Status turn(bool& has_progressed);
  base::Result<std::vector<Said>> exchange(const Said& own);
  base::Status do_due(const std::vector<Due>& due);
  void end(const base::Status& why);

  const std::shared_ptr<Communicator> data_;
  const std::shared_ptr<Communicator> control_;
  mutable std::mutex negotiation_mutex_;  // late() reads while the thread is between turns
  Negotiation negotiation_;
  Executor executor_;
  std::map<std::string, Executor::Work> pending_;  // of the thread

  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<Executor::Work> submitted_;
  std::map<std::string, std::shared_ptr<Ticket>> in_flight_;  // names that are taken
  std::size_t sweep_at_ = 0;  // how many names there are when those that are free again are forgotten
  base::Status ended_;
  std::atomic<int> has_news_{0};
  std::atomic<bool> is_stopping_{false};
  bool is_over_ = false;
  std::condition_variable over_;
  std::thread thread_;
};

}  // namespace muster::collectives
