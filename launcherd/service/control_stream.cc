#include "launcherd/service/control_stream.h"

#include <array>
#include <string_view>

#include "base/free_if_empty.h"

namespace muster::launcherd::inline service {
namespace {

using base::TlsProgress;

constexpr std::size_t kRecord = std::size_t{16} * 1024;
constexpr std::size_t kTurn = std::size_t{256} * 1024;  // bytes that a stream may read before others have their turn
constexpr std::size_t kKept = 256;                      // capacity that an idle stream may keep

}  // namespace

base::Status ControlStream::serve(const OnFrame& on_frame) {
  has_more_ = false;
  if (!is_proven_) {
    MUSTER_ASSIGN_OR_RETURN(const TlsProgress progress, tls_.handshake_step());
    wants_write_ = progress == TlsProgress::kWantWrite;
    if (progress != TlsProgress::kDone) return base::ok_status();
    is_proven_ = true;
  }
  MUSTER_RETURN_IF_ERROR(write_pending());
  return read_some(on_frame);
}

base::Status ControlStream::read_some(const OnFrame& on_frame) {
  std::array<char, kRecord> buffer;
  std::size_t total = 0;
  while (!is_held_back) {
    MUSTER_ASSIGN_OR_RETURN(const base::TlsTransfer moved, tls_.read(buffer.data(), buffer.size()));
    if (moved.progress == TlsProgress::kEof) return base::unavailable("the agent closed the connection");
    if (moved.bytes == 0) return base::ok_status();
    if (!is_discarding) {
      partial_.append(buffer.data(), moved.bytes);
      MUSTER_RETURN_IF_ERROR(parse(on_frame));
    }
    total += moved.bytes;
    has_more_ = total >= kTurn;
    if (has_more_) return base::ok_status();
  }
  return base::ok_status();
}

base::Status ControlStream::parse(const OnFrame& on_frame) {
  std::string_view rest = partial_;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const proto::ControlParse parse, proto::parse_control_frame(rest, proto::kMaxAgentMessage));
    if (!parse.is_complete) break;
    on_frame(parse.frame);
    rest.remove_prefix(parse.size);
  }
  partial_.erase(0, partial_.size() - rest.size());
  base::free_if_empty(partial_, kKept);
  return base::ok_status();
}

// Gathers small frames, so that they travel in one record.
void ControlStream::fill_outgoing() {
  while (!queue_.empty() && outgoing_.size() < kRecord) {
    outgoing_ += *queue_.front();
    queue_.pop_front();
  }
}

base::Status ControlStream::write_pending() {
  wants_write_ = false;
  if (!is_proven_) return base::ok_status();
  while (true) {
    fill_outgoing();
    if (outgoing_.empty()) break;
    std::size_t sent = 0;
    while (sent < outgoing_.size()) {
      MUSTER_ASSIGN_OR_RETURN(const base::TlsTransfer moved,
                              tls_.write(outgoing_.data() + sent, outgoing_.size() - sent));
      wants_write_ = moved.progress == TlsProgress::kWantWrite;
      if (moved.bytes == 0) break;
      sent += moved.bytes;
    }
    outgoing_.erase(0, sent);
    if (!outgoing_.empty()) return base::ok_status();
  }
  base::free_if_empty(outgoing_, kKept);
  return base::ok_status();
}

}  // namespace muster::launcherd::service
