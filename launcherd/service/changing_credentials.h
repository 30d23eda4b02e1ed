// TLS credentials of a gRPC server that may change while it runs: each handshake uses those of its moment. gRPC's C++
// interface has none for certificates that are in memory alone; this adapts its C interface (grpc_security.h,
// "certificate config fetcher"), and is the only file that does.
//
// Must outlive the server. change() may be called from any thread.
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
  // Peers must have a certificate of one of the authorities in `ca_pem`.
  ChangingCredentials(std::string ca_pem, base::TlsIdentity own);
  ~ChangingCredentials() override;
  ChangingCredentials(const ChangingCredentials&) = delete;
  ChangingCredentials& operator=(const ChangingCredentials&) = delete;

  void change(std::string ca_pem, base::TlsIdentity own);

  // Not for this server: its calls are authenticated by certificate and token.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override;
  static grpc_ssl_certificate_config_reload_status fetch(void* self, grpc_ssl_server_certificate_config** config);

  std::mutex mutex_;
  std::string ca_pem_;  // guarded by mutex_, as are the next two
  base::TlsIdentity own_;
  bool is_changed_ = true;  // since gRPC asked last
  grpc_server_credentials* const credentials_;
};

}  // namespace muster::launcherd::service
