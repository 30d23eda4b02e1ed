// Feeds bytes to the parsers of stacks that programs write by faulthandler: the first line is the header.
#include <csignal>
#include <cstdint>
#include <cstdlib>

#include "agent/evidence/stack_dump.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::agent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto header = parse_stack_dump_header(text.substr(0, text.find('\n')));
  if (header.ok() && (header->signal < SIGRTMIN || header->signal > SIGRTMAX)) std::abort();
  const auto frames = parse_stack_dump(text);
  if (frames.size() > kMaxPythonFrames) std::abort();
  for (const PythonFrame& frame : frames) {
    if (frame.line < 0 || frame.function.size() > 1024 || frame.file.size() > 1024) std::abort();
  }
  return 0;
}
