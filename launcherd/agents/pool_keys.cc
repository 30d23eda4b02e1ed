// The part of HostPool's core that renews the certificates of the pool and its agents while both run (link_keys.h).
#include <algorithm>
#include <utility>

#include "launcherd/agents/pool_core.h"

namespace muster::launcherd::inline agents {
namespace {

constexpr std::chrono::minutes kKeysPause{1};

}  // namespace

void HostPool::Core::renew_keys(base::MonotonicTime now) {
  const base::WallTime wall = clock_.wall();
  const bool is_due =
      keys_->is_offer_due(wall) || keys_->is_change_due(wall) || (keys_->is_offering() && all_have_next());
  if (!is_due || lets_go_ || now < keys_again_) return;
  const LinkKeys before = *keys_;
  const bool is_offer = !keys_->is_offering();
  base::Status status = is_offer ? keys_->offer() : keys_->change();
  if (status.ok()) status = save_state();  // before agents get them, because the next launcherd must trust them too
  if (!status.ok()) {
    *keys_ = before;
    keys_again_ = now + kKeysPause;
    note(fmt::format("the certificates of agents are not renewed yet: {}", status.message()));
    return;
  }
  control_->set_keys(keys_->trusted_pem(), keys_->own());
  note(is_offer ? "the certificates of agents are being renewed" : "the certificates of agents are renewed");
  for (const auto& [key, host] : hosts_) {
    if (is_offer) host->has_next_keys = false;
    if (is_offer && host->phase == PoolHost::Phase::kUp) offer_keys(*host);
    changed(*host);
  }
}

// Considers only hosts that have an agent, or will have one soon.
bool HostPool::Core::all_have_next() const {
  return std::ranges::all_of(hosts_,
                             [](const auto& entry) { return entry.second->number < 0 || entry.second->has_next_keys; });
}

void HostPool::Core::offer_keys(PoolHost& host) {
  if (!keys_->is_offering() || host.has_next_keys) return;
  v1::LauncherMessage message;
  message.mutable_renewal()->set_ca_pem(keys_->trusted_pem());
  message.mutable_renewal()->set_certificate_pem(keys_->agents().cert_pem);
  message.mutable_renewal()->set_key_pem(keys_->agents().key_pem);
  control_->send(host.number, std::move(message));
}

}  // namespace muster::launcherd::agents
