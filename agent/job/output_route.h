// How the output of a job's ranks gets to the launcher: by what connection, and with what key.
//
// The returned functions run on the output sender's helper thread and own what they use.
#pragma once

#include <cstdint>
#include <string>

#include "agent/io/output_sender.h"
#include "base/net.h"
#include "base/unique_fd.h"

namespace muster::agent::inline job {

struct OutputKey {
  std::string job_id;
  int agent_index = 0;
  std::string token;
};

// To `port` at the address by which the launcher was reached. `first`, if valid, is a connection that is there already.
OutputSenderConfig output_by_dial(const OutputKey& key, const base::IpAddress& address, std::uint16_t port,
                                  base::UniqueFd first);

// Over the ssh channel: `stream` is the only connection that there will ever be.
OutputSenderConfig output_by_channel(const OutputKey& key, base::UniqueFd stream);

}  // namespace muster::agent::job
