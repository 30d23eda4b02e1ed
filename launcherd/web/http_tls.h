// HttpTls holds the certificate with which an HTTP port proves itself. Clients need none.
// Thread: one at a time. Copies share the certificate.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace boost::asio::ssl {
class context;
}

namespace muster::launcherd::inline web {

class HttpTls {
 public:
  // Both are PEM; the certificate may have its chain. INVALID_ARGUMENT: they do not fit, or are no PEM.
  static base::Result<HttpTls> make(const std::string& certificate, const std::string& key);

  boost::asio::ssl::context& context() const { return *context_; }

 private:
  explicit HttpTls(std::shared_ptr<boost::asio::ssl::context> context) : context_(std::move(context)) {}

  std::shared_ptr<boost::asio::ssl::context> context_;
};

}  // namespace muster::launcherd::web
