// TLS credentials of a gRPC server that may change while it runs. Each handshake uses the credentials that are current
// at its start. gRPC's C++ interface cannot change certificates that exist only in memory. So this class adapts gRPC's
// C interface (grpc_security.h, "certificate config fetcher"). No other file uses that interface.
//
// Owner: the object must outlive the server.
// Thread: change() may be called from any thread.
#pragma once

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <mutex>
#include <string>

#include "base/tls.h"

namespace muster::launcherd::inline service {

class ChangingCredentials final : public grpc::ServerCredentials {
 public:
  // Peers must have a certificate from one of the authorities in `ca_pem`.
  ChangingCredentials(std::string ca_pem, base::TlsIdentity own);
  ~ChangingCredentials() override;
  ChangingCredentials(const ChangingCredentials&) = delete;
  ChangingCredentials& operator=(const ChangingCredentials&) = delete;

  void change(std::string ca_pem, base::TlsIdentity own);

  // No effect, because this server authenticates calls by certificate and token.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override;
  static grpc_ssl_certificate_config_reload_status fetch(void* self, grpc_ssl_server_certificate_config** config);

  std::mutex mutex_;
  std::string ca_pem_;  // guarded by mutex_, like the next two members
  base::TlsIdentity own_;
  bool is_changed_ = true;  // true if the credentials changed since gRPC last fetched them
  grpc_server_credentials* const credentials_;
};

}  // namespace muster::launcherd::service
