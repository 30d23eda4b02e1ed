// What a rank hands to PMIx_Log: any bytes make a bounded text that cannot steer a terminal.
#include <cstdint>
#include <cstdlib>

#include "agent/pmix/log_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = muster::agent::pmix::log_text({reinterpret_cast<const char*>(data), size});
  if (text.size() > (64u << 10) + 1 || text.size() > size + 1) std::abort();
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') std::abort();
  }
  return 0;
}
