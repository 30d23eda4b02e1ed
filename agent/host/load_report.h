// Reports how busy this host is to a launcher that wants it (HostLoad in agent.proto): once, and then after each
// change.
// It measures only while a launcher listens. The values of the GPUs are one period old, because it does not wait for
// muster-gpus.
//
// Owner: the agent.
// Thread: the loop thread only.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/gpus/reader.h"
#include "agent/host/host_load.h"
#include "base/gate.h"
#include "base/loop.h"
#include "model/node_shape.h"

namespace muster::agent::inline host {

inline constexpr std::chrono::milliseconds kLoadPeriod{2'000};
inline constexpr int kFailedPeriods = 10;  // periods between questions to NVIDIA's library after it has failed

class LoadReport {
 public:
  using Send = std::function<void(v1::AgentMessage)>;

  struct Gpus {
    gpus::Reader* reader = nullptr;        // outlives this object; nullptr if there are no GPUs to ask about
    std::vector<model::GpuShape> known{};  // the host's GPUs at the agent's start
  };

  LoadReport(base::Loop& loop, HostLoadReader reader, Send send, std::chrono::milliseconds period = kLoadPeriod)
      : LoadReport(loop, std::move(reader), std::move(send), Gpus(), period) {}
  LoadReport(base::Loop& loop, HostLoadReader reader, Send send, Gpus gpus,
             std::chrono::milliseconds period = kLoadPeriod);

  // Call it when a stream is up whose launcher wants reports. That launcher has no report yet.
  void begin();
  // Call it when that stream has ended.
  void end();

 private:
  void measure();
  void ask_gpus();

  base::Loop& loop_;
  HostLoadReader reader_;
  const Send send_;
  const std::chrono::milliseconds period_;
  const Gpus gpus_;
  std::optional<gpus::GpuReport> seen_;  // the last answer
  // The problem of NVIDIA's library in the last answer, or the reason why there was no answer.
  std::optional<std::string> problem_;
  // True if the library has failed. Timeouts do not count here, because the reader counts them.
  bool has_failed_ = false;
  int passed_over_ = 0;  // periods without a question since it failed
  base::Timer timer_;
  std::optional<v1::HostLoad> last_sent_;
  base::Gate gate_;
};

}  // namespace muster::agent::host
