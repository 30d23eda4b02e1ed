#include "agent/service/load_report.h"

#include <utility>

namespace muster::agent {

LoadReport::LoadReport(base::Loop& loop, HostLoadReader reader, Send send, std::chrono::milliseconds period)
    : loop_(loop), reader_(std::move(reader)), send_(std::move(send)), period_(period) {}

void LoadReport::begin() {
  told_.reset();
  reader_.read();  // from here on counts
  timer_ = loop_.every(period_, [this] { measure(); });
}

void LoadReport::end() {
  timer_.cancel();
}

void LoadReport::measure() {
  v1::HostLoad load = reader_.read();
  if (told_ && !is_noticeable(*told_, load)) return;
  told_ = load;
  v1::AgentMessage message;
  *message.mutable_host_load() = std::move(load);
  send_(std::move(message));
}

}  // namespace muster::agent
