// Decodes any bytes as the address that a worker publishes for its notification service. The decoder never reads
// outside of these bytes, runs nothing, and accepts only endpoints with ports and a key of the right length.
#include <cstdint>
#include <cstdlib>

#include "rendezvous/horovod_worker_address.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::rendezvous;
  const auto parsed = parse_horovod_worker_address({reinterpret_cast<const char*>(data), size});
  if (!parsed.ok()) return 0;
  if (parsed->key.size() != kHorovodNoticeKeyBytes || parsed->endpoints.empty()) std::abort();
  for (const HorovodEndpoint& each : parsed->endpoints) {
    if (each.port == 0 || each.address.size() > 255) std::abort();
  }
  return 0;
}
