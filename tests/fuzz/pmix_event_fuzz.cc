// What the PMIx server's process says, as if a rank had taken it over: the decoder never reads outside of its bytes,
// and what it accepts is the encoding of what it found. The same for what the agent says to it.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "agent/pmix/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::agent::pmix;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (const auto event = decode_event(bytes); event.ok() && encode(*event) != bytes) std::abort();
  if (const auto command = decode_command(bytes); command.ok() && encode(*command) != bytes) std::abort();
  return 0;
}
