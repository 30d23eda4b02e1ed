// One end of a control channel, as frames over TLS: for tests that play an agent or a launcher.
//
// Thread: one at a time. It blocks. The thread must have SIGPIPE blocked or ignored.
//
//   ControlPeer agent(connected_fd, *base::TlsContext::client(key));
//   ASSERT_TRUE(agent.handshake());
//   agent.send(hello);
#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/tls.h"
#include "base/unique_fd.h"
#include "proto/control_frame.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::testing_support {

class ControlPeer {
 public:
  static constexpr std::chrono::seconds kPatience{20};

  struct Frame {
    proto::ControlKind kind = proto::ControlKind::kMessage;
    std::string payload;
  };
  enum class Next { kFrame, kWoken, kEnd };

  ControlPeer(base::UniqueFd fd, const base::TlsContext& context) : tls_(context, std::move(fd)) {}

  bool handshake() { return tls_.handshake_blocking(deadline(), -1).ok(); }
  std::string identity() const { return tls_.peer_identity(); }
  int fd() const { return tls_.fd(); }

  // Returns whether all bytes were written.
  bool send_bytes(const std::string& bytes) {
    return tls_.write_all_blocking(bytes.data(), bytes.size(), deadline(), -1).ok();
  }
  bool send_frame(proto::ControlKind kind, const std::string& payload) {
    std::string bytes;
    proto::append_control_header(kind, payload.size(), bytes);
    return send_bytes(bytes + payload);
  }
  template <typename Message>
  bool send(const Message& message) {
    return send_frame(proto::ControlKind::kMessage, message.SerializeAsString());
  }

  // Waits for the next frame, or until `wake_fd` (an eventfd) is written. kEnd: the stream has ended, or, without a
  // wake_fd, nothing came.
  Next next(Frame& frame, int wake_fd = -1) {
    const base::MonotonicTime until = deadline();
    std::vector<char> chunk(std::size_t{16} << 10);
    while (true) {
      if (take_frame(frame)) return Next::kFrame;
      const auto moved = tls_.read(chunk.data(), chunk.size());
      if (!moved.ok() || moved->progress == base::TlsProgress::kEof) return Next::kEnd;
      partial_.append(chunk.data(), moved->bytes);
      if (moved->bytes > 0) continue;
      pollfd wanted[2] = {{tls_.fd(), POLLIN, 0}, {wake_fd, POLLIN, 0}};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - base::monotonic_now()).count();
      if (::poll(wanted, 2, wake_fd >= 0 ? -1 : static_cast<int>(std::max<long>(left, 0))) == 0) return Next::kEnd;
      if (wanted[1].revents == 0) continue;
      eventfd_t ignored = 0;
      ::eventfd_read(wake_fd, &ignored);
      return Next::kWoken;
    }
  }
  std::optional<Frame> next() {
    Frame frame;
    if (next(frame) != Next::kFrame) return std::nullopt;
    return frame;
  }
  // Returns the next message. nullopt at the end of the stream, or if the next frame is no message.
  template <typename Message>
  std::optional<Message> next_message() {
    const auto frame = next();
    Message message;
    if (!frame || frame->kind != proto::ControlKind::kMessage || !message.ParseFromString(frame->payload)) return {};
    return message;
  }
  // Reads up to the end of the stream. Returns the reason of its End, or "" if there is none.
  std::string read_to_end() {
    while (const auto frame = next()) {
      if (frame->kind == proto::ControlKind::kEnd) return frame->payload;
    }
    return "";
  }

 private:
  static base::MonotonicTime deadline() { return base::monotonic_now() + kPatience; }

  bool take_frame(Frame& frame) {
    const auto parse = proto::parse_control_frame(partial_, proto::kMaxLauncherMessage);
    EXPECT_TRUE(parse.ok()) << parse.status();
    if (!parse.ok() || !parse->is_complete) return false;
    frame = {parse->frame.kind, std::string(parse->frame.payload)};
    partial_.erase(0, parse->size);
    return true;
  }

  base::TlsStream tls_;
  std::string partial_;
};

}  // namespace muster::testing_support
