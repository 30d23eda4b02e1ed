#include "rendezvous/stream_uplink.h"

#include <utility>

#include "base/little_endian.h"

namespace muster::rendezvous {
namespace {

constexpr std::size_t kMostWaitText = 512;
constexpr std::size_t kMostQuestions = 64;  // about one client at a time

}  // namespace

HorovodValue stream_credit(std::size_t size) {
  std::string bytes(sizeof(std::uint32_t), '\0');
  base::put_little_endian(bytes.data(), static_cast<std::uint32_t>(size));
  return make_horovod_value(std::move(bytes));
}

std::optional<std::size_t> parse_stream_credit(std::string_view value) {
  if (value.size() != sizeof(std::uint32_t)) return std::nullopt;
  const std::size_t size = base::get_little_endian<std::uint32_t>(value.data());
  return size <= kStreamWindow ? std::optional(size) : std::nullopt;
}

HorovodValue encode_stream_wait(const std::optional<StreamWait>& wait) {
  if (!wait) return nullptr;
  std::string bytes(sizeof(std::uint64_t), '\0');
  base::put_little_endian(bytes.data(), static_cast<std::uint64_t>(wait->age.count()));
  return make_horovod_value(bytes + wait->what.substr(0, kMostWaitText));
}

base::Result<std::optional<StreamWait>> parse_stream_wait(std::string_view value) {
  if (value.empty()) return std::optional<StreamWait>();
  constexpr std::size_t kAge = sizeof(std::uint64_t);
  constexpr std::uint64_t kMostAge = std::uint64_t{1} << 50;  // ms, 35,000 years
  if (value.size() < kAge || value.size() > kAge + kMostWaitText) {
    return base::invalid_argument("store link: the answer about a client has {} bytes", value.size());
  }
  const auto age = base::get_little_endian<std::uint64_t>(value.data());
  if (age > kMostAge) return base::invalid_argument("store link: a client waits for {} ms", age);
  return std::optional(StreamWait{.what = std::string(value.substr(kAge)),
                                  .age = std::chrono::milliseconds(static_cast<std::int64_t>(age))});
}

ByteStreams::Id StreamUplink::open(std::string_view client, Events events) {
  const Id id = next_++;
  Stream& stream = streams_.emplace(id, Stream{.events = std::move(events)}).first->second;
  stream.client = client;
  stream.is_sent = send_({.kind = HorovodFrameKind::kStreamOpen, .id = id, .key = stream.client}, nullptr);
  return id;
}

void StreamUplink::send(Id id, std::string_view bytes) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  if (!found->second.is_sent) return found->second.unsent.emplace_back(bytes), void();
  send_({.kind = HorovodFrameKind::kStreamBytes, .id = id}, make_horovod_value(std::string(bytes)));
}

void StreamUplink::credit(Id id, std::size_t size) {
  if (size == 0 || !streams_.contains(id)) return;
  send_({.kind = HorovodFrameKind::kStreamCredit, .id = id}, stream_credit(size));
}

void StreamUplink::close(Id id) {
  auto found = streams_.extract(id);
  if (found.empty()) return;
  drop_questions(found.mapped());
  if (!found.mapped().is_sent) return;
  send_({.kind = HorovodFrameKind::kStreamClose, .id = id}, nullptr);
}

base::Status StreamUplink::on_frame(const HorovodFrame& frame) {
  const auto found = streams_.find(frame.id);
  switch (frame.kind) {
    case HorovodFrameKind::kStreamBytes:
      // A stream that this host has closed may still get bytes.
      if (found != streams_.end()) found->second.events.on_bytes(frame.value);
      return base::ok_status();
    case HorovodFrameKind::kStreamCredit: {
      const auto size = parse_stream_credit(frame.value);
      if (!size) return base::invalid_argument("store link: a stream's window that is none");
      if (found != streams_.end()) found->second.events.on_credit(*size);
      return base::ok_status();
    }
    case HorovodFrameKind::kStreamClose: {
      auto closed = streams_.extract(frame.id);
      if (closed.empty()) return base::ok_status();
      drop_questions(closed.mapped());
      closed.mapped().events.on_closed();
      return base::ok_status();
    }
    case HorovodFrameKind::kStreamWait:
      return answered(frame.id, frame.value);
    default:
      return base::invalid_argument("store link: the host above sent a frame of kind {}", static_cast<int>(frame.kind));
  }
}

void StreamUplink::ask_wait(Id id, Answer done) {
  const auto found = streams_.find(id);
  const bool is_asked = found != streams_.end() && found->second.is_sent && found->second.asked.size() < kMostQuestions;
  if (!is_asked || !send_({.kind = HorovodFrameKind::kStreamAsk, .id = id}, nullptr)) return done(std::nullopt);
  found->second.asked.push_back(std::move(done));
}

base::Status StreamUplink::answered(Id id, std::string_view value) {
  MUSTER_ASSIGN_OR_RETURN(std::optional<StreamWait> wait, parse_stream_wait(value));
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.asked.empty()) return base::ok_status();  // the stream was closed here
  const Answer done = std::move(found->second.asked.front());
  found->second.asked.erase(found->second.asked.begin());
  done(std::move(wait));
  return base::ok_status();
}

void StreamUplink::drop_questions(Stream& stream) {
  for (const Answer& done : std::exchange(stream.asked, {})) done(std::nullopt);
}

void StreamUplink::connected() {
  for (auto& [id, stream] : streams_) {
    stream.is_sent = send_({.kind = HorovodFrameKind::kStreamOpen, .id = id, .key = stream.client}, nullptr);
    for (std::string& piece : std::exchange(stream.unsent, {})) {
      send_({.kind = HorovodFrameKind::kStreamBytes, .id = id}, make_horovod_value(std::move(piece)));
    }
  }
}

// The bytes that were under way are lost, so a stream cannot go on.
void StreamUplink::lost() {
  std::vector<Events> closed;
  for (auto stream = streams_.begin(); stream != streams_.end();) {
    if (!stream->second.is_sent) {
      ++stream;
      continue;
    }
    drop_questions(stream->second);
    closed.push_back(std::move(stream->second.events));
    stream = streams_.erase(stream);
  }
  for (const Events& events : closed) events.on_closed();
}

}  // namespace muster::rendezvous
