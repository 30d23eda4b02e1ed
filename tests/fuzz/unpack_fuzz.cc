// What a launcher sends to muster-unpack: the line before the agent, and the compressed agent. Memory and disk must
// stay bounded, and only bytes with the announced size and hash may pass.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "agent/unpack/source_line.h"
#include "agent/unpack/unpacker.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line_end = std::min(text.find('\n'), text.size());
  if (const auto line = muster::agent::parse_source_line(text.substr(0, line_end))) {
    require(line->sha256.size() == 64 && line->size > 0 && (line->packed_size > 0 || line->port > 0));
  }
  std::string_view bytes = text.substr(std::min(line_end + 1, text.size()));
  constexpr std::uint64_t kMost = 100'000;
  muster::agent::HashedFile file(null, kMost);
  muster::agent::Unpacker unpacker(file);
  const std::size_t piece = size % 32U + 1;
  bool is_good = true;
  while (!bytes.empty() && is_good) {
    is_good = unpacker.add(bytes.substr(0, piece)).empty();
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  require(file.written() <= kMost);
  if (is_good && unpacker.check_end().empty()) require(!file.check("no hash").empty());
  return 0;
}
