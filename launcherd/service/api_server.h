// Serves launcher.proto: on Unix sockets, to processes of our own user, and by TCP, to who has a certificate of the
// right authority. On Unix sockets alone, the gRPC server behind them is made when the first one connects: a job that
// nobody asks about pays for a listening socket only. Beside it gRPC's health service and server reflection.
//
// Created, used and destroyed on the loop thread; gRPC's threads only translate and post.
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

// PEM texts. Peers need a certificate of `client_ca`; what they may do is in it (docs/operations.md).
struct TlsListener {
  std::string address;  // "host:port", "[v6]:port"; port 0 picks one
  std::string certificate;
  std::string key;
  std::string client_ca;
  std::string client_crl = {};  // certificates that client_ca has revoked; empty: none
};

struct ApiListeners {
  std::vector<ApiSocket> sockets;
  std::vector<TlsListener> tls;
  std::function<void(const std::string& line)> on_line = {};  // a want of descriptors; on the loop; may be empty
};

class ApiServer {
 public:
  // `handler` is borrowed. The error: an address cannot be listened at, or a certificate is none.
  static base::Result<std::unique_ptr<ApiServer>> start(base::Loop& loop, ApiListeners listeners, ApiHandler* handler);
  ~ApiServer();

  // Other certificates for the listeners by TCP, in their order (addresses stay). They hold for connections from now
  // on, lists of revoked ones for all calls from now on. INVALID_ARGUMENT: they are none, or another number; then all
  // stays as it is.
  base::Status replace_certificates(const std::vector<TlsListener>& tls);

  // Of the listeners by TCP, in their order.
  const std::vector<int>& tls_ports() const;

 private:
  struct State;
  explicit ApiServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster::launcherd::service
