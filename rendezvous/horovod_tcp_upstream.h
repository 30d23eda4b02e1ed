// A Horovod cache's way to the store on rank 0's host over plain TCP: one connection to its HorovodOrigin, made at the
// first request (a job that is no Horovod job makes none), then made anew for as long as this lives.
//
// The other end is checked by its owner before anything is sent: on a host that has lost its agent another user could
// listen at that port. What was sent and not answered before a loss is sent again; the store takes a put or a finish
// twice without harm. On the loop; owner: the agent.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/loop.h"
#include "base/net.h"
#include "rendezvous/horovod_link.h"
#include "rendezvous/horovod_upstream.h"
#include "rendezvous/owner_check.h"
#include "rendezvous/store.h"

namespace muster::rendezvous {

struct HorovodTcpUpstreamLimits {
  StoreLimits store;  // lengths of what is received
  std::size_t max_queued_bytes = std::size_t{1} << 30;
  base::Duration connect_limit = std::chrono::seconds(5);      // the owner check included
  base::Duration first_pause = std::chrono::milliseconds(20);  // between two tries; doubled up to
  base::Duration longest_pause = std::chrono::seconds(1);
};

class HorovodTcpUpstream final : public HorovodUpstream {
 public:
  HorovodTcpUpstream(base::Loop& loop, base::IpAddress address, std::uint16_t port, OwnerCheck check,
                     HorovodTcpUpstreamLimits limits = {});
  ~HorovodTcpUpstream() override;
  HorovodTcpUpstream(const HorovodTcpUpstream&) = delete;
  HorovodTcpUpstream& operator=(const HorovodTcpUpstream&) = delete;

  void set_listener(Listener* listener) override;
  void put(std::string_view scope, std::string_view key, HorovodValue value, Done done) override;
  void finish(std::string_view scope, std::string_view key, Done done) override;
  void follow(std::string_view scope) override;
  bool is_connected() const override { return link_ != nullptr; }
  // Why there is no connection now; ok if there is one, or was no try yet.
  const base::Status& last_failure() const { return last_failure_; }

 private:
  struct Request {
    HorovodFrameKind kind;
    std::string scope;
    std::string key;
    HorovodValue value;
    Done done;
  };
  class Connecting;

  void connect();
  void connect_first();
  void connected(base::Result<base::UniqueFd> fd);
  void lost(const base::Status& why);
  void ask(Request request);
  void send(std::uint64_t id, const Request& request);
  base::Status on_frame(const HorovodFrame& frame);
  base::Status on_done(const HorovodFrame& frame);

  base::Loop& loop_;
  const base::IpAddress address_;
  const std::uint16_t port_;
  const OwnerCheck check_;
  const HorovodTcpUpstreamLimits limits_;
  Listener* listener_ = nullptr;
  std::set<std::string, std::less<>> follows_;
  std::map<std::uint64_t, Request> unanswered_;  // in the order in which they were asked
  std::uint64_t next_id_ = 1;
  std::shared_ptr<Connecting> connecting_;
  std::unique_ptr<HorovodLink> link_;
  base::Duration pause_;
  base::Timer retry_;
  base::Status last_failure_;
};

}  // namespace muster::rendezvous
