// The store's end of the links from other hosts' Horovod caches. It runs on rank 0's host, beside the HTTP server
// there.
//
// Protocol: horovod_frame.h. The owner check of each link runs before a byte is read. A link that breaks the protocol
// or does not read is closed. Its cache then connects again and starts anew.
//
// Owner: the agent; the store must outlive it. Destroying it closes all links.
// Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "rendezvous/checked_listener.h"
#include "rendezvous/horovod_link.h"
#include "rendezvous/horovod_pack.h"
#include "rendezvous/horovod_store.h"
#include "rendezvous/owner_check.h"

namespace muster::rendezvous {

struct HorovodOriginLimits {
  StoreLimits store;             // the same as the store's; bounds the lengths of received frames
  std::size_t max_links = 4096;  // one link for each host
  // Limit on the bytes that wait for one cache. Values are shared with the store, so this rarely takes extra memory.
  std::size_t max_queued_bytes = std::size_t{1} << 30;
  CheckedListenerLimits listener;
};

struct HorovodOriginCounts {
  std::uint64_t requests = 0;    // puts, finishes and follows from other hosts
  std::uint64_t changes = 0;     // sent to other hosts
  std::uint64_t sent_bytes = 0;  // bytes of values, as sent
  std::uint64_t lost_links = 0;
  std::size_t links = 0;  // links that are open now
};

class HorovodOrigin {
 public:
  // `listening` must be bound and non-blocking. The origin sets its backlog.
  HorovodOrigin(base::Loop& loop, base::UniqueFd listening, HorovodStore& store, OwnerCheck check,
                HorovodOriginLimits limits = {});
  ~HorovodOrigin();
  HorovodOrigin(const HorovodOrigin&) = delete;
  HorovodOrigin& operator=(const HorovodOrigin&) = delete;

  HorovodOriginCounts counts() const;

 private:
  struct Peer {
    std::unique_ptr<HorovodLink> link;
    std::map<std::string, HorovodStore::WatchId, std::less<>> follows;
    bool is_putting = false;  // the origin does not send a link's own put back to it
  };

  void accepted(base::UniqueFd fd);
  void closed(std::uint64_t id);
  base::Status on_frame(Peer& peer, const HorovodFrame& frame);
  base::Status follow(Peer& peer, std::string_view scope);
  void send_change(Peer& peer, std::string_view scope, const HorovodStore::Change& change);

  base::Loop& loop_;
  HorovodStore& store_;
  const HorovodOriginLimits limits_;
  std::map<std::uint64_t, Peer> peers_;
  std::uint64_t next_peer_ = 0;
  HorovodPacker packer_;
  HorovodOriginCounts counts_;
  CheckedListener listener_;
};

}  // namespace muster::rendezvous
