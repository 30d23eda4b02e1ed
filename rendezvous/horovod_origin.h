// The upper end of the links from other hosts' Horovod caches. On rank 0's host it serves the store. In a tree of hosts
// each host with children serves its own cache to them.
//
// Protocol: horovod_frame.h. The owner check of each link runs before a byte is read. A link that breaks the protocol
// or does not read is closed. Its cache then connects again and starts anew.
//
// Owner: the agent; the source must outlive it. Destroying it closes all links.
// Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/gate.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "rendezvous/byte_streams.h"
#include "rendezvous/checked_listener.h"
#include "rendezvous/horovod_link.h"
#include "rendezvous/horovod_pack.h"
#include "rendezvous/horovod_source.h"
#include "rendezvous/owner_check.h"

namespace muster::rendezvous {

struct HorovodOriginLimits {
  StoreLimits store;             // the same as the store's; bounds the lengths of received frames
  std::size_t max_links = 4096;  // one link for each host
  // Limit on the bytes that wait for one cache. Values are shared with the store, so this rarely takes extra memory.
  std::size_t max_queued_bytes = std::size_t{1} << 30;
  CheckedListenerLimits listener;
  // Called when a link is closed because of what its cache sent. Gets one sentence with the peer's address.
  std::function<void(const base::Status&)> on_problem = {};
};

struct HorovodOriginCounts {
  std::uint64_t requests = 0;    // puts, finishes and follows from other hosts
  std::uint64_t changes = 0;     // sent to other hosts
  std::uint64_t sent_bytes = 0;  // bytes of values, as sent
  std::uint64_t lost_links = 0;
  std::size_t links = 0;  // links that are open now
};

class HostMeetings;

class HorovodOrigin {
 public:
  // `listening` must be bound and non-blocking. The origin sets its backlog.
  HorovodOrigin(base::Loop& loop, base::UniqueFd listening, HorovodSource& source, OwnerCheck check,
                HorovodOriginLimits limits = {});
  ~HorovodOrigin();
  HorovodOrigin(const HorovodOrigin&) = delete;
  HorovodOrigin& operator=(const HorovodOrigin&) = delete;

  // For fences, in a tree of hosts. `meetings` outlives this object.
  void use_meetings(HostMeetings& meetings) { meetings_ = &meetings; }
  // For streams, in a tree of hosts. `streams` outlives this object.
  void use_streams(ByteStreams& streams) { streams_ = &streams; }
  // Sends to the link of this child, if it has one.
  void send_met(int child, std::string_view name, std::uint64_t number, HorovodValue part);

  HorovodOriginCounts counts() const;

 private:
  struct Stream {
    ByteStreams::Id up = 0;
    std::size_t window = kStreamWindow;  // how many bytes the child may send
  };
  struct Peer {
    std::unique_ptr<HorovodLink> link;
    std::string where;                        // its address, for messages
    int child = -1;                           // the host at its end, once it has entered a fence
    std::map<std::uint64_t, Stream> streams;  // by the child's id
    std::map<std::string, HorovodSource::WatchId, std::less<>> follows;
  };

  void accepted(base::UniqueFd fd);
  void closed(std::uint64_t id);
  void lost(std::uint64_t id, const base::Status& why);
  base::Status on_frame(std::uint64_t id, const HorovodFrame& frame);
  HorovodSource::Done answer_to(std::uint64_t id, std::uint64_t request);
  base::Status follow(Peer& peer, std::string_view scope);
  base::Status enter(std::uint64_t id, const HorovodFrame& frame);
  base::Status on_stream(std::uint64_t id, const HorovodFrame& frame);
  base::Status open_stream(std::uint64_t id, const HorovodFrame& frame);
  Stream* find_stream(std::uint64_t id, std::uint64_t stream);
  void send_stream(std::uint64_t id, const HorovodFrame& frame, HorovodValue value);
  void send_change(Peer& peer, std::string_view scope, const HorovodChange& change);

  base::Loop& loop_;
  HorovodSource& source_;
  HostMeetings* meetings_ = nullptr;
  ByteStreams* streams_ = nullptr;
  std::map<int, std::uint64_t> children_;  // the newest link of each child that has entered a fence
  const HorovodOriginLimits limits_;
  std::map<std::uint64_t, Peer> peers_;
  std::uint64_t next_peer_ = 0;
  HorovodPacker packer_;
  HorovodOriginCounts counts_;
  CheckedListener listener_;
  base::Gate gate_;
};

}  // namespace muster::rendezvous
