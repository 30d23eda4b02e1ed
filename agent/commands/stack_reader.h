// The agent's side of `muster stacks`: runs `muster-agent --stacks …` and passes on what it finds, process by process.
// A reading that does not end within its patience is ended, and threads that it has left stopped go on.
//
// Loop thread only. One reading at a time; further questions wait for their turn. Its destructor ends the reading.
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

  // `send` gets each answer of a question, the last one with `done`.
  StackReader(base::Loop& loop, std::function<void(v1::StackAnswer)> send) : StackReader(loop, std::move(send), {}) {}
  StackReader(base::Loop& loop, std::function<void(v1::StackAnswer)> send, Options options);
  ~StackReader();

  // `pids`: of the ranks asked for, by rank.
  void ask(std::uint64_t id, const std::map<int, pid_t>& pids);
  // Of the reading that is under way, or 0: a child of the agent that is not of the job.
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
  std::vector<ProcessInfo> running_;  // not stopped when it began
  std::string cut_because_;           // it has been killed
  pid_t pid_ = 0;
  base::UniqueFd output_;
  proto::FrameReader frames_;
  base::Timer watch_;
  base::Timer deadline_;
  base::Timer next_;
};

}  // namespace muster::agent::commands
