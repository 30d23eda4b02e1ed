// The ranks of one communicator on one host, which work in rounds. In each round every rank publishes its call, a few
// bytes, and what lies in its slot or staging area. Then it waits until all ranks have published.
//
// Each rank publishes in two lines of shared memory, which it uses in turn. A rank can be one round ahead of another,
// but never two, because it has waited for all ranks in the round between. Other ranks read what a rank published in
// round r until they publish round r + 1. The rank may overwrite it after it has waited for all of round r + 1. So the
// data of two consecutive rounds must not overlap. Slots advance through the arena, at the same place for all ranks,
// and then start again. So no round may take more than a quarter of the arena. The staging and result areas belong to
// hierarchical_allreduce.
//
// Thread: one at a time.
// Ranks here are local ones, from 0 to size - 1.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "collectives/call/call.h"
#include "collectives/transport/segment.h"
#include "collectives/transport/wait.h"

namespace muster::collectives::inline transport {

// Another rank of this host, as messages name it.
struct Teammate {
  int world_rank = 0;
  std::string host;
  std::int64_t pid = 0;
};

class HostTeam {
 public:
  // `name` is the communicator's, for messages. `policy` must outlive the team.
  HostTeam(Segment segment, int rank, std::vector<Teammate> mates, std::string name, const WaitPolicy& policy);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Segment& segment() const { return segment_; }
  AbortRecord& abort() const { return segment_.abort(); }
  const WaitPolicy& policy() const { return policy_; }
  const Teammate& mate(int rank) const { return mates_[static_cast<std::size_t>(rank)]; }

  // Starts the next round; slot() and payload() then refer to it. `bytes` is the size of a slot. It must be the same on
  // all ranks and at most room().
  void begin(std::size_t bytes = 0) {
    ++round_;
    if (bytes != 0) place_slots(bytes);
  }
  std::size_t room() const { return segment_.arena_bytes() / 4; }
  std::byte* slot(int rank) const { return segment_.arena(rank) + slots_at_; }
  std::byte* staging(int rank) const { return segment_.staging(rank); }
  std::byte* result(int rank) const { return segment_.result(rank); }
  // The payload has at most kInlineBytes and travels with the flag.
  std::byte* own_payload() const { return line(rank_).payload; }
  template <typename T>
  void set_payload(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kInlineBytes);
    std::memcpy(own_payload(), &value, sizeof value);
  }
  void publish(const Call& call) {
    Line& own = line(rank_);
    own.call = call;
    own.flag.publish(round_);
  }
  // FAILED_PRECONDITION if `rank` calls something else. DEADLINE_EXCEEDED or UNAVAILABLE if it does not arrive.
  base::Status wait_for(int rank, const Call& call) {
    Line& peer = line(rank);
    const auto late = [this, rank, &call] { return late_failure(rank, call); };
    MUSTER_RETURN_IF_ERROR(waiter_.until(peer.flag, round_, late, &mates_gone_[static_cast<std::size_t>(rank)]));
    if (peer.call == call) return base::ok_status();
    return mismatch(rank, peer.call, call);
  }
  base::Status wait_for_all(const Call& call) {
    for (int i = 1; i < size_; ++i) {
      const int peer = rank_ + i < size_ ? rank_ + i : rank_ + i - size_;
      MUSTER_RETURN_IF_ERROR(wait_for(peer, call));
    }
    return base::ok_status();
  }
  // Does publish() and wait_for_all() of a new round that carries no data.
  base::Status meet(const Call& call) {
    begin();
    publish(call);
    return wait_for_all(call);
  }
  // Call it before an operation over links. `step` numbers the communicator's operations, from 1. If the ranks of a
  // host call different operations, they may wait for each other in different places. So each rank publishes the call
  // that it begins and checks those of the others. FAILED_PRECONDITION if a rank calls something else.
  base::Status begin_step(std::uint64_t step, const Call& call);

  const std::byte* payload(int rank) const { return line(rank).payload; }
  template <typename T>
  T payload_as(int rank) const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kInlineBytes);
    T value;
    std::memcpy(&value, payload(rank), sizeof value);
    return value;
  }

  // Records that a rank has left in good order, so that waits for it fail. Any thread may call.
  void set_gone(int rank) { mates_gone_[static_cast<std::size_t>(rank)].store(true, std::memory_order_release); }
  // Records that local rank `rank` caused the error of an operation, for failure(). Adds the rank's host and number.
  base::Status blame(int rank, base::Status status);
  // Returns the failure behind the last error that this team returned.
  const Failure& failure() const { return failure_; }
  // Announces that this rank has left and takes part in no further round.
  void leave() { segment_.lane(rank_).left.store(1); }

 private:
  void place_slots(std::size_t bytes);
  Line& line(int rank) const { return segment_.lane(rank).lines[round_ & 1]; }
  Failure late_failure(int rank, const Call& call);
  base::Status mismatch(int rank, const Call& theirs, const Call& own);
  std::string name_of_mate(int rank) const;

  Segment segment_;
  const int rank_;
  const int size_;
  const std::vector<Teammate> mates_;
  const std::string name_;
  const WaitPolicy& policy_;
  Waiter waiter_;
  std::uint32_t round_ = 0;
  std::size_t slots_at_ = 0;   // where this round's slots begin in the arena
  std::size_t slots_end_ = 0;  // where the next round's slots begin
  Failure failure_;
  std::unique_ptr<std::atomic<bool>[]> mates_gone_;
};

}  // namespace muster::collectives::transport
