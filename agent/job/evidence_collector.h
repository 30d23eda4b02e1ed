// Answers the launcher's question what the ranks of this host do, when a job seems to hang. It looks at each running
// rank twice, and adds what the agent's servers know of the rank. Several questions may be open at a time.
//
// A look is a process of its own (agent/commands/look_report.h), because it can block. Looks follow one another.
//
// Owner: the job's session.
// Thread: the loop thread only.
// Errors: every question is answered once. The answer says why ranks are missing.
// The destructor ends a look that runs. Open questions then get no answer.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/commands/stack_reader.h"
#include "agent/io/last_output.h"
#include "agent/job/awaited.h"
#include "agent/job/sleep_times.h"
#include "agent/job/store_polls.h"
#include "base/clock.h"
#include "base/gate.h"
#include "base/loop.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class EvidenceCollector {
 public:
  // Functions of the session's other parts. A function that is not set counts as one that returns nothing.
  struct Sources {
    std::function<std::map<int, pid_t>()> pids;  // of the ranks that run now
    std::function<void(std::function<void(const std::map<int, LastOutput>&)> done)> last_outputs = {};
    std::function<std::optional<Awaited>(int rank)> awaited = {};
    // Returns the rank's place in its collective operations. nullopt if it does not use libmuster.
    std::function<std::optional<v1::CollectivePlace>(int rank)> collective = {};
    // Passes on what the rank at the peer's end of this connection to torch's store waits for. Calls `done` once.
    std::function<void(const rendezvous::ConnectionEnds& ends, std::function<void(std::optional<Awaited>)> done)>
        store_wait = {};
    StorePolls::Watch watch_missing = {};
    std::function<std::string()> session_dir = {};  // where programs write their stacks
  };

  // Returns the options with which looks are made.
  static StackReader::Options look_options();

  EvidenceCollector(base::Loop& loop, Sources sources, std::function<void(v1::EvidenceAnswer)> send,
                    StackReader::Options options = look_options());
  EvidenceCollector(const EvidenceCollector&) = delete;
  EvidenceCollector& operator=(const EvidenceCollector&) = delete;

  void ask(const v1::EvidenceQuestion& question);
  // Answers all open questions: there is nothing to look at any longer. `why` is a sentence.
  void end(const std::string& why);
  // Returns the pid of the present look, or 0. It is a child of the agent and not of the job.
  pid_t pid() const { return reader_.pid(); }

 private:
  struct Look {
    std::map<int, v1::RankEvidence> ranks;
    base::MonotonicTime at{};
  };
  struct Question {
    std::uint64_t id = 0;
    base::Duration apart{};
    Look first;
    Look second;
    bool asks_nccl = false;
    bool is_second = false;  // the first look has ended
    std::vector<v1::NcclFinding> nccl = {};
    std::string problem = {};
    base::Timer second_due = {};
    base::MonotonicTime polls_since{};
    std::shared_ptr<void> polls = {};  // the watch of polls, from the first look to the end of the second one
  };
  using Waits = std::map<int, Awaited>;  // by rank

  StackReader::Options with_frames(StackReader::Options options);
  void look(std::uint64_t key);
  base::Status take_frame(std::uint64_t key, const std::string& frame);
  void looked(std::uint64_t key, const std::string& problem);
  void complete_later(std::uint64_t key);
  void ask_stores(std::uint64_t key, const std::map<int, LastOutput>& outputs);
  void complete(std::uint64_t key, const std::map<int, LastOutput>& outputs, const Waits& waits);
  v1::RankEvidence evidence_of(const Question& question, int rank, pid_t pid) const;
  void add_facts(const Question& question, const std::map<int, LastOutput>& outputs, const Waits& waits,
                 v1::RankEvidence& evidence) const;
  void refuse(std::uint64_t id, const std::string& why) const;

  base::Loop& loop_;
  const Sources sources_;
  const std::function<void(v1::EvidenceAnswer)> send_;
  SleepTimes sleeps_;
  StorePolls polls_;
  std::map<std::uint64_t, Question> questions_;  // by numbers of our own: two launchers may use the same ids
  std::uint64_t next_key_ = 1;
  base::Gate gate_;
  StackReader reader_;
};

}  // namespace muster::agent::job
