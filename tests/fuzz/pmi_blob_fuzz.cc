// PMI values as another host's agent sends them, from anybody: what is taken keeps to the limits, and comes out of a
// blob of it again.
#include <cstdint>
#include <cstdlib>

#include "agent/pmi/pmi_space.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::agent;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  PmiSpace space({.max_put_bytes = 4096, .max_total_bytes = 8192});
  const bool is_blob = space.merge(bytes).ok();
  if (!is_blob) return 0;
  PmiSpace other;
  if (!other.merge(bytes).ok()) std::abort();
  if (other.put("k", "v").ok() != true || *other.get("k") != "v") std::abort();
  PmiSpace third;
  if (!third.merge(other.take_blob()).ok() || third.get("k") == nullptr) std::abort();
  return 0;
}
