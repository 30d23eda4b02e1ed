// A warden that a test plays: the agent's handle on it is real, but events come from the test, and commands are kept.
// It ends when it is ordered to leave.
#pragma once

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "agent/io/output_sender.h"
#include "agent/process/warden.h"
#include "agent/process/warden_fork.h"
#include "agent/process/warden_protocol.h"
#include "base/clock.h"
#include "base/loop.h"
#include "proto/muster/v1/agent.pb.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::testing {

class FakeWarden {
 public:
  explicit FakeWarden(base::Loop& loop) : socket_(base::UniqueFd()) {
    auto pair = base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK);
    auto session = SessionDir::create(root_.path(), "job1", "0");
    auto lease = LeasePage::create();
    if (!pair.ok() || !session.ok() || !lease.ok()) ::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      while (true) ::pause();
    }
    socket_ = MessageSocket(std::move(pair->second));
    WardenReady ready;
    ready.is_ok = true;
    ready.pid = pid_;
    WardenOptions options;
    options.job_id = "job1";
    auto handle = Warden::adopt(options, WardenParts{std::move(*session), std::move(*lease),
                                                     WardenFork{MessageSocket(std::move(pair->first)), ready}});
    if (!handle.ok()) ::abort();
    handle_.emplace(std::move(*handle));
    readable_ = loop.on_readable(socket_.fd(), [this] { receive(); });
  }
  ~FakeWarden() { end(); }
  FakeWarden(const FakeWarden&) = delete;
  FakeWarden& operator=(const FakeWarden&) = delete;

  Warden take() { return std::move(*handle_); }
  bool has_session_dir(const std::string& path) const { return ::access(path.c_str(), F_OK) == 0; }

  void send(WardenEvent event) {
    SocketMessage message = encode(std::move(event));
    socket_.send(std::move(message.payload), std::move(message.fds));
    EXPECT_TRUE(socket_.flush().ok());
  }

  // The process that stands for the warden is killed. The handle reaps it.
  void end() {
    if (pid_ == 0) return;
    readable_.cancel();
    socket_.close();
    ::kill(pid_, SIGKILL);
    pid_ = 0;
  }

  // The number of commands of this type that have arrived.
  template <typename Command>
  std::size_t count() const {
    std::size_t n = 0;
    for (const WardenCommand& command : commands) n += std::holds_alternative<Command>(command) ? 1U : 0U;
    return n;
  }

  std::vector<WardenCommand> commands;

 private:
  void receive() {
    auto messages = socket_.receive();
    if (!messages.ok() || socket_.peer_gone()) return readable_.cancel();
    for (const SocketMessage& message : *messages) {
      auto command = decode_command(message.payload);
      ASSERT_TRUE(command.ok());
      const bool must_leave = std::holds_alternative<LeaveCommand>(*command);
      commands.push_back(std::move(*command));
      if (must_leave) return end();
    }
  }

  const testing_support::TempDir root_;
  pid_t pid_ = 0;
  MessageSocket socket_;
  std::optional<Warden> handle_;
  base::Timer readable_;
};

inline RankStarted started(int rank, pid_t pid) {
  RankStarted event;
  event.rank = rank;
  event.pid = event.pid_inside = pid;
  event.at = base::monotonic_now();
  return event;
}

inline RankExited exited(int rank, pid_t pid, int wait_status) {
  RankExited event;
  event.rank = rank;
  event.pid = event.pid_inside = pid;
  event.wait_status = wait_status;
  event.at = base::monotonic_now();
  return event;
}

// Output that never reaches a launcher.
inline OutputSenderConfig unreachable_output(bool only_if_any) {
  OutputSenderConfig config;
  config.only_if_any = only_if_any;
  config.connect = [](base::MonotonicTime, int) -> base::Result<base::UniqueFd> {
    return base::error(base::Code::kUnavailable, "no launcher");
  };
  return config;
}

// The messages that an object under test has sent to the launcher.
class SentMessages {
 public:
  void add(v1::AgentMessage message) { all_.push_back(std::move(message)); }
  std::size_t count(v1::AgentMessage::BodyCase body) const {
    return static_cast<std::size_t>(
        std::count_if(all_.begin(), all_.end(), [&](const auto& each) { return each.body_case() == body; }));
  }
  // The last one of this kind; without body if there is none.
  v1::AgentMessage last(v1::AgentMessage::BodyCase body) const {
    v1::AgentMessage found;
    for (const v1::AgentMessage& message : all_) {
      if (message.body_case() == body) found = message;
    }
    return found;
  }

 private:
  std::vector<v1::AgentMessage> all_;
};

// Runs the loop until the condition holds. False if it does not within some seconds.
inline bool run_until(base::Loop& loop, const std::function<bool()>& condition) {
  const base::MonotonicTime deadline = base::monotonic_now() + std::chrono::seconds(10);
  while (!condition() && base::monotonic_now() < deadline) {
    const base::Timer pause = loop.after(std::chrono::milliseconds(2), [&loop] { loop.stop(); });
    loop.run();
  }
  return condition();
}

}  // namespace muster::agent::testing
