// Hosts of a job meet, each with a blob of bytes, and each gets the blobs of all: what is below the barriers and fences
// of PMI-1 and PMIx. Over the job's keys (horovod_keys.h, scope "pmi"), which every host follows: one round trip to
// rank 0's host, and every blob crosses once to each host.
//
// Fences of one name are a series: the nth entering of one host meets the nth of the others. A name stands for one set
// of members. What a fence has left in the keys goes with the next one of its series.
//
// On the loop, all calls and callbacks. Owner: who speaks the foreign protocol; loop and keys must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "rendezvous/horovod_keys.h"

namespace muster::rendezvous {

class HostFence {
 public:
  using Blobs = std::vector<std::string>;  // in the order of the members
  using Done = std::function<void(base::Result<Blobs>)>;

  // `own_host`: index of this host in the job's placement.
  HostFence(base::Loop& loop, HorovodKeys& keys, int own_host);
  ~HostFence();  // nothing is called any more
  HostFence(const HostFence&) = delete;
  HostFence& operator=(const HostFence&) = delete;

  // `members`: indexes of hosts, ascending, this one among them. `done` is called once, from the loop and never from
  // within this call; never at all while a member does not enter (the job ends by other means). A host enters a name
  // again after the last one's `done` only: FAILED_PRECONDITION. INVALID_ARGUMENT: name or blob too long, members that
  // cannot be. RESOURCE_EXHAUSTED: the keys are full. After an error the others wait for ever.
  void enter(const std::string& name, std::vector<int> members, std::string blob, Done done);

 private:
  struct Fence;

  base::Status check(const std::string& name, const std::vector<int>& members) const;
  void publish(const std::shared_ptr<Fence>& fence, std::string blob);
  void collect(const std::shared_ptr<Fence>& fence, std::size_t index);
  void arrived(const std::shared_ptr<Fence>& fence, std::size_t index, std::string blob);
  void fail(const std::shared_ptr<Fence>& fence, const base::Status& why);
  void close(const std::shared_ptr<Fence>& fence, base::Result<Blobs> result);
  void answer(std::function<void()> task);

  base::Loop& loop_;
  HorovodKeys& keys_;
  const int own_host_;
  std::map<std::string, std::uint64_t> entered_;  // how often, by name
  std::map<std::string, std::shared_ptr<Fence>> open_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace muster::rendezvous
