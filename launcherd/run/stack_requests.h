// Asks the agents of a job where their ranks are in their programs, and collects the answers.
//
// Owner: JobRunner's core.
// Thread: loop thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/loop.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline run {

class StackRequests {
 public:
  // Limit on the wait for answers. It must exceed the time that an agent needs when a process hangs.
  static constexpr std::chrono::seconds kPatience{10};

  using Send = std::function<void(int agent, v1::LauncherMessage message)>;
  // Receives one process. Without a pid, `problem` holds a sentence about a host instead.
  using OnProcess = std::function<void(v1::ProcessStack)>;

  struct Target {
    int agent = 0;
    std::string host;
    std::vector<int> ranks;  // never empty
  };

  StackRequests(base::Loop& loop, Send send) : loop_(loop), send_(std::move(send)) {}

  // `is_native`: see StackQuery.
  // Calls `done` after the last process, at the latest after kPatience. No callback runs within this call, except
  // `done` if `hosts` is empty.
  void ask(const std::vector<Target>& hosts, bool is_native, OnProcess on_process, std::function<void()> done);
  void answered(int agent, const v1::StackAnswer& answer);
  // Call this when the agent can no longer answer.
  void lost(int agent);
  // Call this when the job is over. Calls the `done` of every open question.
  void close();

 private:
  struct Open {
    std::map<int, std::string> missing;  // host names of the agents that have not answered completely
    OnProcess on_process;
    std::function<void()> done;
    base::Timer deadline;
  };
  void give_up(std::uint64_t id, int agent, const std::string& why);
  void finish_if_complete(std::uint64_t id);

  base::Loop& loop_;
  const Send send_;
  std::map<std::uint64_t, Open> open_;
  std::uint64_t next_id_ = 1;
};

}  // namespace muster::launcherd::run
