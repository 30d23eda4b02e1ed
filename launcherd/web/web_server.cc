#include "launcherd/web/web_server.h"

#include <unistd.h>

#include <utility>

#include "base/net.h"
#include "base/strings.h"
#include "rendezvous/local_owner.h"

namespace muster::launcherd::inline web {
namespace {

constexpr int kBacklog = 64;

struct Endpoint {
  base::IpAddress address;
  std::uint16_t port;
};

base::Result<Endpoint> parse_endpoint(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : base::parse_decimal(text.substr(colon + 1), 65'535);
  if (port) {
    std::string host = text.substr(0, colon);
    if (host == "localhost") host = "127.0.0.1";
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    auto address = base::IpAddress::parse(host);
    if (address.ok() && address->is_loopback()) return Endpoint{*address, static_cast<std::uint16_t>(*port)};
  }
  return base::invalid_argument("'{}' is not a loopback address: write 127.0.0.1:7480; from other machines, use ssh -L",
                                base::printable(text));
}

void allow_all(const rendezvous::ConnectionEnds&, const std::function<void(bool)>& done) {
  done(true);
}

bool is_of_user(int socket_fd, uid_t uid) {
  const auto ends = rendezvous::connection_ends(socket_fd);
  if (!ends.ok()) return false;
  const auto owner = rendezvous::local_owner(*ends);
  return owner.ok() && *owner == uid;
}

void refuse_stranger(const HttpRequest&, const std::shared_ptr<HttpExchange>& exchange) {
  exchange->answer(
      403, "text/plain; charset=utf-8",
      fmt::format(
          "launcherd serves these pages only to processes of its user, uid {}, on its own machine. From another "
          "machine use ssh -L as that user; docs/operations.md explains how other programs get the metrics.\n",
          ::geteuid()));
}

}  // namespace

base::Status WebServer::check_address(const std::string& address) {
  return parse_endpoint(address).status();
}

base::Result<std::unique_ptr<WebServer>> WebServer::start(base::Loop& loop, const std::string& address,
                                                          ApiHandler* handler, const std::string& write_token) {
  MUSTER_ASSIGN_OR_RETURN(const Endpoint wanted, parse_endpoint(address));
  auto fd = base::listen_on(wanted.address, wanted.port, kBacklog);
  if (!fd.ok()) return fd.status().with_context("--http " + address);
  MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, base::local_port(fd->get()));
  const std::string url = "http://" + base::format_endpoint(wanted.address, port);
  return std::unique_ptr<WebServer>(new WebServer(loop, std::move(*fd), url, handler, write_token));
}

WebServer::WebServer(base::Loop& loop, base::UniqueFd listening, std::string url, ApiHandler* handler,
                     const std::string& write_token)
    : loop_(loop),
      url_(std::move(url)),
      pages_(handler, write_token),
      listener_(loop, std::move(listening), allow_all, [this](base::UniqueFd peer) { accept(std::move(peer)); },
                {.backlog = kBacklog}) {}

WebServer::~WebServer() {
  gate_.close();
  for (const auto& [number, close] : std::exchange(open_, {})) close();
}

void WebServer::accept(base::UniqueFd peer) {
  const bool is_ours = is_of_user(peer.get(), ::geteuid());
  const bool is_full = is_ours ? open_.size() - strangers_ >= kMostConnections : strangers_ >= kMostStrangers;
  if (is_full) return;  // closes the connection; a browser tries again
  if (!is_ours) ++strangers_;
  const std::uint64_t number = next_++;
  BodyLimit body_limit = [](const HttpRequest&) { return 0; };
  OnHttpRequest on_request = refuse_stranger;
  if (is_ours) {
    body_limit = [this](const HttpRequest& head) { return pages_.body_limit(head); };
    on_request = gate_.wrap([this](const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
      pages_.serve(request, exchange);
    });
  }
  const auto on_closed = gate_.wrap([this, number, is_ours] {
    open_.erase(number);
    if (!is_ours) --strangers_;
  });
  open_.emplace(number, nullptr);
  open_[number] =
      serve_http(loop_, std::move(peer), std::nullopt, std::move(body_limit), std::move(on_request), on_closed);
}

}  // namespace muster::launcherd::web
