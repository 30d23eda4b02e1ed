#include "collectives/transport/message.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace muster::collectives::inline transport {

static_assert(std::endian::native == std::endian::little);

Moved Outgoing::turn() {
  if (!is_ready()) return Moved::kNothing;
  const auto header = std::as_bytes(std::span(&header_, 1)).subspan(header_sent_);
  const std::ptrdiff_t moved = link_->try_send(header, unsent_);
  if (moved < 0) return Moved::kBroken;
  if (moved == 0) return Moved::kNothing;
  const std::size_t of_header = std::min(header.size(), static_cast<std::size_t>(moved));
  const std::size_t of_body = static_cast<std::size_t>(moved) - of_header;
  header_sent_ += of_header;
  unsent_ = unsent_.subspan(of_body);
  sent_ += of_body;
  return Moved::kSome;
}

Moved Incoming::turn() {
  if (!is_ready() || is_mismatch_) return is_mismatch_ ? Moved::kBroken : Moved::kNothing;
  const auto header = std::as_writable_bytes(std::span(&header_, 1)).subspan(header_received_);
  const std::ptrdiff_t moved = link_->try_receive(header, place_);
  if (moved < 0) return Moved::kBroken;
  if (moved == 0) return Moved::kNothing;
  const std::size_t of_header = std::min(header.size(), static_cast<std::size_t>(moved));
  const std::size_t of_body = static_cast<std::size_t>(moved) - of_header;
  header_received_ += of_header;
  place_ = place_.subspan(of_body);
  received_ += of_body;
  if (!is_checked_ && header_received_ == sizeof(MessageHeader)) {
    is_checked_ = std::memcmp(&header_, &expected_, sizeof(MessageHeader)) == 0;
    is_mismatch_ = !is_checked_;
    if (is_mismatch_) return Moved::kBroken;
  }
  return Moved::kSome;
}

base::Status Incoming::mismatch(const std::string& peer, const std::string& own) const {
  using base::Code;
  if (header_.magic != MessageHeader::kMagic) {
    return base::data_loss("{} sent data that is not a Muster message: do all ranks use the same version?", peer);
  }
  const std::string theirs = describe(header_.call);
  const std::string ours = describe(expected_.call);
  if (theirs != ours) {
    return base::failed_precondition("{} called {}; {} called {}", peer, theirs, own,
                                     expected_.call.op == Op::kSend ? describe_receive(expected_.call) : ours);
  }
  if (header_.sequence != expected_.sequence) {
    return base::failed_precondition(
        "{} is at operation {} of this communicator, {} at {} (both {}): a rank has skipped an operation", peer,
        header_.sequence, own, expected_.sequence, ours);
  }
  if (header_.bytes != expected_.bytes) {
    return base::failed_precondition("{} sent {} bytes in {}; {} expected {}", peer, header_.bytes, ours, own,
                                     expected_.bytes);
  }
  return base::failed_precondition("{} chose another algorithm for {} than {}: give both the same settings", peer, ours,
                                   own);
}

}  // namespace muster::collectives::transport
