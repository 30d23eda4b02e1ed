// A certificate authority in memory, for tests of the gRPC API with TLS. Its certificates are valid from now - 2 days
// to now + 30 days.
//
// Thread: any; read-only after creation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tls.h"

struct x509_st;
struct evp_pkey_st;

namespace muster::testing_support {

class CertificateAuthority {
 public:
  static base::Result<CertificateAuthority> create();  // ECDSA P-256, self-signed

  // Issues a leaf certificate for client and server use. `alternative_names` are "URI:muster://…", "DNS:launcherd" or
  // "IP:10.0.0.1". INVALID_ARGUMENT for other kinds.
  base::Result<base::TlsIdentity> issue(const std::string& common_name,
                                        const std::vector<std::string>& alternative_names) const;

  const std::string& ca_pem() const { return pem_; }

 private:
  CertificateAuthority(std::shared_ptr<x509_st> certificate, std::shared_ptr<evp_pkey_st> key, std::string pem);

  std::shared_ptr<x509_st> certificate_;
  std::shared_ptr<evp_pkey_st> key_;
  std::string pem_;
};

}  // namespace muster::testing_support
