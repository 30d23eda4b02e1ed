#include "collectives/transport/sealed_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace muster::collectives::inline transport {
namespace {

constexpr std::size_t kArrivedBytes = 4 * kMaxRecordSize;

}  // namespace

SealedLink::SealedLink(base::UniqueFd socket, RecordSealer sealer, RecordOpener opener, std::string peer)
    : socket_(std::move(socket)),
      sealer_(std::move(sealer)),
      opener_(std::move(opener)),
      peer_(std::move(peer)),
      sealed_(kMaxRecordSize),
      arrived_(kArrivedBytes) {}

base::Result<std::unique_ptr<SealedLink>> SealedLink::create(base::UniqueFd socket, const RecordKeys& keys,
                                                             std::string peer) {
  MUSTER_ASSIGN_OR_RETURN(RecordSealer sealer, RecordSealer::create(keys.sending));
  MUSTER_ASSIGN_OR_RETURN(RecordOpener opener, RecordOpener::create(keys.receiving));
  return std::unique_ptr<SealedLink>(
      new SealedLink(std::move(socket), std::move(sealer), std::move(opener), std::move(peer)));
}

bool SealedLink::fail(const base::Status& why) {
  if (broken_.ok()) broken_ = why;
  return false;
}

std::ptrdiff_t SealedLink::try_send(std::span<const std::byte> head, std::span<const std::byte> body) {
  std::size_t sent = 0;
  while (broken_.ok() && sent < kMostAtOnce) {
    if (sealed_bytes_ == 0) {
      const auto from_head = head.subspan(std::min(sent, head.size()));
      const auto from_body = body.subspan(sent - std::min(sent, head.size()));
      const auto first = from_head.first(std::min(from_head.size(), kMaxRecordBytes));
      const auto second = from_body.first(std::min(from_body.size(), kMaxRecordBytes - first.size()));
      if (first.empty() && second.empty()) break;
      const auto size = sealer_.seal(first, second, sealed_);
      if (!size.ok()) {
        fail(size.status());
        break;
      }
      sealed_size_ = *size;
      flushed_ = 0;
      sealed_bytes_ = first.size() + second.size();
    }
    if (!flush()) break;
    sent += std::exchange(sealed_bytes_, 0);
  }
  if (sent == 0 && !broken_.ok()) return -1;
  return static_cast<std::ptrdiff_t>(sent);
}

bool SealedLink::flush() {
  while (flushed_ < sealed_size_) {
    const ssize_t sent =
        ::send(socket_.get(), sealed_.data() + flushed_, sealed_size_ - flushed_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      flushed_ += static_cast<std::size_t>(sent);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return false;
    return fail(base::unavailable("the connection to {} broke: {}", peer_, std::strerror(errno)));
  }
  return true;
}

std::ptrdiff_t SealedLink::try_receive(std::span<std::byte> head, std::span<std::byte> body) {
  std::size_t received = 0;
  for (std::span<std::byte> place : {head, body}) {
    while (!place.empty() && received < kMostAtOnce) {
      if (opened_.empty() && !open_next()) {
        if (received == 0 && !broken_.ok()) return -1;
        return static_cast<std::ptrdiff_t>(received);
      }
      const std::size_t size = std::min(place.size(), opened_.size());
      std::memcpy(place.data(), opened_.data(), size);
      place = place.subspan(size);
      opened_ = opened_.subspan(size);
      received += size;
    }
    if (!place.empty()) break;
  }
  return static_cast<std::ptrdiff_t>(received);
}

bool SealedLink::open_next() {
  while (broken_.ok()) {
    const std::span<std::byte> there(arrived_.data() + begin_, end_ - begin_);
    if (there.size() >= kRecordHeadBytes) {
      const auto size = RecordOpener::size_of_record(there);
      if (!size.ok()) return fail(size.status().with_context("the connection to " + peer_));
      if (there.size() >= *size) {
        auto bytes = opener_.open(there.first(*size));
        if (!bytes.ok()) return fail(bytes.status().with_context("the connection to " + peer_));
        begin_ += *size;
        opened_ = *bytes;
        return true;
      }
    }
    if (!read_more()) return false;
  }
  return false;
}

bool SealedLink::read_more() {
  if (begin_ == end_) begin_ = end_ = 0;
  if (arrived_.size() - begin_ < kMaxRecordSize) {
    std::memmove(arrived_.data(), arrived_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  while (true) {
    const ssize_t count = ::recv(socket_.get(), arrived_.data() + end_, arrived_.size() - end_, MSG_DONTWAIT);
    if (count > 0) {
      end_ += static_cast<std::size_t>(count);
      return true;
    }
    if (count == 0) {
      return fail(
          base::unavailable("{} closed its connection{}", peer_, begin_ == end_ ? "" : " in the middle of a record"));
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return false;
    return fail(base::unavailable("the connection to {} broke: {}", peer_, std::strerror(errno)));
  }
}

base::Status SealedLink::why() const {
  return broken_;
}

}  // namespace muster::collectives::transport
