#include "launcherd/agents/pool_keys.h"

#include <algorithm>
#include <chrono>

namespace muster::launcherd::inline agents {
namespace {

constexpr std::chrono::minutes kKeysPause{1};

}  // namespace

void PoolKeys::renew(base::MonotonicTime now) {
  LinkKeys& keys = parts_.file.keys();
  const base::WallTime wall = parts_.clock.wall();
  const bool is_due = keys.is_offer_due(wall) || keys.is_change_due(wall) || (keys.is_offering() && all_have_next());
  if (!is_due || parts_.is_ending || now < again_) return;
  const LinkKeys before = keys;
  const bool is_offer = !keys.is_offering();
  base::Status status = is_offer ? keys.offer() : keys.change();
  // Save before agents get the keys, because the next launcherd must trust these keys, too.
  if (status.ok()) status = parts_.file.save();
  if (!status.ok()) {
    keys = before;
    again_ = now + kKeysPause;
    parts_.note(fmt::format("the certificates of agents are not renewed yet: {}", status.message()));
    return;
  }
  parts_.control->set_keys(keys.trusted_pem(), keys.own());
  parts_.note(is_offer ? "the certificates of agents are being renewed" : "the certificates of agents are renewed");
  for (const auto& [key, host] : parts_.roster) {
    if (is_offer) host->has_next_keys = false;
    if (is_offer && has_joined(host->phase)) offer(*host);
    parts_.report_change(*host);
  }
}

// Considers only hosts that have an agent, or will have one soon.
bool PoolKeys::all_have_next() const {
  return std::ranges::all_of(parts_.roster,
                             [](const auto& entry) { return entry.second->number < 0 || entry.second->has_next_keys; });
}

void PoolKeys::offer(PoolHost& host) {
  const LinkKeys& keys = parts_.file.keys();
  if (!keys.is_offering() || host.has_next_keys) return;
  v1::LauncherMessage message;
  message.mutable_renewal()->set_ca_pem(keys.trusted_pem());
  message.mutable_renewal()->set_certificate_pem(keys.agents().cert_pem);
  message.mutable_renewal()->set_key_pem(keys.agents().key_pem);
  parts_.control->send(host.number, std::move(message));
}

}  // namespace muster::launcherd::agents
