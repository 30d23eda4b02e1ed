// The certificates between a launcher and its agents, and how others follow them in time.
//
// They live 30 days. When less than a third is left, a successor of the authority is made (offer()): from then on both
// are trusted and agents get a certificate of the successor, while the launcher still shows its old one, which
// everybody believes. When all agents have theirs, or a sixth is left, the successor takes over (change()).
//
// Plain values; the owner stores and hands them out. Secret.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/tls.h"
#include "proto/muster/v1/pool.pb.h"

namespace muster::launcherd::inline agents {

class LinkKeys {
 public:
  // `id`: of the state, as in the agents' certificate.
  static base::Result<LinkKeys> create(const std::string& id);
  // INVALID_ARGUMENT: they are none.
  static base::Result<LinkKeys> load(const v1::PoolState& state);
  void store(v1::PoolState& state) const;

  // Authorities that are trusted.
  std::string trusted_pem() const { return authority_.ca_pem() + next_pem(); }
  const base::TlsIdentity& own() const { return own_; }
  const base::TlsIdentity& agents() const { return agents_; }

  bool is_over(base::WallTime now) const { return now >= authority_.expires(); }
  bool is_offering() const { return next_.has_value(); }
  bool is_offer_due(base::WallTime now) const;
  bool is_change_due(base::WallTime now) const;  // of those that are offering

  // After an error nothing has changed.
  base::Status offer();
  base::Status change();

 private:
  LinkKeys(std::string id, base::CertificateAuthority authority)
      : id_(std::move(id)), authority_(std::move(authority)) {}
  std::string next_pem() const { return next_ ? next_->ca_pem() : std::string(); }

  std::string id_;
  base::CertificateAuthority authority_;
  std::optional<base::CertificateAuthority> next_;
  base::TlsIdentity own_;     // of authority_
  base::TlsIdentity agents_;  // of next_, if there is one
  std::string key_pem_;       // authority_'s
  std::string next_key_pem_;
};

}  // namespace muster::launcherd::agents
