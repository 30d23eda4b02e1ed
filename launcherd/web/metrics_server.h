// MetricsServer serves /metrics, and nothing else, to programs of other users and on other machines. Each request needs
// the token. On an address that is not loopback it speaks TLS only.
//
// At most kMostConnections are open. A further one closes the oldest, so silent peers keep nobody out.
// Thread: created and destroyed on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/service/api_handler.h"
#include "launcherd/service/tcp_listener.h"
#include "launcherd/web/http_exchange.h"
#include "launcherd/web/http_tls.h"
#include "rendezvous/checked_listener.h"

namespace muster::launcherd::inline web {

struct MetricsPort {
  std::string address;      // "127.0.0.1:7481", "node1:7481"; empty means no port
  std::string certificate;  // PEM; both are empty for a port without TLS
  std::string key;
};

class MetricsServer {
 public:
  static constexpr std::size_t kMostConnections = 32;

  // True if the address needs TLS, because it is not on a loopback address. INVALID_ARGUMENT: it is no HOST:PORT.
  static base::Result<bool> needs_tls(const std::string& address);

  // `handler` is borrowed. `token` is not empty.
  static base::Result<std::unique_ptr<MetricsServer>> start(base::Loop& loop, const MetricsPort& port,
                                                            ApiHandler* handler, std::string token);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // Returns a URL like "https://node1:7481/metrics".
  const std::string& url() const { return url_; }
  // For all later connections. INVALID_ARGUMENT: the texts are no certificate and its key; the old ones stay.
  base::Status replace_certificate(const std::string& certificate, const std::string& key);

 private:
  MetricsServer(base::Loop& loop, TcpListener listening, std::string url, std::optional<HttpTls> tls,
                ApiHandler* handler, std::string token);
  void accept(base::UniqueFd peer);
  void serve(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange);

  base::Loop& loop_;
  const std::string url_;
  std::optional<HttpTls> tls_;
  ApiHandler* const handler_;
  const std::string token_;
  std::map<std::uint64_t, std::function<void()>> open_;  // functions that close each connection
  std::uint64_t next_ = 1;
  std::vector<std::unique_ptr<rendezvous::CheckedListener>> listeners_;
  base::Gate gate_;
};

}  // namespace muster::launcherd::web
