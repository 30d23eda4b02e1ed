// What a rank says over PMI_FD, from anybody: it does not matter in which pieces the bytes come, and nothing beyond a
// line is kept.
#include <cstdint>
#include <cstdlib>

#include "agent/pmi/pmi_line.h"

namespace {

using namespace muster::agent;

std::string read_in_pieces(std::string_view bytes, std::size_t piece) {
  PmiReader reader;
  std::string read;
  while (!bytes.empty()) {
    const std::string_view head = bytes.substr(0, piece);
    bytes.remove_prefix(head.size());
    reader.append(head);
    for (;;) {
      const auto command = reader.next();
      if (!command.ok()) return read + "!";
      if (!command->has_value()) break;
      if ((*command)->name.empty()) std::abort();
      read += (*command)->name + "\n";
      for (const auto& [key, value] : (*command)->words) {
        if (key.empty() || key.find('=') != std::string::npos) std::abort();
        read += key + "=" + value + "\n";
      }
    }
  }
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string in_pieces = read_in_pieces(bytes, 7);
  if (read_in_pieces(bytes, 1) != in_pieces || read_in_pieces(bytes, size + 1) != in_pieces) std::abort();
  return 0;
}
