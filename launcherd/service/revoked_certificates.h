// Certificates that their authority has revoked, as a file of --client-crl lists them.
//
// Threads: any; it never changes. Another list is another object.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

struct X509_crl_st;  // OpenSSL's X509_CRL

namespace muster::launcherd::inline service {

class RevokedCertificates {
 public:
  // `crl_pem`: one or more X.509 lists (PEM), each signed by an authority in `ca_pem`. Empty: nothing is revoked. A
  // list whose next update is due still counts: what it revokes stays revoked. INVALID_ARGUMENT: a list cannot be read,
  // is of another authority, or tells only changes of an earlier one.
  static base::Result<RevokedCertificates> read(const std::string& crl_pem, const std::string& ca_pem);

  // `chain_pem`: one or more certificates. True if one of them is revoked.
  bool has_one_of(const std::string& chain_pem) const;

 private:
  std::vector<std::shared_ptr<X509_crl_st>> lists_;
};

}  // namespace muster::launcherd::service
