// The certificates between a launcher and its agents, and their renewal.
//
// A certificate authority lives 30 days. When less than a third of that time is left, offer() makes a successor. From
// then on both authorities are trusted, and agents get a certificate of the successor. The launcher still shows its old
// certificate, which all agents trust. When all agents have a new certificate, or only a sixth of the time is left,
// change() makes the successor the authority.
//
// Owner: the pool (HostPool::Core), which stores and distributes the certificates. They contain secret keys.
// Thread: none of its own; plain values.
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
  // `id` is the id of the pool's state; it appears in the agents' certificate.
  static base::Result<LinkKeys> create(const std::string& id);
  // INVALID_ARGUMENT: the state holds no valid keys.
  static base::Result<LinkKeys> load(const v1::PoolState& state);
  void store(v1::PoolState& state) const;

  // Returns the certificates of the trusted authorities.
  std::string trusted_pem() const { return authority_.ca_pem() + next_pem(); }
  const base::TlsIdentity& own() const { return own_; }
  const base::TlsIdentity& agents() const { return agents_; }

  bool is_over(base::WallTime now) const { return now >= authority_.expires(); }
  bool is_offering() const { return next_.has_value(); }
  bool is_offer_due(base::WallTime now) const;
  bool is_change_due(base::WallTime now) const;  // call it only while is_offering()

  // If offer() or change() returns an error, nothing has changed.
  base::Status offer();
  base::Status change();

 private:
  LinkKeys(std::string id, base::CertificateAuthority authority)
      : id_(std::move(id)), authority_(std::move(authority)) {}
  std::string next_pem() const { return next_ ? next_->ca_pem() : std::string(); }

  std::string id_;
  base::CertificateAuthority authority_;
  std::optional<base::CertificateAuthority> next_;
  base::TlsIdentity own_;     // issued by authority_
  base::TlsIdentity agents_;  // issued by next_ if it exists, else by authority_
  std::string key_pem_;       // key of authority_
  std::string next_key_pem_;
};

}  // namespace muster::launcherd::agents
