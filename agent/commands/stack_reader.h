// The agent's side of `muster stacks`: runs `muster-agent --stacks …` and passes on its results, process by process.
// One such run is a reading.
// A reading that exceeds its patience is killed. Threads that it has left stopped are continued.
//
// Thread: the loop thread only. There is one reading at a time; other requests wait. The destructor ends the reading.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/proc/proc_table.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "proto/frame.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline commands {

class StackReader {
 public:
  struct Options {
    std::string program = "/proc/self/exe";  // the agent's own file
    std::chrono::milliseconds patience{8'000};
  };

  // `send` gets each answer to a request. The last one has `done` set.
  StackReader(base::Loop& loop, std::function<void(v1::StackAnswer)> send) : StackReader(loop, std::move(send), {}) {}
  StackReader(base::Loop& loop, std::function<void(v1::StackAnswer)> send, Options options);
  ~StackReader();

  // `pids` are the pids of the ranks in question, by rank.
  void ask(std::uint64_t id, const std::map<int, pid_t>& pids);
  // Returns the pid of the present reading, or 0. It is a child of the agent and not of the job.
  pid_t pid() const { return pid_; }

 private:
  struct Question {
    std::uint64_t id = 0;
    std::map<int, pid_t> pids;
  };

  void start_next();
  base::Status start();
  void readable();
  base::Status take_frames();
  void cut(const std::string& why);
  std::string reap();
  void end(std::string problem);

  base::Loop& loop_;
  const std::function<void(v1::StackAnswer)> send_;
  const Options options_;
  std::deque<Question> waiting_;
  Question current_;
  std::vector<ProcessInfo> running_;  // processes that were not stopped when the reading began
  std::string cut_because_;           // why the reading was killed; empty if it was not
  pid_t pid_ = 0;
  base::UniqueFd output_;
  proto::FrameReader frames_;
  base::Timer watch_;
  base::Timer deadline_;
  base::Timer next_;
};

}  // namespace muster::agent::commands
