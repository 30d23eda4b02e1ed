// launcherd's HTTP port: on a loopback address, for connections of our own user alone. The kernel says whose socket the
// other end is, before a byte is read. Any other user gets 403 with the reason, whatever the request. At most
// kMostConnections of our user are open, and kMostStrangers of others. Created and destroyed on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

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

  // `address`: "127.0.0.1:7480", "[::1]:0"; port 0 picks one. INVALID_ARGUMENT: it is not of loopback. `handler` is
  // borrowed.
  static base::Result<std::unique_ptr<WebServer>> start(base::Loop& loop, const std::string& address,
                                                        ApiHandler* handler);
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  // "http://127.0.0.1:7480".
  const std::string& url() const { return url_; }

 private:
  WebServer(base::Loop& loop, base::UniqueFd listening, std::string url, ApiHandler* handler);
  void accept(base::UniqueFd peer);

  base::Loop& loop_;
  const std::string url_;
  WebPages pages_;
  std::map<std::uint64_t, std::function<void()>> open_;  // how to close each connection
  std::size_t strangers_ = 0;                            // connections of other users
  std::uint64_t next_ = 1;
  std::shared_ptr<WebServer*> self_;  // gone when we are
  rendezvous::CheckedListener listener_;
};

}  // namespace muster::launcherd::web
