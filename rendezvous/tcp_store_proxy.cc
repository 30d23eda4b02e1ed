// The whole of TcpStoreProxy.
// Read add() first, then receive() and watch(), which go to the store, and send(), which goes to the client.
#include "rendezvous/tcp_store_proxy.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/net.h"

namespace muster::rendezvous {

TcpStoreProxy::TcpStoreProxy(base::Loop& loop, base::UniqueFd listening, ByteStreams& streams,
                             TcpStoreProxyConfig config)
    : loop_(loop), streams_(streams), config_(std::move(config)) {
  listener_ = std::make_unique<CheckedListener>(
      loop_, std::move(listening),
      [this](const ConnectionEnds& ends, std::function<void(bool)> done) { check(ends, std::move(done)); },
      [this](base::UniqueFd fd) { add(std::move(fd)); }, config_.listener);
}

TcpStoreProxy::~TcpStoreProxy() {
  gate_.close();
  for (const auto& [id, client] : clients_) {
    if (!client.is_stream_closed) streams_.close(client.stream);
  }
}

void TcpStoreProxy::check(const ConnectionEnds& ends, std::function<void(bool)> done) {
  config_.owner_check(ends, gate_.wrap([this, ends, done = std::move(done)](bool is_allowed) {
    if (!is_allowed && config_.on_problem) {
      config_.on_problem(
          base::permission_denied("TCPStore: connection from {} closed: its owner is not the job's user or is unknown",
                                  base::format_endpoint(ends.peer, ends.peer_port)));
    }
    done(is_allowed);
  }));
}

void TcpStoreProxy::add(base::UniqueFd fd) {
  const int on = 1;
  (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // without it, replies only come later
  const ClientId id = next_++;
  Client& client = clients_[id];
  if (const auto ends = connection_ends(fd.get()); ends.ok()) client.port = ends->peer_port;
  client.fd = std::move(fd);
  client.stream = streams_.open(config_.client, {.on_bytes = gate_.wrap([this, id](std::string_view bytes) {
                                                   const auto found = clients_.find(id);
                                                   if (found == clients_.end()) return;
                                                   found->second.out.append(bytes);
                                                   send(id);
                                                 }),
                                                 .on_credit = gate_.wrap([this, id](std::size_t size) {
                                                   const auto found = clients_.find(id);
                                                   if (found == clients_.end()) return;
                                                   found->second.window += size;
                                                   watch(id);
                                                 }),
                                                 .on_closed = gate_.wrap([this, id] {
                                                   const auto found = clients_.find(id);
                                                   if (found == clients_.end()) return;
                                                   found->second.is_stream_closed = true;
                                                   send(id);
                                                 })});
  watch(id);
}

bool TcpStoreProxy::ask_wait(const ConnectionEnds& ends, const ByteStreams::Answer& done) {
  if (!ends.peer.is_loopback()) return false;
  for (const auto& [id, client] : clients_) {
    if (client.port != ends.peer_port || client.is_stream_closed) continue;
    streams_.ask_wait(client.stream, done);
    return true;
  }
  return false;
}

// Reads from the client as long as the window is open.
void TcpStoreProxy::watch(ClientId id) {
  Client& client = clients_.at(id);
  if (client.window == 0 || client.is_stream_closed) {
    client.readable.cancel();
  } else if (!client.readable.armed()) {
    client.readable = loop_.on_readable(client.fd.get(), [this, id] { receive(id); });
  }
}

void TcpStoreProxy::receive(ClientId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  Client& client = found->second;
  if (client.window == 0 || client.is_stream_closed) return;
  const ssize_t size = ::recv(client.fd.get(), buffer_.data(), std::min(client.window, buffer_.size()), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    streams_.close(client.stream);
    client.is_stream_closed = true;
    return end_soon(id);
  }
  client.window -= static_cast<std::size_t>(size);
  const ByteStreams::Id stream = client.stream;
  watch(id);
  streams_.send(stream, {buffer_.data(), static_cast<std::size_t>(size)});
}

void TcpStoreProxy::send(ClientId id) {
  Client& client = clients_.at(id);
  const ssize_t size = ::send(client.fd.get(), client.out.data(), client.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (size < 0 && errno != EAGAIN && errno != EINTR) {
    if (!client.is_stream_closed) streams_.close(client.stream);
    client.is_stream_closed = true;
    return end_soon(id);
  }
  if (size > 0) {
    client.out.erase(0, static_cast<std::size_t>(size));
    if (!client.is_stream_closed) streams_.credit(client.stream, static_cast<std::size_t>(size));
  }
  if (client.out.empty()) {
    client.writable.cancel();
    if (client.is_stream_closed) end_soon(id);
  } else if (!client.writable.armed()) {
    client.writable = loop_.on_writable(client.fd.get(), [this, id] {
      if (clients_.contains(id)) send(id);
    });
  }
}

// Later, because a function of this client may be running.
void TcpStoreProxy::end_soon(ClientId id) {
  loop_.post(gate_.wrap([this, id] { clients_.erase(id); }));
}

}  // namespace muster::rendezvous
