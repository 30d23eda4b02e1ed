#include "launcherd/agents/link_keys.h"

#include <utility>

#include "proto/peer_names.h"

namespace muster::launcherd::inline agents {
namespace {

constexpr std::chrono::hours kOfferBefore{24 * 10};  // a third of the authority's 30 days
constexpr std::chrono::hours kChangeBefore{24 * 5};

base::Result<base::TlsIdentity> issue_own(const base::CertificateAuthority& authority) {
  return authority.issue("launcherd", {std::string(proto::kLauncherName)});
}

base::Result<base::TlsIdentity> issue_agents(const base::CertificateAuthority& authority, const std::string& id) {
  return authority.issue("agent", {"URI:" + proto::agent_uri(id)});
}

}  // namespace

base::Result<LinkKeys> LinkKeys::create(const std::string& id) {
  MUSTER_ASSIGN_OR_RETURN(auto authority, base::CertificateAuthority::create());
  LinkKeys keys(id, std::move(authority));
  MUSTER_ASSIGN_OR_RETURN(keys.key_pem_, keys.authority_.key_pem());
  MUSTER_ASSIGN_OR_RETURN(keys.own_, issue_own(keys.authority_));
  MUSTER_ASSIGN_OR_RETURN(keys.agents_, issue_agents(keys.authority_, id));
  return keys;
}

base::Result<LinkKeys> LinkKeys::load(const v1::PoolState& state) {
  MUSTER_ASSIGN_OR_RETURN(auto authority, base::CertificateAuthority::load(state.ca_pem(), state.ca_key_pem()));
  LinkKeys keys(state.id(), std::move(authority));
  keys.key_pem_ = state.ca_key_pem();
  keys.own_ = {state.certificate_pem(), state.key_pem()};
  keys.agents_ = {state.agent_certificate_pem(), state.agent_key_pem()};
  if (!state.next_ca_pem().empty()) {
    MUSTER_ASSIGN_OR_RETURN(keys.next_, base::CertificateAuthority::load(state.next_ca_pem(), state.next_ca_key_pem()));
    keys.next_key_pem_ = state.next_ca_key_pem();
  }
  return keys;
}

void LinkKeys::store(v1::PoolState& state) const {
  state.set_ca_pem(authority_.ca_pem());
  state.set_ca_key_pem(key_pem_);
  state.set_certificate_pem(own_.cert_pem);
  state.set_key_pem(own_.key_pem);
  state.set_agent_certificate_pem(agents_.cert_pem);
  state.set_agent_key_pem(agents_.key_pem);
  state.set_next_ca_pem(next_pem());
  state.set_next_ca_key_pem(next_key_pem_);
}

bool LinkKeys::is_offer_due(base::WallTime now) const {
  return !is_offering() && authority_.expires() - now < kOfferBefore;
}

bool LinkKeys::is_change_due(base::WallTime now) const {
  return is_offering() && authority_.expires() - now < kChangeBefore;
}

base::Status LinkKeys::offer() {
  MUSTER_ASSIGN_OR_RETURN(auto next, base::CertificateAuthority::create());
  MUSTER_ASSIGN_OR_RETURN(auto key, next.key_pem());
  MUSTER_ASSIGN_OR_RETURN(agents_, issue_agents(next, id_));
  next_ = std::move(next);
  next_key_pem_ = std::move(key);
  return base::ok_status();
}

base::Status LinkKeys::change() {
  MUSTER_CHECK(next_.has_value());
  MUSTER_ASSIGN_OR_RETURN(own_, issue_own(*next_));
  authority_ = *std::exchange(next_, std::nullopt);
  key_pem_ = std::exchange(next_key_pem_, {});
  return base::ok_status();
}

}  // namespace muster::launcherd::agents
