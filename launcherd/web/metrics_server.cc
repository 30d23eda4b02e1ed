#include "launcherd/web/metrics_server.h"

#include <utility>

#include "base/hmac.h"
#include "base/net.h"
#include "base/strings.h"
#include "launcherd/web/http_error.h"
#include "launcherd/web/metrics_page.h"

namespace muster::launcherd::inline web {
namespace {

constexpr int kMetricsBacklog = 32;

void accept_all(const rendezvous::ConnectionEnds&, const std::function<void(bool)>& done) {
  done(true);
}

}  // namespace

base::Result<bool> MetricsServer::needs_tls(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : base::parse_decimal(address.substr(colon + 1), 65'535);
  std::string host = address.substr(0, colon);
  if (!port || host.empty()) return base::invalid_argument("must be HOST:PORT, not '{}'", base::printable(address));
  if (host == "localhost") return false;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const auto parsed = base::IpAddress::parse(host);
  return !parsed.ok() || !parsed->is_loopback();
}

base::Result<std::unique_ptr<MetricsServer>> MetricsServer::start(base::Loop& loop, const MetricsPort& port,
                                                                  ApiHandler* handler, std::string token) {
  MUSTER_ASSIGN_OR_RETURN(const bool is_remote, needs_tls(port.address));
  if (is_remote && port.certificate.empty()) {
    return base::invalid_argument(
        "--metrics {} needs --tls-cert and --tls-key: the token must not cross a network in "
        "the clear",
        base::printable(port.address));
  }
  std::optional<HttpTls> tls;
  if (!port.certificate.empty()) {
    MUSTER_ASSIGN_OR_RETURN(tls, HttpTls::make(port.certificate, port.key));
  }
  auto listening = listen_tcp(port.address);
  if (!listening.ok()) return listening.status().with_context("--metrics " + port.address);
  const std::string url = fmt::format("{}://{}:{}/metrics", tls ? "https" : "http",
                                      port.address.substr(0, port.address.rfind(':')), listening->port);
  return std::unique_ptr<MetricsServer>(
      new MetricsServer(loop, *std::move(listening), url, std::move(tls), handler, std::move(token)));
}

MetricsServer::MetricsServer(base::Loop& loop, TcpListener listening, std::string url, std::optional<HttpTls> tls,
                             ApiHandler* handler, std::string token)
    : loop_(loop), url_(std::move(url)), tls_(std::move(tls)), handler_(handler), token_(std::move(token)) {
  for (base::UniqueFd& fd : listening.sockets) {
    listeners_.push_back(std::make_unique<rendezvous::CheckedListener>(
        loop, std::move(fd), accept_all, [this](base::UniqueFd peer) { accept(std::move(peer)); },
        rendezvous::CheckedListenerLimits{.backlog = kMetricsBacklog}));
  }
}

MetricsServer::~MetricsServer() {
  gate_.close();
  for (const auto& [number, close] : std::exchange(open_, {})) close();
}

base::Status MetricsServer::replace_certificate(const std::string& certificate, const std::string& key) {
  if (!tls_) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(tls_, HttpTls::make(certificate, key));
  return base::ok_status();
}

void MetricsServer::accept(base::UniqueFd peer) {
  if (open_.size() >= kMostConnections) {
    const std::function<void()> close_oldest = open_.begin()->second;
    close_oldest();
  }
  const std::uint64_t number = next_++;
  const auto on_request = gate_.wrap(
      [this](const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) { serve(request, exchange); });
  const auto on_closed = gate_.wrap([this, number] { open_.erase(number); });
  const BodyLimit no_body = [](const HttpRequest&) { return 0; };
  open_.emplace(number, nullptr);
  open_[number] = serve_http(loop_, std::move(peer), tls_, no_body, on_request, on_closed);
}

void MetricsServer::serve(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
  if (request.token.empty() || !base::is_equal_in_constant_time(request.token, token_)) {
    return refuse(exchange, base::unauthenticated("this port needs the header 'Authorization: Bearer TOKEN' with the "
                                                  "token in metrics-token in launcherd's state directory"));
  }
  if (request.target != "/metrics") return refuse(exchange, base::not_found("this port serves /metrics only"));
  if (request.method != "GET") {
    exchange->add_header("Allow", "GET");
    return refuse_as(exchange, 405, base::unimplemented("this port serves GET only"));
  }
  serve_metrics(handler_, exchange);
}

}  // namespace muster::launcherd::web
