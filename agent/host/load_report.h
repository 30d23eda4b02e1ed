// Tells a launcher that wants it how busy this host is (HostLoad in agent.proto): once, and then when it has changed.
// Measures only while somebody listens. What muster-gpus says of the GPUs is one period old: it is not waited for.
// Owned by the agent; loop thread only.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/gpus/reader.h"
#include "agent/host/host_load.h"
#include "base/loop.h"
#include "model/node_shape.h"

namespace muster::agent::inline host {

inline constexpr std::chrono::milliseconds kLoadPeriod{2'000};
inline constexpr int kFailedPeriods = 10;  // between questions to NVIDIA's library when it has failed

class LoadReport {
 public:
  using Send = std::function<void(v1::AgentMessage)>;

  struct Gpus {
    gpus::Reader* reader = nullptr;        // outlives it; nullptr: there is nobody to ask
    std::vector<model::GpuShape> known{};  // at the agent's start
  };

  LoadReport(base::Loop& loop, HostLoadReader reader, Send send, std::chrono::milliseconds period = kLoadPeriod)
      : LoadReport(loop, std::move(reader), std::move(send), Gpus(), period) {}
  LoadReport(base::Loop& loop, HostLoadReader reader, Send send, Gpus gpus,
             std::chrono::milliseconds period = kLoadPeriod);

  // A stream is there whose launcher wants it: it knows nothing yet.
  void begin();
  // Nobody listens.
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
  std::optional<std::string> problem_;   // of NVIDIA's library, by the last answer or for want of one
  bool has_failed_ = false;              // the library; of one that does not answer the reader keeps count
  int passed_over_ = 0;                  // periods without a question since
  base::Timer timer_;
  std::optional<v1::HostLoad> told_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace muster::agent::host
