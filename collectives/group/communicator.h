// A group of ranks that call collectives together: what the C ABI (muster.h) hands out.
//
// Collectives of one communicator run one at a time, in the order of the calls; every rank of it must make the same
// calls in the same order. Any thread may call; two threads that call at once must not care about the order. Different
// communicators are independent of each other.
//
// After an error the communicator has ended: every later call gives the error again; its ranks that are left can make a
// new one with group() of the world or of any communicator.
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
#include "collectives/transport/exchange.h"
#include "collectives/transport/host_team.h"

namespace muster::collectives::inline group {

class Communicator final : public NewsListener {
 public:
  // Of all ranks of the world.
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

  // Collective. Ranks with the same color become a communicator, ordered by key, then by rank here; color < 0: none
  // for this rank (null).
  // In case of an error, `why` (may be null) says whose it was; so for the next two. `with_it` (may be empty) is called
  // on all ranks, also those that get none, when they have met and before any is made; its error is that of the call.
  base::Result<std::shared_ptr<Communicator>> split(int color, int key, Failure* why = nullptr,
                                                    const std::function<base::Status()>& with_it = {});
  // Called by the ranks of `ranks` (of this communicator, without doubles) only. Works after an error, too.
  base::Result<std::shared_ptr<Communicator>> group(std::span<const int> ranks, Failure* why = nullptr);
  // group() of the ranks that are left, all of which call it. Ranks that are lost meanwhile are left out, too. An error
  // is that of all who call it, and it may be called again.
  base::Result<std::shared_ptr<Communicator>> shrink(Failure* why = nullptr);

  // Blocking. Counts in elements; `in` may be `out` where the public header says so.
  base::Status barrier();
  base::Status allreduce(const void* in, void* out, std::size_t count, DType type, RedOp op, Scale scale);
  base::Status reduce(const void* in, void* out, std::size_t count, DType type, RedOp op, int root);
  base::Status reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts, DType type, RedOp op,
                              Scale scale = {});
  base::Status broadcast(void* data, std::size_t count, DType type, int root);
  // `with_it` (may be empty) is called when it is this operation's turn, in the order of the operations.
  base::Status allgather(const void* in, void* out, std::span<const std::size_t> counts, DType type, bool same_counts,
                         const std::function<void()>& with_it = {});
  base::Status gather(const void* in, void* out, std::size_t count, DType type, int root);
  base::Status scatter(const void* in, void* out, std::size_t count, DType type, int root);
  base::Status alltoall(const void* in, Blocks to, void* out, Blocks from, DType type, std::size_t same_count);

  // From one rank to another one, beside the collectives and in no order with them; in order between these two. Count,
  // type and tag (from 0) have to agree. A send returns when all is on its way, perhaps before the receiver has called.
  base::Status send(const void* data, std::size_t count, DType type, int to, int tag);
  base::Status receive(void* data, std::size_t count, DType type, int from, int tag);
  std::shared_ptr<Request> start_send(const void* data, std::size_t count, DType type, int to, int tag);
  std::shared_ptr<Request> start_receive(void* data, std::size_t count, DType type, int from, int tag);

  // Collectives without waiting, in the order of the calls: `work` is one of the calls above. Buffers stay the caller's
  // and must stay as they are until it is done.
  std::shared_ptr<Request> start(Worker::Work work);

  // Collective: memory of `bytes` for this rank that all ranks of its host have mapped. nullptr bytes are no error.
  base::Result<std::byte*> allocate(std::size_t bytes);
  // Of this rank alone.
  base::Status release(std::byte* memory);
  // Where local rank `local_rank` has what lies at `memory` of allocate() here; nullptr: it has not, or not any more.
  std::byte* registered(int local_rank, const std::byte* memory, std::size_t bytes);

  // How long an operation of this communicator may wait without progress, instead of what the world says. Before any.
  void set_deadline(std::chrono::milliseconds deadline) { policy_.deadline = deadline; }
  // Told of each wait of an operation that takes longer than `patience`; see WaitPolicy. Before any operation.
  void on_late(std::chrono::milliseconds patience, std::function<void(const Failure&)> told) {
    policy_.patience = patience;
    policy_.on_late = std::move(told);
  }
  // For every allreduce that it can do, instead of the one that fits, unless the user has named one. Before any
  // operation, the same on all ranks.
  void prefer(AllreduceAlgorithm algorithm) {
    if (!forced_) forced_ = algorithm;
  }
  // Ends it for all ranks, also in the middle of an operation. Any thread.
  void cancel(const Failure& why) { (void)end_with(why); }

  // Why the communicator has ended; code kOk: it has not.
  Failure failure() const;
  // Which algorithm the last allreduce took.
  AllreduceAlgorithm last_algorithm() const { return last_algorithm_; }

  void on_ended(const Member& member, bool failed, const std::string& cause) override;

 private:
  // Where news from other hosts go while the communicator lives.
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
  // Runs one operation: alone, after what was started before, not after an error, and with its error told to all.
  template <typename Operation>
  base::Status run(const Call& call, const Operation& operation);
  template <typename Operation>
  base::Status run_now(const Call& call, const Operation& operation);
  // Of an agent that saw a rank end, to the ranks of other hosts.
  static constexpr std::chrono::milliseconds kNewsTime{800};
  // One try to make a communicator of the ranks that are left (communicator_shrinking.cc).
  struct ShrinkRound;
  struct Verdict;
  // Ranks of this communicator in order, but for those of `gone`, those of which an end is known here, and the one that
  // it has ended by.
  std::vector<int> survivors(const std::set<int>& gone) const;
  base::Result<std::vector<int>> agree_on_survivors(const ShrinkRound& round, Failure* why);
  Verdict settle(const ShrinkRound& round, const std::vector<int>& left, const Failure& own);
  Verdict decide(const ShrinkRound& round, const std::vector<int>& left, const Failure& own);
  Verdict follow(const ShrinkRound& round, int decider, const Failure& own);
  std::optional<Failure> report_of(const ShrinkRound& round, int rank, base::MonotonicTime end);
  Failure not_shrinking(int rank) const;
  base::Status ended() const;
  // With the error that is returned: registered buffers are the caller's alone from here.
  base::Status part(base::Status why);
  void make_links();
  base::Status measure_link_speed();
  Failure explain(const base::Status& status);
  Failure look_into(Failure failure);
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
  // The next operation over links.
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
  std::vector<int> local_members_;  // of the team, as ranks here
  std::unique_ptr<RegisteredMemory> registered_;
  bool has_parted_ = false;
  std::unique_ptr<PeerLinks> links_;
  std::unique_ptr<Exchange> exchange_;        // of all ranks
  std::unique_ptr<SomePeers> slice_peers_;    // the ranks with our local rank, one on each host; null: not all have one
  std::unique_ptr<Exchange> slice_exchange_;  // of them
  std::uint64_t sequence_ = 0;
  std::uint64_t steps_ = 0;  // operations
  std::shared_ptr<AbortSink> sink_;
  std::uint64_t hearing_ = 0;
  AllreduceAlgorithm last_algorithm_ = AllreduceAlgorithm::kFlat;
  bool checks_calls_ = false;
  int awaited_ = -1;  // the rank of the world that has not given its memory
  int children_ = 0;  // parts that split() has made
  int shrinks_ = 0;
  std::map<std::vector<int>, int> groups_;  // how often group() was called with these
  std::mutex mutex_;                        // of one operation
  std::atomic<bool> is_listening_{false};
  std::mutex messages_mutex_;           // of its beginning
  std::unique_ptr<Messages> messages_;  // null: none was sent yet
  Worker worker_;                       // ends first
};

}  // namespace muster::collectives::group
