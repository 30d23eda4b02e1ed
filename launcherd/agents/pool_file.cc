#include "launcherd/agents/pool_file.h"

#include <utility>

#include "base/file.h"
#include "base/ids.h"

namespace muster::launcherd::inline agents {

base::Status PoolFile::load() {
  const auto content = base::read_file(path_);
  if (content.status().code() == base::Code::kNotFound) {
    state_.set_id(base::JobId::random().str());
    return base::ok_status();
  }
  if (!content.ok()) return content.status();
  if (state_.ParseFromString(*content) && !state_.id().empty()) return base::ok_status();
  return base::data_loss(
      "{}: not a list of agents that launcherd wrote; remove it and start launcherd again (agents that "
      "still run then end by themselves)",
      path_);
}

base::Status PoolFile::save() {
  is_due_ = false;
  v1::PoolState state = state_;
  for (const auto& [key, host] : roster_) {
    if (host->number < 0) continue;
    v1::PoolAgent& agent = *state.add_agents();
    agent.set_user(host->target.user);
    agent.set_name(host->target.name);
    agent.set_port(host->target.port);
    agent.set_token(host->token);
    agent.set_number(host->hello_number);
    if (host->up.host_address) agent.set_host_address(host->up.host_address->str());
    for (const base::IpAddress& address : host->up.launcher_addresses) agent.add_launcher_addresses(address.str());
  }
  return base::write_file_durably(path_, state.SerializeAsString());
}

void PoolFile::save_soon(std::function<void(const base::Status&)> on_error) {
  if (std::exchange(is_due_, true)) return;
  loop_.post(gate_.wrap([this, on_error = std::move(on_error)] {
    if (const base::Status saved = save_if_due(); !saved.ok()) on_error(saved);
  }));
}

}  // namespace muster::launcherd::agents
