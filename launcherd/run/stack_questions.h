// Asks the agents of a job where their ranks are, and gathers what they say. Loop thread only.
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

class StackQuestions {
 public:
  // Longer than an agent takes when a process hangs.
  static constexpr std::chrono::seconds kPatience{10};

  using Send = std::function<void(int agent, v1::LauncherMessage message)>;
  // A process, or (without pid) a sentence on a host in `problem`.
  using OnProcess = std::function<void(v1::ProcessStack)>;

  struct Asked {
    int agent = 0;
    std::string host;
    std::vector<int> ranks;  // never empty
  };

  StackQuestions(base::Loop& loop, Send send) : loop_(loop), send_(std::move(send)) {}

  // `done` comes after the last process, at the latest after kPatience; neither is called from within this call unless
  // nobody is asked.
  void ask(const std::vector<Asked>& hosts, OnProcess on_process, std::function<void()> done);
  void answered(int agent, const v1::StackAnswer& answer);
  // It will not answer any more.
  void lost(int agent);
  // The job is over: every question ends.
  void close();

 private:
  struct Open {
    std::map<int, std::string> missing;  // agents and their hosts
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
