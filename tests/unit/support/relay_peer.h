// One end of a relay's connection, as frames: for tests that play a relay to a launcher, or a launcher to a relay.
//
// Thread: one at a time. It blocks.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/net.h"
#include "base/unique_fd.h"
#include "proto/relay_frame.h"

namespace muster::testing_support {

// Connects to a port of this machine.
inline base::UniqueFd connect_here(int port) {
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const base::SockAddr to = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), static_cast<std::uint16_t>(port));
  EXPECT_EQ(::connect(fd.get(), to.get(), to.size), 0);
  return fd;
}

// Waits for a connection. The result is invalid if none comes.
inline base::UniqueFd accept_here(int listening) {
  pollfd readable{listening, POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, 20'000), 1) << "there is no connection";
  return base::UniqueFd(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
}

// Returns exactly `size` bytes, or fewer at the end of the connection, or if nothing more comes for 20 s.
inline std::string read_bytes(int fd, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t got = 0;
  while (got < size) {
    pollfd readable{fd, POLLIN, 0};
    if (::poll(&readable, 1, 20'000) != 1) break;
    const ssize_t n = ::recv(fd, bytes.data() + got, size - got, 0);
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

inline void write_bytes(int fd, const std::string& bytes) {
  EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

// True once the other end has closed the connection. Bytes before the end are skipped.
inline bool ends(int fd) {
  char byte = 0;
  pollfd readable{fd, POLLIN, 0};
  while (::poll(&readable, 1, 20'000) == 1) {
    if (::recv(fd, &byte, 1, 0) <= 0) return true;
  }
  return false;
}
inline bool is_readable(int fd) {
  pollfd readable{fd, POLLIN, 0};
  return ::poll(&readable, 1, 0) == 1;
}

class RelayPeer {
 public:
  struct Frame {
    proto::RelayKind kind = proto::RelayKind::kData;
    std::uint32_t stream = 0;
    std::uint32_t credit = 0;
    std::string payload;
  };

  explicit RelayPeer(base::UniqueFd fd) : fd_(std::move(fd)) {}
  // As a relay.
  static RelayPeer relay(int launcher_port) {
    RelayPeer peer(connect_here(launcher_port));
    write_bytes(peer.fd(), std::string(proto::kRelayHello));
    return peer;
  }

  int fd() const { return fd_.get(); }
  void send(const proto::RelayFrame& frame) {
    std::string bytes;
    proto::append_relay_frame(frame, bytes);
    write_bytes(fd_.get(), bytes);
  }
  void send_data(std::uint32_t stream, std::string_view bytes) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), proto::kMaxRelayPayload))) {
      send({.kind = proto::RelayKind::kData, .stream = stream, .payload = bytes.substr(0, proto::kMaxRelayPayload)});
    }
  }
  // nullopt at the end of the connection, or if nothing comes.
  std::optional<Frame> next() {
    std::string bytes = read_bytes(fd_.get(), proto::kRelayHeaderSize);
    auto parse = proto::parse_relay_frame(bytes);
    EXPECT_TRUE(parse.ok()) << parse.status();
    if (!parse.ok() || bytes.size() < proto::kRelayHeaderSize) return std::nullopt;
    if (!parse->is_complete) {
      bytes += read_bytes(fd_.get(), parse->size - bytes.size());
      parse = proto::parse_relay_frame(bytes);
      if (!parse.ok() || !parse->is_complete) return std::nullopt;
    }
    return Frame{parse->frame.kind, parse->frame.stream, parse->frame.credit, std::string(parse->frame.payload)};
  }
  // Returns the next frame of this kind, and skips others. The frame's stream is 0 if none came.
  Frame next_of(proto::RelayKind kind) {
    while (auto frame = next()) {
      if (frame->kind == kind) return *std::move(frame);
    }
    ADD_FAILURE() << "no frame of kind " << static_cast<int>(kind) << " has come";
    return {};
  }
  // Collects the bytes of one stream until there are `size`.
  std::string read_stream(std::uint32_t stream, std::size_t size) {
    std::string bytes;
    while (bytes.size() < size) {
      const auto frame = next();
      if (!frame) break;
      if (frame->kind == proto::RelayKind::kData && frame->stream == stream) bytes += frame->payload;
    }
    return bytes;
  }

 private:
  base::UniqueFd fd_;
};

}  // namespace muster::testing_support
