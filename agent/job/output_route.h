// Makes the route by which the output of a job's ranks reaches the launcher: its connections and its key.
//
// Thread: the returned functions run on the output sender's helper thread. They own what they use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/io/output_sender.h"
#include "agent/link/launcher_route.h"
#include "base/unique_fd.h"

namespace muster::agent::inline job {

struct OutputKey {
  std::string job_id;
  int agent_index = 0;
  std::string token;
};

// Connects to the launcher's output port `port`. If `first` is valid, it is an open connection, and is used before any
// other.
OutputSenderConfig output_by_route(const OutputKey& key, std::shared_ptr<LauncherRoute> route, std::uint16_t port,
                                   base::UniqueFd first);

// Sends over the ssh channel. `stream` is the only possible connection.
OutputSenderConfig output_by_channel(const OutputKey& key, base::UniqueFd stream);

}  // namespace muster::agent::job
