// WebServer is launcherd's HTTP port on a loopback address. It serves only processes of its own user. Before it reads a
// byte, it asks the kernel who owns the peer's socket. Other users get 403 with the reason. At most kMostConnections
// of our user and kMostStrangers of other users are open.
// Thread: created and destroyed on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/service/api_handler.h"
#include "launcherd/web/web_pages.h"
#include "rendezvous/checked_listener.h"

namespace muster::launcherd::inline web {

class WebServer {
 public:
  static constexpr std::size_t kMostConnections = 128;
  static constexpr std::size_t kMostStrangers = 8;

  // INVALID_ARGUMENT: `address` is not a loopback address and a port.
  static base::Status check_address(const std::string& address);

  // `address` is like "127.0.0.1:7480" or "[::1]:0"; port 0 means any free port. `handler` is borrowed.
  // `write_token` allows actions to those who send it; empty means that no action is served.
  // INVALID_ARGUMENT: `address` is not a loopback address.
  static base::Result<std::unique_ptr<WebServer>> start(base::Loop& loop, const std::string& address,
                                                        ApiHandler* handler, const std::string& write_token = {});
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  // Returns a URL like "http://127.0.0.1:7480".
  const std::string& url() const { return url_; }

 private:
  WebServer(base::Loop& loop, base::UniqueFd listening, std::string url, ApiHandler* handler,
            const std::string& write_token);
  void accept(base::UniqueFd peer);

  base::Loop& loop_;
  const std::string url_;
  WebPages pages_;
  std::map<std::uint64_t, std::function<void()>> open_;  // functions that close each connection
  std::size_t strangers_ = 0;                            // connections of other users
  std::uint64_t next_ = 1;
  rendezvous::CheckedListener listener_;
  base::Gate gate_;
};

}  // namespace muster::launcherd::web
