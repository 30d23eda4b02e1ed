// A join file may hold any bytes: what is read comes back when it is written again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "proto/join_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::proto;
  const auto file = parse_join_file({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) return 0;
  const auto again = parse_join_file(format_join_file(*file));
  if (!again.ok() || again->addresses != file->addresses || again->port != file->port ||
      again->identity != file->identity || again->token != file->token || again->expires != file->expires ||
      again->variables != file->variables || again->stays != file->stays) {
    std::abort();
  }
  return 0;
}
