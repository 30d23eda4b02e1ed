// What the helper says of GPUs, as if the library in it had taken it over: the decoder never reads outside of its
// bytes, and what it accepts is the encoding of what it found.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "agent/gpus/report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::agent::gpus;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (const auto report = decode_report(bytes); report.ok() && encode(*report) != bytes) std::abort();
  return 0;
}
