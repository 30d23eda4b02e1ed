#include "launcherd/web/http_tls.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>

#include <utility>

namespace muster::launcherd::inline web {

namespace ssl = boost::asio::ssl;

base::Result<HttpTls> HttpTls::make(const std::string& certificate, const std::string& key) {
  boost::system::error_code failed;
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  context->set_options(
      ssl::context::no_sslv2 | ssl::context::no_sslv3 | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1, failed);
  if (!failed) context->use_certificate_chain(boost::asio::buffer(certificate), failed);
  if (failed) return base::invalid_argument("no certificate in PEM: {}", failed.message());
  context->use_private_key(boost::asio::buffer(key), ssl::context::pem, failed);
  if (failed) return base::invalid_argument("no private key in PEM of this certificate: {}", failed.message());
  return HttpTls(std::move(context));
}

}  // namespace muster::launcherd::web
