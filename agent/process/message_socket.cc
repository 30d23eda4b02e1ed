#include "agent/process/message_socket.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace muster::agent::inline process {
namespace {

constexpr std::size_t kMaxFds = 8;
constexpr std::size_t kReadBytes = 64u << 10;

struct Header {
  std::uint32_t payload_bytes = 0;
  std::uint32_t fd_count = 0;
};

}  // namespace

void MessageSocket::send(std::string payload, std::vector<base::UniqueFd> fds) {
  MUSTER_CHECK(fds.size() <= kMaxFds);
  const Header header{static_cast<std::uint32_t>(payload.size()), static_cast<std::uint32_t>(fds.size())};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += payload;
  outgoing_.push_back({std::move(bytes), 0, std::move(fds)});
}

base::Status MessageSocket::flush() {
  while (!outgoing_.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const bool is_sent, send_some(outgoing_.front()));
    if (!is_sent) return base::ok_status();
    outgoing_.pop_front();
  }
  return base::ok_status();
}

// Returns true if the whole message is sent. Descriptors travel with its first byte, so they arrive in the order of
// messages.
base::Result<bool> MessageSocket::send_some(Outgoing& message) {
  while (message.sent < message.bytes.size()) {
    iovec part{message.bytes.data() + message.sent, message.bytes.size() - message.sent};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFds)> control{};
    if (message.sent == 0 && !message.fds.empty()) {
      const std::size_t bytes = sizeof(int) * message.fds.size();
      header.msg_control = control.data();
      header.msg_controllen = CMSG_SPACE(bytes);
      cmsghdr* rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(bytes);
      for (std::size_t i = 0; i < message.fds.size(); ++i) {
        const int fd = message.fds[i].get();
        std::memcpy(CMSG_DATA(rights) + i * sizeof fd, &fd, sizeof fd);
      }
    }
    const ssize_t n = ::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == ETOOMANYREFS) return false;
      return base::errno_error(errno, "write between agent and warden");
    }
    message.sent += static_cast<std::size_t>(n);
    message.fds.clear();
  }
  return true;
}

base::Result<std::vector<SocketMessage>> MessageSocket::receive() {
  while (!peer_gone_) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_more, receive_some());
    if (!has_more) break;
  }
  std::vector<SocketMessage> messages;
  MUSTER_RETURN_IF_ERROR(read_messages(messages));
  return messages;
}

// Returns false if nothing more has arrived for now.
base::Result<bool> MessageSocket::receive_some() {
  std::array<char, kReadBytes> buffer;
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFds)> control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (n < 0) {
    if (errno == EINTR) return true;
    if (errno == EAGAIN) return false;
    if (errno != ECONNRESET) return base::errno_error(errno, "read between agent and warden");
  }
  if (n <= 0) {
    peer_gone_ = true;
    return false;
  }
  for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr; rights = CMSG_NXTHDR(&header, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof fd, sizeof fd);
      incoming_fds_.emplace_back(fd);
    }
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    return base::resource_exhausted("no file descriptor is left for the output of a rank (raise ulimit -n)");
  }
  incoming_.append(buffer.data(), static_cast<std::size_t>(n));
  return true;
}

base::Status MessageSocket::read_messages(std::vector<SocketMessage>& into) {
  std::size_t at = 0;
  while (incoming_.size() - at >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, incoming_.data() + at, sizeof header);
    if (header.payload_bytes > max_payload_ || header.fd_count > kMaxFds) {
      return base::invalid_argument("a message of {} bytes and {} descriptors is too long", header.payload_bytes,
                                    header.fd_count);
    }
    if (incoming_.size() - at - sizeof header < header.payload_bytes) break;
    SocketMessage message;
    message.payload = incoming_.substr(at + sizeof header, header.payload_bytes);
    for (std::uint32_t i = 0; i < header.fd_count && !incoming_fds_.empty(); ++i) {
      message.fds.push_back(std::move(incoming_fds_.front()));
      incoming_fds_.pop_front();
    }
    at += sizeof header + header.payload_bytes;
    into.push_back(std::move(message));
  }
  incoming_.erase(0, at);
  return base::ok_status();
}

}  // namespace muster::agent::process
