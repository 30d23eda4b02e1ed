// Packed Horovod values from anybody: unpacking stays within its limit, and packing gives back any bytes.
#include <cstdint>
#include <cstdlib>

#include "rendezvous/horovod_pack.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::rendezvous;
  constexpr std::size_t kMax = 4096;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto value = unpack_horovod_value(bytes, kMax); value.ok()) {
    if (value->size() > kMax) std::abort();
    const auto again = unpack_horovod_value(pack_horovod_value(*value), kMax);
    if (!again.ok() || *again != *value) std::abort();
  }
  const auto same = unpack_horovod_value(pack_horovod_value(bytes), size);
  if (!same.ok() || *same != bytes) std::abort();
  return 0;
}
