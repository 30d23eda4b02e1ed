// Bytes of the job store that should be an event: they are one, or one sentence says that they are not; an event can be
// shown as a line of JSON.
#include <cstdint>
#include <string_view>

#include "proto/message_json.h"
#include "proto/stored_event.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  const auto event = proto::event_of_store({reinterpret_cast<const char*>(data), size}, 7);
  if (!event.ok()) {
    MUSTER_CHECK(event.status().code() == base::Code::kDataLoss);
    MUSTER_CHECK(event.status().message().find('\n') == std::string::npos);
    return 0;
  }
  MUSTER_CHECK(event->sequence() == 7);
  const std::string line = proto::message_line(*event);
  MUSTER_CHECK(line.find('\n') == line.size() - 1);
  return 0;
}
