// Feeds bytes to the parser of PyTorch's flight recorder. What it returns must be short and have a known state.
#include <cstdint>
#include <cstdlib>

#include "agent/evidence/flight_recorder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto last = muster::agent::parse_flight_recorder({reinterpret_cast<const char*>(data), size});
  if (!last.ok() || !*last) return 0;
  const muster::model::TorchCollective& torch = **last;
  if (torch.group.size() > 100 || torch.operation.size() > 100) std::abort();
  if (torch.state != "scheduled" && torch.state != "started" && torch.state != "completed") std::abort();
  return 0;
}
