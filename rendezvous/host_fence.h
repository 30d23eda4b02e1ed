// Lets hosts of a job meet. Each host brings a blob of bytes and gets the blobs of all hosts. The barriers and fences
// of PMI-1 and PMIx use it. It uses the job's keys (horovod_keys.h, scope "pmi"), which every host follows. So a
// meeting takes one round trip to rank 0's host, and every blob is sent once to each host. If the job's hosts form a
// tree, the blobs go up and down the tree instead (host_meetings.h).
//
// Fences of one name form a series: the nth call of one host meets the nth calls of the others. A name stands for one
// set of members. The keys of a fence are removed by the next fence of its series.
//
// Owner: the code that speaks the foreign protocol; loop and keys must outlive it.
// Thread: the loop's, for all calls and callbacks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "rendezvous/horovod_keys.h"

namespace muster::rendezvous {

class HostFence {
 public:
  using Blobs = std::vector<std::string>;  // in the order of the members
  using Done = std::function<void(base::Result<Blobs>)>;

  // `own_host` is the index of this host in the job's placement.
  HostFence(base::Loop& loop, HorovodKeys& keys, int own_host);
  ~HostFence();  // nothing is called afterwards
  HostFence(const HostFence&) = delete;
  HostFence& operator=(const HostFence&) = delete;

  // `members` are indexes of hosts, ascending, and include this host. `done` is called once, from the loop and never
  // from within this call. If a member never enters, `done` is not called, and other parts of the agent end the job.
  // FAILED_PRECONDITION if this host enters a name again before the last `done`. INVALID_ARGUMENT if name or blob is
  // too long or the members are invalid. RESOURCE_EXHAUSTED if the keys are full. After an error the other hosts wait
  // for ever.
  void enter(const std::string& name, std::vector<int> members, std::string blob, Done done);

 private:
  struct Fence;

  base::Status check(const std::string& name, const std::vector<int>& members) const;
  void enter_tree(HostMeetings& tree, const std::shared_ptr<Fence>& fence, std::string blob);
  void publish(const std::shared_ptr<Fence>& fence, std::string blob);
  void collect(const std::shared_ptr<Fence>& fence, std::size_t index);
  void arrived(const std::shared_ptr<Fence>& fence, std::size_t index, std::string blob);
  void fail(const std::shared_ptr<Fence>& fence, const base::Status& why);
  void close(const std::shared_ptr<Fence>& fence, base::Result<Blobs> result);
  void answer(std::function<void()> task);

  base::Loop& loop_;
  HorovodKeys& keys_;
  const int own_host_;
  std::map<std::string, std::uint64_t> entered_;  // by name, how often this host has entered
  std::map<std::string, std::shared_ptr<Fence>> open_;
  base::Gate gate_;
};

}  // namespace muster::rendezvous
