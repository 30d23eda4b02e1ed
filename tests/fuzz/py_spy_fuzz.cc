// Feeds bytes to the parser of py-spy's output.
#include <cstdint>
#include <cstdlib>

#include "agent/evidence/py_spy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::agent;
  const auto frames = parse_py_spy({reinterpret_cast<const char*>(data), size}, 42);
  if (!frames.ok()) return 0;
  if (frames->empty() || frames->size() > kMaxPythonFrames) std::abort();
  for (const PythonFrame& frame : *frames) {
    if (frame.line < 0 || frame.function.size() > 1024 || frame.file.size() > 1024) std::abort();
  }
  return 0;
}
