// Forwards agents' questions about the owners of connections to the agents that can answer them, and returns the
// answers.
//
// Several hosts may have the same address, because private networks reuse addresses. All of them are then asked, and
// one yes suffices. If an agent is lost, its answer never comes, and the asking agent drops its connection by itself.
//
// Owner: JobRunner's core.
// Thread: loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline run {

class PeerCredentialQueries {
 public:
  using Send = std::function<void(int agent, v1::LauncherMessage message)>;

  explicit PeerCredentialQueries(Send send) : send_(std::move(send)) {}

  // `candidates` are the agents that may know. If there are no candidates, sends the answer "no" at once.
  void ask(int asker, const v1::OwnerQuestion& question, const std::vector<int>& candidates);
  // Accepts one answer from each agent that was asked, under the id of the forwarded question. Other answers are
  // ignored.
  void answered(int agent, const v1::OwnerAnswer& answer);

 private:
  struct Open {
    int asker = 0;
    std::uint64_t id = 0;      // the asker's own id of the question
    std::vector<int> asked{};  // agents that have not answered
  };
  void reply(const Open& open, bool allowed);

  const Send send_;
  std::map<std::uint64_t, Open> open_;  // oldest first
  std::uint64_t next_id_ = 1;
};

}  // namespace muster::launcherd::run
