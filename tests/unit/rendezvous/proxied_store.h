// For tests: a TCPStore that clients reach as those of another host do. Between them and the store lie a proxy and the
// links of a tree of hosts, all in one process and on one loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/net.h"
#include "rendezvous/horovod_cache.h"
#include "rendezvous/horovod_origin.h"
#include "rendezvous/horovod_tcp_upstream.h"
#include "rendezvous/stream_uplink.h"
#include "rendezvous/tcp_store_proxy.h"
#include "rendezvous/tcp_store_server.h"
#include "rendezvous/tcp_store_streams.h"

namespace muster::rendezvous {

class ProxiedStore {
 public:
  // `links` is the number of links between the proxy's host and the store's. `check` is for clients. Links are not
  // checked, because the owner of a connection is known only after its host has accepted it, and here all have one
  // loop.
  ProxiedStore(base::Loop& loop, TcpStoreHub& hub, const OwnerCheck& check, int links,
               const std::function<void(const base::Status&)>& on_problem = {})
      : streams_(loop, hub, on_problem) {
    HorovodOriginLimits limits;
    limits.on_problem = on_problem;
    std::uint16_t port = 0;
    base::UniqueFd listening = listen(port);
    origin_port_ = port;
    origin_ = std::make_unique<HorovodOrigin>(loop, std::move(listening), source_, allow, limits);
    origin_->use_streams(streams_);
    for (int i = 0; i < links; ++i) {
      hosts_.push_back(std::make_unique<Host>(loop, port));
      if (i + 1 < links) hosts_.back()->serve(loop, listen(port), limits);
    }
    proxy_ = std::make_unique<TcpStoreProxy>(
        loop, listen(port_), hosts_.back()->streams,
        TcpStoreProxyConfig{.owner_check = check, .client = "host 1", .on_problem = on_problem});
  }

  std::uint16_t port() const { return port_; }
  std::size_t streams() const { return streams_.size(); }
  std::size_t clients() const { return proxy_->clients(); }
  bool ask_wait(const ConnectionEnds& ends, const ByteStreams::Answer& done) { return proxy_->ask_wait(ends, done); }
  HorovodOrigin& origin() { return *origin_; }
  std::uint16_t origin_port() const { return origin_port_; }
  // Breaks the link to the store's host.
  void cut() { origin_.reset(); }

 private:
  // A host of the tree other than the store's.
  struct Host {
    Host(base::Loop& loop, std::uint16_t parent)
        : upstream(loop, *base::IpAddress::parse("127.0.0.1"), parent, allow),
          cache(upstream),
          streams([this](const HorovodFrame& frame, HorovodValue value) {
            return upstream.send_frame(frame, std::move(value));
          }) {
      upstream.use_streams(streams);
    }
    void serve(base::Loop& loop, base::UniqueFd listening, const HorovodOriginLimits& limits) {
      origin = std::make_unique<HorovodOrigin>(loop, std::move(listening), cache, allow, limits);
      origin->use_streams(streams);
    }

    HorovodTcpUpstream upstream;
    HorovodCache cache;
    StreamUplink streams;
    std::unique_ptr<HorovodOrigin> origin;
  };

  static void allow(const ConnectionEnds&, const std::function<void(bool)>& done) { done(true); }

  static base::UniqueFd listen(std::uint16_t& port) {
    base::UniqueFd listening = base::listen_any(0, 128).value();
    port = *base::local_port(listening.get());
    return listening;
  }

  HorovodStore store_{{}};
  HorovodStoreSource source_{store_};
  TcpStoreStreams streams_;
  std::unique_ptr<HorovodOrigin> origin_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::uint16_t port_ = 0;
  std::uint16_t origin_port_ = 0;
  std::unique_ptr<TcpStoreProxy> proxy_;
};

}  // namespace muster::rendezvous
