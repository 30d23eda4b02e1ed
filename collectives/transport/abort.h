// Why a communicator has ended: one record for all its ranks of a host, in their shared segment, looked at by every
// wait. Whoever learns of a death or fails in an operation raises it; the first one wins.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace muster::collectives::inline transport {

struct Failure {
  base::Code code = base::Code::kOk;
  int rank = -1;        // of the world: whose death or mistake it was; -1: nobody's
  std::string host;     // where that rank ran
  std::string message;  // one sentence that names both
};

// The failure as text, to be put into the job's store for ranks of other hosts.
std::string encode(const Failure& failure);
// A text that encode() has not made becomes an ABORTED failure of nobody.
Failure decode_failure(const std::string& text);

// Zero bytes are a valid record without a failure. Any thread, any process that has it mapped; what is read from it is
// checked, as it may come from a process that is not well.
//
// Whoever raises writes into a slot of its own, and then says which: one that ends or is stopped meanwhile keeps nobody
// from raising another.
class AbortRecord {
 public:
  // False: there was one already, or too many are being written.
  bool raise(const Failure& failure);
  bool is_raised() const { return published_.load(std::memory_order_acquire) != 0; }
  // After is_raised().
  Failure read() const;

 private:
  static constexpr std::size_t kSlots = 7;
  struct Slot {
    std::int32_t rank;
    std::int32_t code;
    char host[64];
    char message[440];
  };
  std::atomic<std::uint32_t> published_;  // 0: none; else the number of a slot, from 1
  std::atomic<std::uint32_t> claimed_;    // slots
  Slot slots_[kSlots];
};
static_assert(sizeof(AbortRecord) == 8 + 7 * 512);

}  // namespace muster::collectives::transport
