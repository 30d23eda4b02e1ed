#include "launcherd/service/changing_credentials.h"

#include <grpc/grpc.h>

#include <utility>

namespace muster::launcherd::inline service {

ChangingCredentials::ChangingCredentials(std::string ca_pem, base::TlsIdentity own)
    : ca_pem_(std::move(ca_pem)),
      own_(std::move(own)),
      credentials_(grpc_ssl_server_credentials_create_with_options(
          grpc_ssl_server_credentials_create_options_using_config_fetcher(
              GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, &ChangingCredentials::fetch, this))) {}

ChangingCredentials::~ChangingCredentials() {
  grpc_server_credentials_release(credentials_);
}

void ChangingCredentials::change(std::string ca_pem, base::TlsIdentity own) {
  const std::lock_guard lock(mutex_);
  ca_pem_ = std::move(ca_pem);
  own_ = std::move(own);
  is_changed_ = true;
}

int ChangingCredentials::AddPortToServer(const std::string& address, grpc_server* server) {
  return grpc_server_add_http2_port(server, address.c_str(), credentials_);
}

// Runs on a gRPC thread before each handshake.
grpc_ssl_certificate_config_reload_status ChangingCredentials::fetch(void* self,
                                                                     grpc_ssl_server_certificate_config** config) {
  auto& credentials = *static_cast<ChangingCredentials*>(self);
  const std::lock_guard lock(credentials.mutex_);
  if (!std::exchange(credentials.is_changed_, false)) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair pair{credentials.own_.key_pem.c_str(), credentials.own_.cert_pem.c_str()};
  *config = grpc_ssl_server_certificate_config_create(credentials.ca_pem_.c_str(), &pair, 1);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

}  // namespace muster::launcherd::service
