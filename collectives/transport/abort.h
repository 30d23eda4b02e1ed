// Records why a communicator has ended. Its ranks on one host share one record, in their shared segment. Every wait
// checks the record. A rank raises the record when it learns of a death or fails in an operation. The first failure
// wins.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace muster::collectives::inline transport {

struct Failure {
  base::Code code = base::Code::kOk;
  int rank = -1;        // the world's rank that died or made the mistake; -1 if none
  std::string host;     // where that rank ran
  std::string message;  // one sentence that names the rank and the host
};

// Returns the failure as text, to be put into the job's store for ranks of other hosts.
std::string encode(const Failure& failure);
// Returns an ABORTED failure without a rank if `text` does not come from encode().
Failure decode_failure(const std::string& text);

// Zero bytes are a valid record without a failure. Any thread of any process that has mapped the record may use it.
// Readers check what they read, because a damaged process may have written it.
//
// raise() writes into a free slot and then publishes the slot's number. So a process that ends or stops in between does
// not keep other processes from raising.
class AbortRecord {
 public:
  // False if a failure was raised before, or if too many are being written.
  bool raise(const Failure& failure);
  bool is_raised() const { return published_.load(std::memory_order_acquire) != 0; }
  // Call it only after is_raised().
  Failure read() const;

 private:
  static constexpr std::size_t kSlots = 7;
  struct Slot {
    std::int32_t rank;
    std::int32_t code;
    char host[64];
    char message[440];
  };
  std::atomic<std::uint32_t> published_;  // 0 if none, or else the number of a slot, from 1
  std::atomic<std::uint32_t> claimed_;    // number of slots in use
  Slot slots_[kSlots];
};
static_assert(sizeof(AbortRecord) == 8 + 7 * 512);

}  // namespace muster::collectives::transport
