// RevokedCertificates holds the certificates that their authority has revoked, from a file of --client-crl.
//
// Thread: any; the object never changes. To use a new list, read() another object.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

struct X509_crl_st;  // OpenSSL's X509_CRL

namespace muster::launcherd::inline service {

class RevokedCertificates {
 public:
  // `crl_pem` holds one or more X.509 lists (PEM), each signed by an authority in `ca_pem`. Empty means that no
  // certificate is revoked. A list stays valid after its next update is due, so that its certificates stay revoked.
  // INVALID_ARGUMENT: a list cannot be read, comes from another authority, or holds only changes to an earlier list.
  static base::Result<RevokedCertificates> read(const std::string& crl_pem, const std::string& ca_pem);

  // True if one of the certificates in `chain_pem` is revoked.
  bool has_one_of(const std::string& chain_pem) const;

 private:
  std::vector<std::shared_ptr<X509_crl_st>> lists_;
};

}  // namespace muster::launcherd::service
