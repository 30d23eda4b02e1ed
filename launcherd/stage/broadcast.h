// The launcher's part of a broadcast (proto/muster/v1/stage_broadcast.proto): hosts pass staged files on to each other.
//
// Hosts form a tree in the order in which they were added: the sources of a host are its parent, the parent's parents,
// and the host before it. So blocks go only from earlier to later hosts, and no two hosts wait for each other. The
// launcher sends its blocks to the first host, and to those that find no other source.
//
// Owner: Staging, which sends the orders and the blocks.
// Thread: loop thread only.
// Trust: a host's report is checked before it is used. A block is checked by the host that gets it.
//
//   1. add_host() for each host; send begin() to each; began() with each answer.
//   2. add_want() for each file that a host needs.
//   3. start(). Then report() with each report, until is_complete().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/stage/stage_source.h"
#include "proto/muster/v1/stage_broadcast.pb.h"

namespace muster::launcherd::inline stage {

class Broadcast {
 public:
  static constexpr std::size_t kBlockBytes = 1 << 20;
  static constexpr std::size_t kFanOut = 2;           // children of a host
  static constexpr std::size_t kMostSources = 4;      // of one host
  static constexpr std::size_t kMostUnanswered = 16;  // orders to one host; all hosts then wait for it
  static constexpr std::size_t kMostWants = 4096;     // unsent blocks that one host may ask of the launcher

  struct Events {
    std::function<void(std::size_t host, const v1::StageBroadcast& order)> order;
    // Hashes these bytes of a file in blocks of kBlockBytes, and calls `done` later.
    std::function<void(int entry, std::uint64_t offset, std::size_t size,
                       std::function<void(base::Result<std::string>)> done)>
        hash;
    // The launcher must send these bytes to the host.
    std::function<void(std::size_t host, int entry, std::uint64_t begin, std::uint64_t end)> want;
    std::function<void(const std::string& line)> note;
    std::function<void(base::Status)> fail;  // the source cannot be read, or a host has broken a rule
  };

  // `tree` must outlive this object.
  Broadcast(const StageTree& tree, Events events);

  // `address` is an IP literal; if it is not, no other host gets blocks from this one. Returns the host's number.
  std::size_t add_host(std::string name, std::string address);
  v1::StageBroadcast begin() const;
  void began(std::size_t host, const std::string& answer);
  void add_want(std::size_t host, int entry);
  void start();

  // Returns whether the answer is a report to this broadcast. Handles it if `error` is empty.
  bool report(std::size_t host, const v1::StageAnswer& answer);
  // The host has answered an order of Events::order.
  void answered(std::size_t host);
  // A block that the host has asked for is on its way.
  void sent(std::size_t host) { --hosts_[host].asked; }

  bool is_complete(std::size_t host) const { return hosts_[host].is_complete; }
  bool is_complete() const;
  // True if the host knows of blocks that it does not have.
  bool misses_blocks(std::size_t host) const { return hosts_[host].done_blocks < hosts_[host].listed_blocks; }
  std::uint64_t peer_bytes() const;     // that hosts got from each other
  std::uint32_t changed_files() const;  // the most of any host

 private:
  struct Host {
    std::string name{};
    std::string address{};
    std::uint32_t port = 0;         // 0 if it does not serve
    v1::StageBlockLists pending{};  // lists that were not sent yet
    std::size_t unanswered = 0;     // orders
    std::uint64_t listed_blocks = 0;
    std::uint64_t done_blocks = 0;
    std::uint64_t peer_bytes = 0;
    std::uint32_t changed_files = 0;
    std::size_t asked = 0;  // blocks that the launcher must send
    bool is_complete = false;
  };

  void give_order(std::size_t host, const v1::StageBroadcast& order);
  std::vector<std::size_t> sources_of(std::size_t host) const;
  void send_sources(std::size_t host);
  void list_next();
  void listed(int entry, std::uint64_t offset, const std::string& hashes);
  void send_lists(bool is_last);
  std::uint64_t size_of(int entry) const { return tree_.entries[static_cast<std::size_t>(entry)].size(); }

  const StageTree& tree_;
  const Events events_;
  std::uint64_t token_ = 0;
  std::string identity_;
  std::string secret_;
  std::vector<Host> hosts_;
  std::map<int, std::vector<std::size_t>> wanted_by_;  // hosts by entry
  std::map<int, std::vector<std::size_t>>::const_iterator listing_;
  std::uint64_t offset_ = 0;       // in the file that is being listed
  std::size_t pending_bytes_ = 0;  // of files whose lists were not sent yet
  std::size_t pending_files_ = 0;
  std::size_t full_hosts_ = 0;  // hosts with kMostUnanswered orders or more
  bool is_paused_ = false;      // true while a full host keeps the next blocks from being listed
};

}  // namespace muster::launcherd::stage
