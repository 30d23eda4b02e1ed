#include "proto/stored_event.h"

#include <limits>

#include "proto/event_json.h"

namespace muster::proto {
namespace {

// The years 1 to 9999: others have no form in RFC 3339, and so none in JSON.
bool is_valid(const google::protobuf::Timestamp& time) {
  return time.seconds() >= -62'135'596'800 && time.seconds() <= 253'402'300'799 && time.nanos() >= 0 &&
         time.nanos() <= 999'999'999;
}

}  // namespace

std::string stored_event(const model::JobEvent& event, base::WallTime time) {
  return make_event(event, 0, time).SerializeAsString();
}

base::Result<v1::Event> event_of_store(std::string_view bytes, std::uint64_t sequence) {
  v1::Event message;
  const bool is_short = bytes.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (!is_short || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !is_valid(message.time())) {
    return base::error(base::Code::kDataLoss,
                       "event {} of the job store is no event: restore a copy of the store, or forget the job",
                       sequence);
  }
  message.set_sequence(sequence);
  return message;
}

}  // namespace muster::proto
