// Passes agents' questions about the owners of connections on to the agents that can answer them, and the answers back.
//
// An address may be that of several hosts (private networks repeat): all are asked, and one yes is a yes. An agent that
// is lost answers nothing; the asker gives its connection up by itself. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline run {

class OwnerQuestions {
 public:
  using Send = std::function<void(int agent, v1::LauncherMessage message)>;

  explicit OwnerQuestions(Send send) : send_(std::move(send)) {}

  // `candidates`: the agents that may know; none: the answer is no, at once.
  void ask(int asker, const v1::OwnerQuestion& question, const std::vector<int>& candidates);
  // An agent that was asked answers once, under the id that it was asked with. All else is ignored.
  void answered(int agent, const v1::OwnerAnswer& answer);

 private:
  struct Open {
    int asker = 0;
    std::uint64_t id = 0;      // of the asker
    std::vector<int> asked{};  // agents that have not answered
  };
  void reply(const Open& open, bool allowed);

  const Send send_;
  std::map<std::uint64_t, Open> open_;  // oldest first
  std::uint64_t next_id_ = 1;
};

}  // namespace muster::launcherd::run
