// Tells a launcher that wants it how busy this host is (HostLoad in agent.proto): once, and then when it has changed.
// Measures only while somebody listens. What NVIDIA's library says of its GPUs is one period old: it is not waited for.
// Owned by the agent; loop thread only.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "agent/gpus/reader.h"
#include "agent/service/host_load.h"
#include "base/loop.h"

namespace muster::agent {

inline constexpr std::chrono::milliseconds kLoadPeriod{2'000};

class LoadReport {
 public:
  using Send = std::function<void(v1::AgentMessage)>;

  // `nvidia` outlives it, nullptr: there are no such GPUs.
  struct NvidiaGpus {
    gpus::Reader* reader = nullptr;
    google::protobuf::RepeatedPtrField<v1::Gpu> in_hello{};
  };

  LoadReport(base::Loop& loop, HostLoadReader reader, Send send, std::chrono::milliseconds period = kLoadPeriod)
      : LoadReport(loop, std::move(reader), std::move(send), NvidiaGpus(), period) {}
  LoadReport(base::Loop& loop, HostLoadReader reader, Send send, NvidiaGpus nvidia,
             std::chrono::milliseconds period = kLoadPeriod);

  // A stream is there whose launcher wants it: it knows nothing yet.
  void begin();
  // Nobody listens.
  void end();

 private:
  void measure();
  void ask_nvidia();

  base::Loop& loop_;
  HostLoadReader reader_;
  const Send send_;
  const std::chrono::milliseconds period_;
  const NvidiaGpus nvidia_;
  std::vector<v1::GpuLoad> nvidia_loads_;  // of the last answer
  base::Timer timer_;
  std::optional<v1::HostLoad> told_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace muster::agent
