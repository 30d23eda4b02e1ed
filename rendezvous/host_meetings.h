// One host's part of the fences of a job whose hosts form a tree (host_tree.h). A host gathers the blobs of its subtree
// and sends them to its parent in as few messages as their size allows. The lowest host whose subtree has all members
// sends all blobs back down. So each host exchanges O(1) messages with its parent and each child, and no host talks to
// all others.
//
// Life of a fence: gathering -> sent to the parent -> all blobs received (or, at the turning point, gathered) -> kept
// until the next fence of the same name is over, for a child that lost its connection before it got the blobs.
//
// Owner: the job's stores.
// Thread: the loop's, for all calls and callbacks.
// Errors: a child or parent that breaks the rules gets an error, which closes its link. Links may be lost at any time:
// parent_connected() sends again what the parent has not answered, and a child that sends again is answered again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "rendezvous/horovod_keys.h"
#include "rendezvous/host_tree.h"
#include "rendezvous/meeting_part.h"
#include "rendezvous/store.h"

namespace muster::rendezvous {

class HostMeetings {
 public:
  using Blobs = std::vector<std::string>;  // in the order of the members
  using Done = std::function<void(base::Result<Blobs>)>;
  // The message is lost if there is no link.
  struct Links {
    std::function<void(std::string_view name, std::uint64_t number, HorovodValue part)> to_parent;
    std::function<void(int child, std::string_view name, std::uint64_t number, HorovodValue part)> to_child;
  };

  HostMeetings(HostTree tree, int own_host, Links links, StoreLimits limits = {});

  // `members` are ascending and include this host. `number` counts the fences of that name from 1. `done` is called
  // once, perhaps within this call, unless an error is returned. See HostFence::enter() for the errors.
  base::Status enter(const std::string& name, std::uint64_t number, const std::vector<int>& members, std::string blob,
                     Done done);

  // Takes the blobs of a child's subtree. `on_child` is called with the child before anything is sent to it.
  base::Status from_child(std::string_view name, std::uint64_t number, std::string_view bytes,
                          const std::function<base::Status(int child)>& on_child);
  // Takes blobs of all members.
  base::Status from_parent(std::string_view name, std::uint64_t number, std::string_view bytes);
  // Sends again what the parent has not answered. Call it for each new link to the parent.
  void parent_connected();

  std::size_t total_bytes() const { return total_bytes_; }  // of blobs and parts

 private:
  struct Meeting {
    std::uint64_t number = 0;
    HostSet members{};
    std::vector<int> children{};         // those with members in their subtrees
    std::size_t below = 0;               // members in this host's subtree
    std::map<int, std::string> blobs{};  // first those of the subtree; after they were sent, those of all members
    bool is_sent = false;                // to the parent
    std::vector<HorovodValue> sent{};    // the parts that the parent has not answered
    std::vector<HorovodValue> parts{};   // the blobs of all members, as far as they have come
    Done done{};                         // null if this host is no member or has not entered
  };
  struct Ended {
    std::uint64_t number = 0;
    std::vector<HorovodValue> parts;
  };
  using Meetings = std::map<std::string, Meeting, std::less<>>;

  base::Result<Meetings::iterator> open(std::string_view name, std::uint64_t number, HostSet members);
  base::Status check_room(std::size_t more) const;
  void gathered(Meetings::iterator meeting);
  void end(Meetings::iterator meeting);
  std::vector<HorovodValue> make_parts(const Meeting& meeting) const;
  void send_down(std::string_view name, const Meeting& meeting, const HorovodValue& part) const;
  void forget(std::vector<HorovodValue>& parts);

  const HostTree tree_;
  const int own_;
  const Links links_;
  const StoreLimits limits_;
  Meetings open_;
  std::map<std::string, Ended, std::less<>> ended_;  // the last fence of each name
  std::size_t total_bytes_ = 0;
};

}  // namespace muster::rendezvous
