// A group of ranks that call collectives together. The C ABI (muster.h) hands out communicators.
//
// Owner: shared by the caller and the requests under way. A communicator keeps its world alive.
// Thread: any thread may call. Collectives run one at a time, in the order of the calls. Every rank must make the same
// calls in the same order. If two threads call at once, the order of their calls is undefined.
// Different communicators are independent of each other.
// Errors: the first error ends the communicator, and every later call returns that error again. The surviving ranks can
// make a new communicator with shrink() or with group() of any communicator.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "collectives/algorithm/choice.h"
#include "collectives/algorithm/host_exchange.h"
#include "collectives/algorithm/reduce_task.h"
#include "collectives/call/call.h"
#include "collectives/call/worker.h"
#include "collectives/group/messages.h"
#include "collectives/group/peer_links.h"
#include "collectives/group/registered_memory.h"
#include "collectives/group/world.h"
#include "collectives/join/status_page.h"
#include "collectives/transport/exchange.h"
#include "collectives/transport/host_team.h"

namespace muster::collectives::inline group {

class Communicator final : public EndListener {
 public:
  // Makes the communicator of all ranks of the world.
  static base::Result<std::shared_ptr<Communicator>> of_world(std::shared_ptr<World> world, Failure* why = nullptr);
  ~Communicator() override;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  int local_rank() const { return team_->rank(); }
  int local_size() const { return team_->size(); }
  int hosts() const { return layout_.hosts; }
  const std::string& name() const { return name_; }
  int world_rank(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  World& world() { return *world_; }
  const World& world() const { return *world_; }

  // Collective. Ranks with the same color form one new communicator. Its ranks are ordered by key, then by rank here. A
  // rank with color < 0 gets null.
  // In split(), group() and shrink(), `why` (may be null) receives the failure and the rank that caused it.
  // `with_it` (may be empty) runs on all ranks, also on those that get null. It runs after all ranks have met and
  // before any new communicator is made. split() returns the error of `with_it`.
  base::Result<std::shared_ptr<Communicator>> split(int color, int key, Failure* why = nullptr,
                                                    const std::function<base::Status()>& with_it = {});
  // Only the members of `ranks` call this. `ranks` are ranks of this communicator, without duplicates. Works after an
  // error, too.
  base::Result<std::shared_ptr<Communicator>> group(std::span<const int> ranks, Failure* why = nullptr);
  // Does what group() of the surviving ranks does. All surviving ranks must call it. Ranks that are lost during the
  // call are left out, too. If shrink() fails, all callers get an error and may call it again.
  base::Result<std::shared_ptr<Communicator>> shrink(Failure* why = nullptr);

  // The following calls block. Counts are in elements. `in` may equal `out` where the public header says so.
  base::Status barrier();
  base::Status allreduce(const void* in, void* out, std::size_t count, DType type, RedOp op, Scale scale);
  base::Status reduce(const void* in, void* out, std::size_t count, DType type, RedOp op, int root);
  base::Status reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts, DType type, RedOp op,
                              Scale scale = {});
  base::Status broadcast(void* data, std::size_t count, DType type, int root);
  // `with_it` (may be empty) runs when this operation's turn comes, in the order of the operations.
  base::Status allgather(const void* in, void* out, std::span<const std::size_t> counts, DType type, bool same_counts,
                         const std::function<void()>& with_it = {});
  base::Status gather(const void* in, void* out, std::size_t count, DType type, int root);
  base::Status scatter(const void* in, void* out, std::size_t count, DType type, int root);
  base::Status alltoall(const void* in, Blocks to, void* out, Blocks from, DType type, std::size_t same_count);

  // Messages from one rank to another. They are not ordered with the collectives. Messages between the same two ranks
  // stay in order. Both calls must agree in count, type and tag (from 0). A send returns when its link has taken all
  // bytes, perhaps before the receiver has called.
  base::Status send(const void* data, std::size_t count, DType type, int to, int tag);
  base::Status receive(void* data, std::size_t count, DType type, int from, int tag);
  std::shared_ptr<Request> start_send(const void* data, std::size_t count, DType type, int to, int tag);
  std::shared_ptr<Request> start_receive(void* data, std::size_t count, DType type, int from, int tag);

  // Starts a collective without waiting; `work` is one of the calls above. Started work runs in the order of the calls.
  // The caller owns the buffers and must not change them until the request is done.
  std::shared_ptr<Request> start(Worker::Work work);

  // Collective. Returns `bytes` of memory for this rank, which all ranks of its host have mapped. For 0 bytes the
  // result is nullptr, which is not an error.
  base::Result<std::byte*> allocate(std::size_t bytes);
  // Not collective: releases only this rank's memory.
  base::Status release(std::byte* memory);
  // Lends what allocate() returned to a holder that may outlive the communicator (registered_memory.h). Call no
  // release() of it.
  std::shared_ptr<std::byte> lend(std::byte* memory);
  // Returns where local rank `local_rank` keeps its part of the buffer that allocate() returned here as `memory`.
  // nullptr if that rank has none or has released it.
  std::byte* registered(int local_rank, const std::byte* memory, std::size_t bytes);

  // Sets how long an operation may wait without progress, instead of the world's deadline. Call it before any
  // operation.
  void set_deadline(std::chrono::milliseconds deadline) { policy_.deadline = deadline; }
  // Calls `report` for each wait of an operation that exceeds `patience`; see WaitPolicy. Call it before any operation.
  void on_late(std::chrono::milliseconds patience, std::function<void(const Failure&)> report) {
    policy_.patience = patience;
    policy_.on_late = std::move(report);
  }
  // Uses `algorithm` for every allreduce that it supports, unless the user has named one. Call it before any operation,
  // with the same value on all ranks.
  void prefer(AllreduceAlgorithm algorithm) {
    if (!forced_) forced_ = algorithm;
  }
  // Ends the communicator for all ranks, also in the middle of an operation. Any thread may call.
  void cancel(const Failure& why) { (void)end_with(why); }

  // Keeps operations of this communicator off the status page. Call it before any operation.
  void hide_from_status() { is_hidden_ = true; }

  // Returns why the communicator has ended. The code is kOk while it has not.
  Failure failure() const;
  // Returns the algorithm that the last allreduce used.
  AllreduceAlgorithm last_algorithm() const { return last_algorithm_; }

  void on_ended(const Member& member, bool failed, const std::string& cause) override;

 private:
  // Receives failures from other hosts while the communicator lives.
  struct AbortSink {
    std::mutex mutex;
    AbortRecord* record = nullptr;
  };

  Communicator(std::shared_ptr<World> world, std::string name, std::vector<int> members);
  static base::Result<std::shared_ptr<Communicator>> make(std::shared_ptr<World> world, std::string name,
                                                          std::vector<int> members, Failure* why = nullptr);
  base::Status make_team();
  base::Result<Segment> make_segment(const std::vector<int>& locals, int own);
  base::Status blame_for_memory(const Member& first, const base::Status& status);
  base::Status read_algorithm();
  base::Status agree();
  // Runs one operation alone, after all operations that were started before it. If the communicator has ended, run()
  // only returns the error that ended it. An error of the operation itself is reported to all ranks.
  template <typename Operation>
  base::Status run(const Call& call, const Operation& operation);
  template <typename Operation>
  base::Status run_now(const Call& call, const Operation& operation);
  template <typename Operation>
  base::Status run_alone(const Call& call, const Operation& operation);
  // One attempt to make a communicator of the surviving ranks (communicator_shrinking.cc).
  struct ShrinkRound;
  struct Verdict;
  // Returns this communicator's ranks, in order, without three kinds: those in `gone`, those that this process knows
  // to have ended, and the rank whose failure ended the communicator.
  std::vector<int> survivors(const std::set<int>& gone) const;
  base::Result<std::vector<int>> agree_on_survivors(const ShrinkRound& round, Failure* why);
  Verdict settle(const ShrinkRound& round, const std::vector<int>& left, const Failure& own);
  Verdict decide(const ShrinkRound& round, const std::vector<int>& left, const Failure& own);
  Verdict follow(const ShrinkRound& round, int decider, const Failure& own);
  std::optional<Failure> report_of(const ShrinkRound& round, int rank, base::MonotonicTime end);
  Failure not_shrinking(int rank) const;
  base::Status ended() const;
  // Makes registered buffers private, so that other processes can no longer write to them. Returns `why`.
  base::Status detach(base::Status why);
  void make_links();
  base::Status measure_link_speed();
  Failure explain(const base::Status& status);
  Failure add_cause(Failure failure);
  Failure blame_last(Failure failure);
  std::vector<int> members_at(const std::string& place) const;
  bool blame_silent_host(Failure& failure);
  void blame_host(Failure& failure);
  base::Status fail(const base::Status& status);
  base::Status end_with(const Failure& failure);
  base::Result<Messages*> messages();
  std::string name_of_message_links() const;
  std::string how_left(int rank) const;
  base::Result<Call> message_call(std::size_t count, DType type, int peer, int tag) const;
  base::Status do_allreduce(const Call& call, const ReduceTask& reduction);
  base::Status linked_allreduce_of(const Call& call, const ReduceTask& reduction);
  base::Status linked_reduce_scatter(const Call& call, const ReduceTask& reduction, Blocks blocks);
  // Numbers the next operation over links.
  Operation next(const Call& call) { return {++sequence_, call}; }
  base::Status host_allreduce(const Call& call, const ReduceTask& reduction);
  base::Status check_root(int root) const;
  base::Status check_call(const Call& call);
  base::Result<ReduceTask> task(const void* in, void* out, std::size_t count, DType type, RedOp op, Scale scale) const;

  const std::shared_ptr<World> world_;
  const std::string name_;
  const std::vector<int> members_;  // ranks of the world
  int rank_ = 0;
  std::vector<std::vector<int>> hosts_;  // ranks of this communicator, by host, in order of appearance
  Layout layout_;
  WaitPolicy policy_;
  std::optional<AllreduceAlgorithm> forced_;
  std::optional<HostTeam> team_;
  std::vector<int> local_members_;  // the ranks of team_, as ranks here
  std::unique_ptr<RegisteredMemory> registered_;
  bool has_detached_ = false;
  std::unique_ptr<PeerLinks> links_;
  std::unique_ptr<Exchange> exchange_;      // over all ranks
  std::unique_ptr<SomePeers> slice_peers_;  // the ranks with our local rank, one on each host; null if a host has none
  std::unique_ptr<Exchange> slice_exchange_;  // over slice_peers_
  std::uint64_t sequence_ = 0;
  std::uint64_t steps_ = 0;  // number of operations so far
  bool is_hidden_ = false;
  bool is_of_world_ = false;
  std::uint64_t shown_ = 0;  // number of the world's operations on the status page
  ArrivalSampler arrivals_{base::SampleKind::kCollective};
  std::shared_ptr<AbortSink> sink_;
  std::uint64_t failure_watch_ = 0;
  AllreduceAlgorithm last_algorithm_ = AllreduceAlgorithm::kFlat;
  bool checks_calls_ = false;
  int awaited_ = -1;  // the world's rank that has not shared its memory yet; errors name it
  int children_ = 0;  // counts the communicators that split() has made
  int shrinks_ = 0;
  std::map<std::vector<int>, int> groups_;  // how often group() was called with these ranks
  std::mutex mutex_;                        // held during an operation
  std::atomic<bool> is_listening_{false};
  std::mutex messages_mutex_;           // held while messages_ is created
  std::unique_ptr<Messages> messages_;  // null until the first message
  Worker worker_;                       // Last, so that its thread ends first.
};

}  // namespace muster::collectives::group
