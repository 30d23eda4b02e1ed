// This process's status page (base/rank_page.h), which tells the agent where the process is in its operations.
//
// There is no page without a launcher, after an error, and in a child of fork(). All functions then do nothing. An
// operation costs a few stores and no system call.
//
// Thread: any, without locks. If two threads begin operations at the same time, the page names one of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/rank_page.h"

namespace muster::collectives::inline join {

std::int64_t status_now();         // CLOCK_MONOTONIC in ns
std::int64_t status_coarse_now();  // the same, exact to some ms, and faster

// Chooses the operations whose start times the page keeps: those whose number is a multiple of a power of two. The
// power grows until at most about 20 in a second are kept. Ranks need not agree on it, because the multiples of a
// larger power are also multiples of a smaller one.
// Thread: one at a time.
class ArrivalSampler {
 public:
  explicit ArrivalSampler(base::SampleKind kind) : kind_(kind) {}

  // Records operation `number` (from 1), whose number is the same on all ranks. `coarse_ns` is status_coarse_now().
  // `at_ns` is its start time, or 0 for the present.
  void arrive(base::RankPage& page, std::uint64_t number, std::int64_t coarse_ns, std::int64_t at_ns = 0) {
    if ((number & (stride_ - 1)) == 0 || coarse_ns - last_ns_ >= kSlow) keep(page, number, at_ns);
  }

 private:
  static constexpr std::int64_t kSlow = 200'000'000;  // ns between two samples; if they come slower, the stride halves

  void keep(base::RankPage& page, std::uint64_t number, std::int64_t at_ns);

  const base::SampleKind kind_;
  std::uint64_t stride_ = 1;
  std::int64_t last_ns_ = 0;
};

// Makes the page if there is none, and says that this process is `rank` of a world of `size` ranks.
void status_enter_world(int rank, int size);
void status_leave_world();
// Counts a heartbeat of the program, and makes the page if there is none. `step` is its number, or -1 to count.
void status_heartbeat(std::int64_t step);

// The first of several engines of a world gets true until it calls status_release_engine().
bool status_claim_engine();
void status_release_engine();

// The page, or null.
extern std::atomic<base::RankPage*> status_page_pointer;
inline base::RankPage* status_page() {
  return status_page_pointer.load(std::memory_order_acquire);
}

// For the world's communicator: its operation `number` (from 1) begins and ends. They cost less than the next ones.
// Thread: one at a time.
inline void status_begin_world(base::RankPage& page, const char (&operation)[16], std::uint64_t number,
                               std::int64_t now_ns) {
  std::memcpy(page.world_operation, operation, sizeof page.world_operation);
  std::atomic_ref(page.world_began_ns).store(now_ns, std::memory_order_relaxed);
  std::atomic_ref(page.world_begun).store(number, std::memory_order_release);
}
inline void status_end_world(base::RankPage& page, std::uint64_t number) {
  std::atomic_ref(page.world_ended).store(number, std::memory_order_release);
}

// For all other operations.
void status_begin(base::RankPage& page, std::string_view operation, std::string_view name, std::int64_t now_ns);
// Names an operation that began before as the one that the process waits for.
void status_show(base::RankPage& page, std::string_view operation, std::string_view name, std::int64_t began_ns);
void status_end(base::RankPage& page);

}  // namespace muster::collectives::join
