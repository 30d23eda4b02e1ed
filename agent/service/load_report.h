// Tells a launcher that wants it how busy this host is (HostLoad in agent.proto): once, and then when it has changed.
// Measures only while somebody listens. Owned by the agent; loop thread only.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "agent/service/host_load.h"
#include "base/loop.h"

namespace muster::agent {

inline constexpr std::chrono::milliseconds kLoadPeriod{2'000};

class LoadReport {
 public:
  using Send = std::function<void(v1::AgentMessage)>;

  LoadReport(base::Loop& loop, HostLoadReader reader, Send send, std::chrono::milliseconds period = kLoadPeriod);

  // A stream is there whose launcher wants it: it knows nothing yet.
  void begin();
  // Nobody listens.
  void end();

 private:
  void measure();

  base::Loop& loop_;
  HostLoadReader reader_;
  const Send send_;
  const std::chrono::milliseconds period_;
  base::Timer timer_;
  std::optional<v1::HostLoad> told_;
};

}  // namespace muster::agent
