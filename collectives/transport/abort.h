// Why a communicator has ended: one record for all its ranks of a host, in their shared segment, looked at by every
// wait. Whoever learns of a death or fails in an operation raises it; the first one wins.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace muster::collectives {

struct Failure {
  base::Code code = base::Code::kOk;
  int rank = -1;        // of the world: whose death or mistake it was; -1: nobody's
  std::string host;     // where that rank ran
  std::string message;  // one sentence that names both
};

// Zero bytes are a valid record without a failure. Any thread, any process that has it mapped; what is read from it is
// checked, as it may come from a process that is not well.
class AbortRecord {
 public:
  // False: there was one already, or another is being written.
  bool raise(const Failure& failure);
  bool is_raised() const { return state_.load(std::memory_order_acquire) == kThere; }
  // After is_raised().
  Failure read() const;

 private:
  static constexpr std::uint32_t kBeingWritten = 1;
  static constexpr std::uint32_t kThere = 2;
  std::atomic<std::uint32_t> state_;
  std::int32_t rank_;
  std::int32_t code_;
  char host_[64];
  char message_[436];
};
static_assert(sizeof(AbortRecord) == 512);

}  // namespace muster::collectives
