// The agent's side of `muster stacks`: runs `muster-agent --stacks …` and passes on its results, process by process.
// One such run is a reading. EvidenceCollector uses it for `muster-agent --looks …`.
// A reading that exceeds its patience is killed. Threads that it has left stopped are continued.
//
// With kernel.yama.ptrace_scope=1 the agent opens the memories of the processes itself. A thread does that, because the
// call can block for ever. The reading does without memories that are not open in time.
//
// Thread: the loop thread only. There is one reading at a time; other requests wait. The destructor ends the reading.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/proc/proc_table.h"
#include "agent/stacks/target_memory.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/frame.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline commands {

// True if kernel.yama.ptrace_scope is 1.
bool is_for_parents_only();

class StackReader {
 public:
  struct Options {
    std::string program = "/proc/self/exe";  // the agent's own file
    std::string command = "--stacks";        // the command of `program` that reads
    bool stops_threads = true;               // the command stops threads for some milliseconds
    std::chrono::milliseconds patience{8'000};
    // True if the agent opens the memories of the processes itself. With kernel.yama.ptrace_scope=1 only a parent may
    // open them, and the reading is no parent of the ranks.
    bool opens_memories = is_for_parents_only();
    std::chrono::milliseconds opening_patience{1'000};
    std::function<base::Result<base::UniqueFd>(pid_t)> open_memory = ProcessMemory::open_fd;  // any thread; may block
    // Gets the content of each frame, for a command that writes something other than v1::ProcessStack. An error ends
    // the reading.
    std::function<base::Status(std::uint64_t id, const std::string& frame)> take_frame = {};
  };

  // `send` gets each answer to a request. The last one has `done` set.
  StackReader(base::Loop& loop, std::function<void(v1::StackAnswer)> send) : StackReader(loop, std::move(send), {}) {}
  StackReader(base::Loop& loop, std::function<void(v1::StackAnswer)> send, Options options);
  ~StackReader();

  // `pids` are the pids of the ranks in question, by rank. `is_native`: also stop processes that run Python, for their
  // native functions. `options` are further arguments of the command.
  void ask(std::uint64_t id, const std::map<int, pid_t>& pids, bool is_native, std::vector<std::string> options = {});
  // Returns the pid of the present reading, or 0. It is a child of the agent and not of the job.
  pid_t pid() const { return pid_; }

 private:
  struct Question {
    std::uint64_t id = 0;
    std::map<int, pid_t> pids;
    bool is_native = false;
    std::vector<std::string> options = {};
  };

  using Memories = std::map<pid_t, base::UniqueFd>;
  struct Opening;

  void start_next();
  base::Status open_memories(const std::vector<ProcessInfo>& processes);
  void memories_opened();
  void start_or_end(const Memories& memories);
  base::Status start(const Memories& memories);
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
  std::vector<ProcessInfo> running_;     // processes that were not stopped when the reading began
  std::string cut_because_;              // why the reading was killed; empty if it was not
  std::shared_ptr<Opening> opening_;     // set while the reading waits for its memories
  std::weak_ptr<Opening> last_opening_;  // its thread may still hang
  pid_t pid_ = 0;
  base::UniqueFd output_;  // of the thread that opens memories, then of the reading
  proto::FrameReader frames_;
  base::Timer watch_;
  base::Timer deadline_;
  base::Timer next_;
};

}  // namespace muster::agent::commands
