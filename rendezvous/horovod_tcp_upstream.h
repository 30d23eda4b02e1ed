// A Horovod cache's connection to the store on rank 0's host, over plain TCP to its HorovodOrigin. It connects at the
// first request, so a job without such requests makes no connection. It reconnects as long as it lives.
//
// The cache checks the owner of the other end before it sends anything. On a host that has lost its agent, another user
// could listen at that port. After a loss the cache sends unanswered requests again. That is harmless, because the
// store accepts a put or finish twice.
//
// Owner: the agent.
// Thread: the loop's.
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
  StoreLimits store;  // bounds the lengths of received frames
  std::size_t max_queued_bytes = std::size_t{1} << 30;
  base::Duration connect_limit = std::chrono::seconds(5);      // includes the owner check
  base::Duration first_pause = std::chrono::milliseconds(20);  // between two attempts; doubled up to longest_pause
  base::Duration longest_pause = std::chrono::seconds(1);
};

class HostMeetings;
class StreamUplink;

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
  // For fences, in a tree of hosts. `meetings` outlives this object's links.
  void use_meetings(HostMeetings& meetings) { meetings_ = &meetings; }
  void send_entry(std::string_view name, std::uint64_t number, HorovodValue part);
  // For streams, in a tree of hosts. `streams` outlives this object's links, and sends by send_frame().
  void use_streams(StreamUplink& streams) { streams_ = &streams; }
  // Returns false if there is no link. The link then begins to connect.
  bool send_frame(const HorovodFrame& frame, HorovodValue value);
  // Returns the reason why no connection exists now. Ok if one exists, or before the first attempt.
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
  HostMeetings* meetings_ = nullptr;
  StreamUplink* streams_ = nullptr;
  std::set<std::string, std::less<>> follows_;
  std::map<std::uint64_t, Request> unanswered_;  // in the order of the requests
  std::uint64_t next_id_ = 1;
  std::shared_ptr<Connecting> connecting_;
  std::unique_ptr<HorovodLink> link_;
  base::Duration pause_;
  base::Timer retry_;
  base::Status last_failure_;
};

}  // namespace muster::rendezvous
