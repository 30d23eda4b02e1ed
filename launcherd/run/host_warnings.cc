#include "launcherd/run/host_warnings.h"

#include <utility>

namespace muster::launcherd::inline run {

void HostWarnings::add(const std::string& host, const std::string& line) {
  if (!timer_.armed()) timer_ = loop_.after(kGatherTime, [this] { flush(); });
  if (++seen_[model::without_host(line, host)] < model::kFewestGrouped) {
    show_(line);
  } else {
    gathered_.push_back({host, line});
  }
}

void HostWarnings::flush() {
  timer_.cancel();
  seen_.clear();
  for (const std::string& line : model::group_host_texts(std::exchange(gathered_, {}))) show_(line);
}

}  // namespace muster::launcherd::run
