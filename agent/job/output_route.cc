#include "agent/job/output_route.h"

#include <memory>
#include <utility>

#include "proto/peer_names.h"

namespace muster::agent::inline job {
namespace {

OutputSenderConfig with_key(const OutputKey& key) {
  OutputSenderConfig config;
  config.key = {proto::output_identity(key.job_id, key.agent_index), key.token};
  config.agent_index = key.agent_index;
  return config;
}

}  // namespace

OutputSenderConfig output_by_route(const OutputKey& key, std::shared_ptr<LauncherRoute> route, std::uint16_t port,
                                   base::UniqueFd first) {
  OutputSenderConfig config = with_key(key);
  auto there = std::make_shared<base::UniqueFd>(std::move(first));
  config.connect = [there, route = std::move(route), port](base::MonotonicTime deadline,
                                                           int cancel_fd) -> base::Result<base::UniqueFd> {
    if (there->valid()) return std::move(*there);
    return route->connect_blocking(proto::ViaService::kOutput, port, deadline, cancel_fd);
  };
  return config;
}

OutputSenderConfig output_by_channel(const OutputKey& key, base::UniqueFd stream) {
  OutputSenderConfig config = with_key(key);
  auto there = std::make_shared<base::UniqueFd>(std::move(stream));
  config.connect = [there](base::MonotonicTime, int) -> base::Result<base::UniqueFd> {
    if (there->valid()) return std::move(*there);
    return base::failed_precondition("the ssh channel was closed");
  };
  return config;
}

}  // namespace muster::agent::job
