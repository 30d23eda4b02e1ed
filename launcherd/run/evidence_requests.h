// Asks the agents of a job several times what their ranks do, and collects the answers.
//
// Owner: JobRunner's core.
// Thread: loop thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "model/hang_rules.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline run {

class EvidenceRequests {
 public:
  // Limit on the wait for the answers of one round, beyond the time between the agent's two looks.
  static constexpr std::chrono::seconds kPatience{10};

  using Send = std::function<void(int agent, v1::LauncherMessage message)>;

  struct Target {
    int agent = 0;
    std::string host;
    bool asks_nccl = false;  // its agent also asks NCCL about all ranks, in the last round
  };
  struct Rounds {
    int number = 3;                          // how often each agent is asked
    std::chrono::milliseconds apart{1'000};  // time between the agent's two looks
    std::chrono::milliseconds pause{1'000};  // time between two rounds
  };
  struct Answers {
    std::vector<model::HangLook> looks;     // one for each round, oldest first
    std::vector<std::string> silent_hosts;  // hosts that have missed a round
    std::vector<model::NcclFinding> nccl{};
    std::chrono::milliseconds elapsed{};
  };
  using Done = std::function<void(Answers answers)>;

  EvidenceRequests(base::Loop& loop, const base::Clock& clock, Send send)
      : loop_(loop), clock_(clock), send_(std::move(send)) {}

  // Calls `done` after the last round. It is not called within this call. A host that misses a round is not asked
  // again. Returns the number of the inquiry, for cancel(). `targets` is not empty.
  std::uint64_t ask(std::vector<Target> targets, Rounds rounds, Done done);
  // The inquiry's `done` is then never called. Unknown numbers are ignored.
  void cancel(std::uint64_t inquiry) { open_.erase(inquiry); }
  void answered(int agent, const v1::EvidenceAnswer& answer);
  // Call this when the agent can no longer answer.
  void lost(int agent);
  // Call this when the job is over. Ends all inquiries with the looks that are there.
  void close();

 private:
  struct Inquiry {
    std::vector<Target> targets;  // those that have answered all rounds so far
    Rounds rounds;
    Done done;
    std::uint64_t question = 0;          // the id of this round
    std::map<int, std::string> missing;  // hosts of the agents that have not answered this round
    Answers answers;
    base::MonotonicTime began{};
    base::Timer timer;  // the round's deadline, or the pause
  };

  static bool is_last_round(const Inquiry& inquiry);
  void begin_round(std::uint64_t id);
  void give_up(std::uint64_t id, int agent);
  void finish_round_if_complete(std::uint64_t id);
  void finish(std::uint64_t id);

  base::Loop& loop_;
  const base::Clock& clock_;
  const Send send_;
  std::map<std::uint64_t, Inquiry> open_;
  std::uint64_t next_inquiry_ = 1;
  std::uint64_t next_question_ = 1;
};

}  // namespace muster::launcherd::run
