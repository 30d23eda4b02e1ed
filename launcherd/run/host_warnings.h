// Warnings that many hosts may cause at once, for example when a switch fails. The first two with equal words are shown
// as they come. Further ones within kGatherTime are one line with the hosts as ranges.
//
// Owner: JobRunner's core.
// Thread: loop thread only.
//
//   HostWarnings warnings(loop, [&](const std::string& line) { observer->on_warning(line); });
//   warnings.add("n1", "n1 does not answer; waiting up to 15 s for it");
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/loop.h"
#include "model/host_group.h"

namespace muster::launcherd::inline run {

class HostWarnings {
 public:
  static constexpr std::chrono::milliseconds kGatherTime{500};

  HostWarnings(base::Loop& loop, std::function<void(const std::string& line)> show)
      : loop_(loop), show_(std::move(show)) {}

  void add(const std::string& host, const std::string& line);
  // Shows what was gathered. Call it before the job's last lines.
  void flush();

 private:
  base::Loop& loop_;
  const std::function<void(const std::string& line)> show_;
  std::unordered_map<std::string, std::size_t> seen_;  // lines since the timer began, by text without the host
  std::vector<model::HostText> gathered_;
  base::Timer timer_;
};

}  // namespace muster::launcherd::run
