// ApiServer serves launcher.proto, gRPC's health service and server reflection. It serves processes of its own user on
// Unix sockets, and holders of an accepted certificate by TCP. With Unix sockets only, it creates the gRPC server when
// the first client connects. So a job without clients costs only a listening socket.
//
// Thread: created, used and destroyed on the loop thread. gRPC's threads only translate and post.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "launcherd/service/api_handler.h"
#include "launcherd/service/api_socket.h"

namespace muster::launcherd::inline service {

// All fields except `address` are PEM texts. Peers need a certificate of `client_ca`. That certificate also names the
// peer's roles (docs/operations.md).
struct TlsListener {
  std::string address;  // "host:port", "[v6]:port"; port 0 picks one
  std::string certificate;
  std::string key;
  std::string client_ca;
  std::string client_crl = {};  // certificates that client_ca has revoked; empty means none
};

struct ApiListeners {
  std::vector<ApiSocket> sockets;
  std::vector<TlsListener> tls;
  // Receives a line if descriptors run out. Runs on the loop. May be empty.
  std::function<void(const std::string& line)> on_line = {};
};

class ApiServer {
 public:
  // `handler` is borrowed. Fails if it cannot listen at an address, or if a certificate is invalid.
  static base::Result<std::unique_ptr<ApiServer>> start(base::Loop& loop, ApiListeners listeners, ApiHandler* handler);
  ~ApiServer();

  // Replaces the certificates of the TCP listeners, in the order of the listeners. Addresses stay. New certificates
  // apply to later connections, new revocation lists to all later calls.
  // INVALID_ARGUMENT: a certificate is invalid, or their number differs. Nothing changes then.
  base::Status replace_certificates(const std::vector<TlsListener>& tls);

  // Returns the ports of the TCP listeners, in their order.
  const std::vector<int>& tls_ports() const;

 private:
  struct State;
  explicit ApiServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster::launcherd::service
