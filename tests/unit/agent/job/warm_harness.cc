#include "tests/unit/agent/job/warm_harness.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <utility>

#include <gtest/gtest.h>

#include "agent/proc/proc_table.h"
#include "base/net.h"
#include "proto/control_key.h"
#include "proto/frame.h"
#include "proto/output_frame.h"
#include "proto/peer_names.h"
#include "tests/unit/support/control_peer.h"

namespace muster::agent::testing {
namespace {

using Clock = std::chrono::steady_clock;
using testing_support::ControlPeer;

void block_sigpipe() {
  sigset_t pipe;
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
}

std::string read_line(int fd) {
  std::string line;
  char next = 0;
  while (::read(fd, &next, 1) == 1) {
    if (next == '\n') return line;
    line += next;
  }
  return line;
}

}  // namespace

namespace {

// An agent that dials meanwhile may have this port as its own for a moment.
base::UniqueFd listen_again(std::uint16_t port) {
  const auto until = Clock::now() + kPatience;
  while (true) {
    auto listening = base::listen_any(port, 16);
    if (listening.ok()) return std::move(*listening);
    MUSTER_CHECK(Clock::now() < until);
    std::this_thread::yield();
  }
}

}  // namespace

class FakeLauncher::Service {
 public:
  Service(LauncherState& state, std::string instance)
      : instance_(std::move(instance)),
        tls_(*base::TlsContext::server({proto::control_key(kStateName, state.token)})),
        listening_(listen_again(state.control_port)),
        stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    state.control_port = *base::local_port(listening_.get());
    accepting_ = std::thread([this] { accept(); });
  }
  ~Service() {
    ::eventfd_write(stop_.get(), 1);
    accepting_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const auto& stream : streams_) stream->end();
    }
    for (const auto& stream : streams_) stream->thread.join();
  }

  void send(v1::LauncherMessage message) {
    const std::lock_guard lock(mutex_);
    message.set_ack(incoming_.last_received());
    const v1::LauncherMessage& numbered = outgoing_.push(std::move(message));
    if (stream_ != nullptr) stream_->send(numbered);
  }

  void send_unnumbered(const v1::LauncherMessage& message) {
    const std::lock_guard lock(mutex_);
    if (stream_ != nullptr) stream_->send(message);
  }

  void cut() {
    const std::lock_guard lock(mutex_);
    if (stream_ != nullptr) stream_->end();
    stream_ = nullptr;
  }

  void refuse(bool on) {
    const std::lock_guard lock(mutex_);
    refuses_ = on;
  }

  template <typename Take>
  bool wait(const Take& take) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, take);
  }

  std::deque<v1::Hello> hellos;
  std::deque<v1::AgentMessage> messages;
  std::uint64_t last_received() {
    const std::lock_guard lock(mutex_);
    return incoming_.last_received();
  }

 private:
  // Its thread alone uses the connection. The members are guarded by mutex_.
  struct Stream {
    void send(const v1::LauncherMessage& message) {
      waiting.push_back(message);
      ::eventfd_write(wake.get(), 1);
    }
    void end() {
      is_ended = true;
      ::eventfd_write(wake.get(), 1);
    }
    base::UniqueFd wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::deque<v1::LauncherMessage> waiting;
    bool is_ended = false;
    std::thread thread;
  };

  void accept() {
    while (true) {
      std::array<pollfd, 2> wanted{{{listening_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
      ::poll(wanted.data(), wanted.size(), -1);
      if (wanted[1].revents != 0) return;
      base::UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd.valid()) continue;
      const std::lock_guard lock(mutex_);
      Stream& stream = *streams_.emplace_back(std::make_unique<Stream>());
      stream.thread = std::thread([this, &stream, raw = fd.release()] { serve(stream, base::UniqueFd(raw)); });
    }
  }

  void serve(Stream& stream, base::UniqueFd fd) {
    block_sigpipe();
    ControlPeer peer(std::move(fd), tls_);
    if (!peer.handshake()) return;
    ControlPeer::Frame frame;
    bool is_first = true;
    while (true) {
      const ControlPeer::Next next = peer.next(frame, stream.wake.get());
      std::deque<v1::LauncherMessage> waiting;
      bool goes_on = true;
      {
        const std::lock_guard lock(mutex_);
        if (next == ControlPeer::Next::kEnd) goes_on = false;
        if (next == ControlPeer::Next::kFrame) goes_on = handle(stream, frame, std::exchange(is_first, false));
        waiting.swap(stream.waiting);
        if (stream.is_ended) goes_on = false;
      }
      for (const v1::LauncherMessage& message : waiting) goes_on = peer.send(message) && goes_on;
      if (goes_on) continue;
      const std::lock_guard lock(mutex_);
      if (stream_ == &stream) stream_ = nullptr;
      return;
    }
  }

  // Returns false if the stream must end.
  bool handle(Stream& stream, const ControlPeer::Frame& frame, bool is_first) {
    v1::AgentMessage message;
    EXPECT_EQ(frame.kind, proto::ControlKind::kMessage) << frame.payload;
    EXPECT_TRUE(message.ParseFromString(frame.payload));
    if (is_first) {
      if (refuses_) return false;
      EXPECT_TRUE(message.has_hello()) << "the first message of a stream is its Hello";
      welcome(message.hello(), stream);
      return true;
    }
    if (stream_ != &stream) return false;
    arrived(message);
    return true;
  }

  void welcome(const v1::Hello& hello, Stream& stream) {
    const bool is_known = hello.launcher_instance() == instance_;
    if (!is_known) {
      EXPECT_EQ(incoming_.last_received(), 0U) << "an agent that was welcomed here has forgotten this instance";
    }
    if (is_known) outgoing_.acknowledged(hello.resume_from());
    v1::LauncherMessage welcome;
    welcome.mutable_welcome()->set_launcher_instance(instance_);
    welcome.set_ack(incoming_.last_received());
    stream.send(welcome);
    for (const v1::LauncherMessage& message : outgoing_.pending()) stream.send(message);
    stream_ = &stream;
    hellos.push_back(hello);
    changed_.notify_all();
  }

  void arrived(const v1::AgentMessage& message) {
    const std::uint64_t before = incoming_.last_received();
    take(message);
    if (incoming_.last_received() == before) return;
    v1::LauncherMessage ack;
    ack.set_ack(incoming_.last_received());
    stream_->send(ack);
  }

  void take(const v1::AgentMessage& message) {
    using Arrival = proto::ReplayQueue<v1::AgentMessage>::Arrival;
    outgoing_.acknowledged(message.ack());
    const Arrival arrival = incoming_.arrived(message.sequence());
    EXPECT_NE(arrival, Arrival::kGap) << "message " << message.sequence() << " after " << incoming_.last_received();
    if (arrival != Arrival::kNew) return;
    if (message.body_case() == v1::AgentMessage::BODY_NOT_SET) return;
    messages.push_back(message);
    changed_.notify_all();
  }

  const std::string instance_;
  const base::TlsContext tls_;
  const base::UniqueFd listening_;
  const base::UniqueFd stop_;
  std::thread accepting_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Stream>> streams_;  // all that there ever were
  Stream* stream_ = nullptr;                      // the one that the agent uses
  bool refuses_ = false;
  proto::ReplayQueue<v1::LauncherMessage> outgoing_;
  proto::ReplayQueue<v1::AgentMessage> incoming_;
};

FakeLauncher::FakeLauncher(LauncherState& state, std::string instance)
    : service_(std::make_unique<Service>(state, std::move(instance))) {}

FakeLauncher::~FakeLauncher() = default;

v1::Hello FakeLauncher::next_hello() {
  v1::Hello hello;
  service_->wait([&] {
    if (service_->hellos.empty()) return false;
    hello = service_->hellos.front();
    service_->hellos.pop_front();
    return true;
  });
  return hello;
}

void FakeLauncher::send(v1::LauncherMessage message) {
  service_->send(std::move(message));
}

void FakeLauncher::send_unnumbered(v1::LauncherMessage message) {
  service_->send_unnumbered(message);
}

void FakeLauncher::cut() {
  service_->cut();
}

void FakeLauncher::refuse_streams(bool on) {
  service_->refuse(on);
}

std::uint64_t FakeLauncher::last_received() {
  return service_->last_received();
}

v1::AgentMessage FakeLauncher::next(const std::function<bool(const v1::AgentMessage&)>& wanted) {
  v1::AgentMessage found;
  service_->wait([&] {
    auto& messages = service_->messages;
    while (!messages.empty()) {
      found = std::move(messages.front());
      messages.pop_front();
      if (wanted(found)) return true;
      found.Clear();
    }
    return false;
  });
  return found;
}

v1::AgentMessage FakeLauncher::next_of(const std::string& job, v1::AgentMessage::BodyCase body) {
  return next([&](const v1::AgentMessage& message) { return message.job_id() == job && message.body_case() == body; });
}

std::vector<v1::AgentMessage> FakeLauncher::all_up_to(const std::string& job, v1::AgentMessage::BodyCase body) {
  std::vector<v1::AgentMessage> all;
  next([&](const v1::AgentMessage& message) {
    if (message.job_id() != job || message.has_pong()) return false;
    all.push_back(message);
    return message.body_case() == body;
  });
  return all;
}

bool ReceivedOutput::wait_until(const std::function<bool()>& condition) {
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, kPatience, condition);
}

FakeHub::FakeHub(LauncherState& state, std::vector<base::TlsKey> keys, ReceivedOutput& taken)
    : taken_(taken),
      tls_(*base::TlsContext::server(std::move(keys))),
      listening_(*base::listen_any(state.output_port, 16)),
      cancel_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  state.output_port = *base::local_port(listening_.get());
  thread_ = std::thread([this] { run(); });
}

FakeHub::~FakeHub() {
  ::eventfd_write(cancel_.get(), 1);
  thread_.join();
  for (std::thread& connection : connections_) connection.join();
}

void FakeHub::run() {
  block_sigpipe();
  while (true) {
    std::array<pollfd, 2> wanted{{{listening_.get(), POLLIN, 0}, {cancel_.get(), POLLIN, 0}}};
    ::poll(wanted.data(), wanted.size(), -1);
    if (wanted[1].revents != 0) return;
    base::UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) continue;
    connections_.emplace_back([this, raw = fd.release()] { serve(base::UniqueFd(raw)); });
  }
}

void FakeHub::serve(base::UniqueFd fd) {
  const auto deadline = Clock::now() + std::chrono::minutes(5);
  base::TlsStream stream(tls_, std::move(fd));
  if (!stream.handshake_blocking(deadline, cancel_.get()).ok()) return;
  const std::string identity = stream.peer_identity();
  std::string bytes;
  std::vector<char> chunk(1 << 16);
  while (true) {
    const auto parse = proto::parse_output_frame(bytes);
    ASSERT_TRUE(parse.ok()) << parse.status();
    if (parse->state == proto::OutputParse::State::kNeedMore) {
      const std::size_t missing = std::min(parse->size - bytes.size(), chunk.size());
      if (!stream.read_exactly_blocking(chunk.data(), missing, deadline, cancel_.get()).ok()) return;
      bytes.append(chunk.data(), missing);
      continue;
    }
    const proto::OutputHeader header = parse->frame.header;
    proto::OutputHeader answer{.kind = proto::OutputKind::kAck, .sequence = header.sequence};
    {
      const std::lock_guard lock(taken_.mutex);
      std::uint64_t& last = taken_.last_delivered[identity];
      if (header.kind == proto::OutputKind::kHello) {
        ++taken_.connections;
        answer = {.kind = proto::OutputKind::kResume, .sequence = last};
      } else {
        EXPECT_LE(header.sequence, last + 1) << "a frame is missing";
        const bool is_new = header.sequence > last;
        if (is_new && header.kind == proto::OutputKind::kData && header.stream == proto::OutputStream::kStdout) {
          taken_.stdout_of[identity + " " + std::to_string(header.rank)] += parse->frame.payload;
        }
        if (is_new && header.kind == proto::OutputKind::kFinish) ++taken_.finished[identity];
        last = std::max(last, header.sequence);
      }
      taken_.changed.notify_all();
    }
    bytes.erase(0, parse->size);
    const std::string out = proto::encode_output_frame(answer, {});
    if (!stream.write_all_blocking(out.data(), out.size(), deadline, cancel_.get()).ok()) return;
  }
}

WarmAgent::WarmAgent(const LauncherState& state, const std::string& session_root,
                     const std::function<void(v1::AgentJoin&)>& adjust, std::vector<std::string> environment) {
  auto in = base::make_pipe();
  auto out = base::make_pipe();
  MUSTER_CHECK(in.ok() && out.ok());
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in->first.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out->second.get(), STDOUT_FILENO);
  char program[] = MUSTER_AGENT_PROGRAM;
  char stdio[] = "--stdio";
  char* const argv[] = {program, stdio, nullptr};
  std::vector<char*> variables;
  for (std::string& entry : environment) variables.push_back(entry.data());
  for (char** entry = ::environ; *entry != nullptr; ++entry) variables.push_back(*entry);
  variables.push_back(nullptr);
  const int failed = ::posix_spawn(&pid_, program, &actions, nullptr, argv, variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failed, 0) << "cannot start " << program;
  stdin_ = std::move(in->second);
  stdout_ = std::move(out->first);
  out->second.reset();
  EXPECT_EQ(read_line(stdout_.get()).substr(0, 13), "MUSTER-AGENT ");
  v1::AgentJoin join;
  join.set_job_id(kStateName);
  join.add_launcher_addresses("127.0.0.1");
  join.set_control_port(state.control_port);
  join.set_token(state.token);
  join.set_link("dial");
  join.set_lease_ms(60'000);
  join.set_session_root(session_root);
  join.set_dial_timeout_ms(10'000);
  join.set_warm(true);
  if (adjust) adjust(join);
  const std::string frame = *proto::frame_message(join);
  EXPECT_TRUE(base::write_all_blocking(stdin_.get(), frame.data(), frame.size()).ok());
  link_line_ = read_line(stdout_.get());
}

WarmAgent::~WarmAgent() {
  if (pid_ <= 0) return;
  kill_now();
  ::waitpid(pid_, nullptr, 0);
}

void WarmAgent::kill_now() {
  ::kill(pid_, SIGKILL);
}

bool WarmAgent::runs() {
  siginfo_t info{};
  return pid_ > 0 && ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

bool WarmAgent::ended_well(std::chrono::milliseconds bound) {
  const auto deadline = Clock::now() + bound;
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) {
      pid_ = 0;
      return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    if (Clock::now() > deadline) return false;
    ::poll(nullptr, 0, 2);
  }
}

pid_t child_named(pid_t parent, const std::string& name) {
  for (const ProcessInfo& info : read_all_processes()) {
    if (info.parent == parent && info.command == name && !info.is_dead()) return info.pid;
  }
  return 0;
}

std::string output_token(const std::string& job) {
  return "the output token of " + job;
}

base::TlsKey output_key(const std::string& job) {
  return {proto::output_identity(job, 0), output_token(job)};
}

v1::LauncherMessage open_job(const std::string& job, const LauncherState& state, bool hold,
                             std::chrono::milliseconds lease, int attempt) {
  v1::LauncherMessage message;
  message.set_job_id(job);
  v1::OpenJob& order = *message.mutable_open_job();
  order.set_attempt(attempt);
  order.set_contain("auto");
  order.set_lease_ms(lease.count());
  order.set_hold(hold);
  order.set_output_token(output_token(job));
  order.set_output_port(state.output_port);
  return message;
}

v1::LauncherMessage prepare(const std::string& job) {
  v1::LauncherMessage message;
  message.set_job_id(job);
  message.mutable_prepare()->set_master_address("127.0.0.1");
  message.mutable_prepare()->set_serve_horovod(true);  // as on rank 0's host
  return message;
}

v1::LauncherMessage launch(const std::string& job, const std::vector<std::vector<std::string>>& commands) {
  v1::LauncherMessage message;
  message.set_job_id(job);
  v1::Launch& body = *message.mutable_launch();
  body.set_workdir("/");
  body.set_umask(022);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    v1::LaunchRank& rank = *body.add_ranks();
    rank.set_rank(static_cast<int>(i));
    for (const std::string& word : commands[i]) rank.add_command(word);
  }
  return message;
}

v1::LauncherMessage stop(const std::string& job) {
  v1::LauncherMessage message;
  message.set_job_id(job);
  message.mutable_stop_ranks();
  return message;
}

v1::LauncherMessage leave(const std::string& job) {
  v1::LauncherMessage message;
  message.set_job_id(job);
  message.mutable_leave();
  return message;
}

void WarmAgentFixture::TearDown() {
  agent_.reset();
  EXPECT_TRUE(eventually(gone_within(), [this] { return !ground_.has_sessions(); }));
  EXPECT_EQ(left_after(job_, gone_within()), 0U);
}

}  // namespace muster::agent::testing
