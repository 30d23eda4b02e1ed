#include "agent/service/load_report.h"

#include <utility>

#include "agent/service/nvidia_gpus.h"

namespace muster::agent {

LoadReport::LoadReport(base::Loop& loop, HostLoadReader reader, Send send, NvidiaGpus nvidia,
                       std::chrono::milliseconds period)
    : loop_(loop), reader_(std::move(reader)), send_(std::move(send)), period_(period), nvidia_(std::move(nvidia)) {}

void LoadReport::begin() {
  told_.reset();
  reader_.read();  // from here on counts
  nvidia_loads_.clear();
  ask_nvidia();
  timer_ = loop_.every(period_, [this] { measure(); });
}

void LoadReport::end() {
  timer_.cancel();
}

void LoadReport::measure() {
  v1::HostLoad load = reader_.read();
  load.mutable_gpus()->Add(nvidia_loads_.begin(), nvidia_loads_.end());
  ask_nvidia();
  if (told_ && !is_noticeable(*told_, load)) return;
  told_ = load;
  v1::AgentMessage message;
  *message.mutable_host_load() = std::move(load);
  send_(std::move(message));
}

// A library that fails tells nothing: its GPUs are left out.
void LoadReport::ask_nvidia() {
  if (nvidia_.reader == nullptr) return;
  nvidia_.reader->ask([this, alive = std::weak_ptr<char>(alive_)](const base::Result<gpus::GpuReport>& report) {
    if (!alive.lock()) return;
    nvidia_loads_.clear();
    if (report.ok()) nvidia_loads_ = loads_of(nvidia_.in_hello, *report);
  });
}

}  // namespace muster::agent
