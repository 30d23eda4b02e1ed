// What another rank announces to the engine is any bytes: read, written again, and negotiated beside what this rank
// announces itself.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "collectives/engine/announcement.h"
#include "collectives/engine/batches.h"
#include "collectives/engine/negotiation.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::collectives;
  const auto announced = read_announcements(std::as_bytes(std::span(data, size)), 2);
  if (!announced.ok()) return 0;
  std::vector<std::byte> written;
  for (const Announcement& announcement : *announced) write(announcement, written);
  // Not by ==: a scale may be no number.
  if (!std::ranges::equal(written, std::as_bytes(std::span(data, size)))) std::abort();

  Negotiation negotiation(2, 0, 4);
  negotiation.submit({"a", {.kind = Kind::kAllreduce, .tensors = {{DType::kF32, {2}}}}});
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<Announcements> of_ranks(2);
    of_ranks[0] = negotiation.announcements();
    if (turn == 0) of_ranks[1].announced = *announced;
    const std::vector<Due> due = negotiation.decide(of_ranks);
    for (const Batch& batch : batches_of(due, 1 << 20)) {
      if (batch.pieces.empty()) std::abort();
    }
    (void)negotiation.late();
  }
  return 0;
}
