// Helpers for tests of the whole output path: an authority, a hub on 127.0.0.1, senders, rank pipes with known content,
// and a relay that cuts connections after a number of bytes.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "agent/io/output_sender.h"
#include "base/net.h"
#include "base/sanitizers.h"
#include "base/tls.h"
#include "launcherd/output/output_hub.h"
#include "launcherd/output/sinks.h"
#include "proto/peer_names.h"

namespace muster::testing_output {

inline constexpr bool kSanitized = base::kIsSanitized;

inline base::MonotonicTime in_seconds(int seconds) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

template <typename T>
T must(base::Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) std::abort();
  return std::move(result).value();
}

inline base::UniqueFd connect_to(std::uint16_t port) {
  base::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const base::SockAddr to = base::make_sockaddr(must(base::IpAddress::parse("127.0.0.1")), port);
  if (connect(fd.get(), to.get(), to.size) != 0) fd.reset();
  return fd;
}

// The FNV-1a hash of a stream of bytes, and their number. It detects any loss, doubling or reordering.
struct Digest {
  std::uint64_t hash = 1469598103934665603ULL;
  std::uint64_t bytes = 0;
  void add(std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    bytes += text.size();
  }
  bool operator==(const Digest&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Digest& digest) {
  return out << digest.bytes << " bytes, hash " << digest.hash;
}

// The output of a rank: mostly lines of 1 to 200 bytes, some of 64 KiB, progress bars, binary bytes, no final newline.
class Content {
 public:
  Content(unsigned seed, int lines) : random_(seed), lines_(lines) {}

  // Returns false at the end.
  bool next(std::string* line) {
    if (at_ == lines_) return false;
    ++at_;
    const bool is_long = at_ % 1000 == 500;
    line->resize(is_long ? 64 * 1024 : 1 + random_() % 200);
    const unsigned kind = random_() % 16;
    for (char& c : *line) {
      c = kind == 0 ? static_cast<char>(random_() & 0xff) : static_cast<char>('a' + (at_ + (&c - line->data())) % 26);
      if (c == '\n' || c == '\r' || c == '[') c = '.';
    }
    if (at_ < lines_) line->append(kind == 1 ? "\r" : kind == 2 ? "\r\n" : "\n");
    return true;
  }

 private:
  std::mt19937 random_;
  const int lines_;
  int at_ = 0;
};

// Writes Content into a pipe, in pieces that do not match the lines.
inline Digest write_content(int fd, unsigned seed, int lines) {
  Content content(seed, lines);
  std::mt19937 random(seed + 1);
  Digest digest;
  std::string pending;
  std::string line;
  bool more = true;
  while (more) {
    more = content.next(&line);
    if (more) {
      digest.add(line);
      pending += line;
    }
    std::size_t at = 0;
    while (pending.size() - at > 8192 || (!more && at < pending.size())) {
      const std::size_t size = std::min<std::size_t>(pending.size() - at, 1 + random() % 8192);
      EXPECT_TRUE(base::write_all_blocking(fd, pending.data() + at, size).ok());
      at += size;
    }
    pending.erase(0, at);
  }
  return digest;
}

// A sink that keeps a digest per rank and stream. Tests can query it.
class DigestSink final : public launcherd::OutputSink {
 public:
  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override {
    const std::lock_guard lock(mutex_);
    got_[{rank, stream}].add(bytes);
    if ((flags & proto::kPartial) == 0 && bytes.back() != '\n' && bytes.back() != '\r') ++broken_;
    last_[{rank, stream}] = std::string(bytes.substr(0, 4096));
    changed_.notify_all();
    return base::ok_status();
  }
  base::Status end_rank(int) override { return base::ok_status(); }
  base::Status flush() override { return base::ok_status(); }
  void frame(int agent, std::uint64_t sequence) override {
    const std::lock_guard lock(mutex_);
    if (sequence != ++last_frame_[agent]) ++broken_;
  }

  Digest digest(int rank, proto::OutputStream stream = proto::OutputStream::kStdout) {
    const std::lock_guard lock(mutex_);
    return got_[{rank, stream}];
  }
  int broken() {
    const std::lock_guard lock(mutex_);
    return broken_;
  }
  // Waits until the last chunk of the stream is `text`.
  bool wait_for(int rank, proto::OutputStream stream, const std::string& text, int seconds = 20) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, in_seconds(seconds), [&] { return last_[{rank, stream}] == text; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, proto::OutputStream>, Digest> got_;
  std::map<std::pair<int, proto::OutputStream>, std::string> last_;
  std::map<int, std::uint64_t> last_frame_;
  int broken_ = 0;
};

// Remembers events and lets a test wait for them.
class EventLog {
 public:
  launcherd::OutputHubEvents hub_events() {
    launcherd::OutputHubEvents events;
    events.on_rank_ended = [this](int rank, std::uint64_t out, std::uint64_t err) {
      change([&] { ended[rank] = {out, err}; });
    };
    events.on_agent_complete = [this](int agent) { change([&] { complete.insert(agent); }); };
    events.on_agent_cut = [this](int agent) { change([&] { cut.insert(agent); }); };
    events.on_error = [this](const base::Status& status) { change([&] { errors.push_back(status); }); };
    events.on_connection = [this](int agent, const base::Status& status) {
      change([&] { connections.emplace_back(agent, status); });
    };
    return events;
  }
  void stranger(const base::Status& status) {
    change([&] { connections.emplace_back(-1, status); });
  }
  agent::OutputSenderEvents sender_events() {
    agent::OutputSenderEvents events;
    events.on_ended = [this](agent::RankOutputEnd end) { change([&] { sent.emplace(end.rank, end); }); };
    events.on_stderr_tail = [this](int rank, std::string tail) { change([&] { tails[rank] = std::move(tail); }); };
    events.on_connection = [this](base::Status status) { change([&] { links.push_back(std::move(status)); }); };
    return events;
  }
  template <typename Condition>
  bool wait(Condition condition, int seconds = 60) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, in_seconds(seconds), condition);
  }

  std::map<int, std::pair<std::uint64_t, std::uint64_t>> ended;
  std::set<int> complete;
  std::set<int> cut;
  std::vector<base::Status> errors;
  std::vector<std::pair<int, base::Status>> connections;
  std::map<int, agent::RankOutputEnd> sent;
  std::map<int, std::string> tails;
  std::vector<base::Status> links;

 private:
  template <typename Change>
  void change(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Forwards connections to `port`, and cuts each one after its number of bytes (0 means never). Bytes in flight are
// lost.
class Relay {
 public:
  Relay(std::uint16_t port, std::vector<std::size_t> cuts) : to_(port), cuts_(std::move(cuts)) {
    listening_ = must(base::listen_any(0, 16));
    stop_.reset(eventfd(0, EFD_CLOEXEC));
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  std::uint16_t port() { return must(base::local_port(listening_.get())); }
  int cuts_done() const { return cuts_done_; }

 private:
  // Returns false if the relay must stop.
  bool wait(int a, int b) {
    pollfd fds[3] = {{stop_.get(), POLLIN, 0}, {a, POLLIN, 0}, {b, POLLIN, 0}};
    poll(fds, 3, -1);
    ready_[0] = fds[1].revents != 0;
    ready_[1] = fds[2].revents != 0;
    return fds[0].revents == 0;
  }
  void run() {
    for (std::size_t number = 0; wait(listening_.get(), -1); ++number) {
      const base::UniqueFd from(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const base::UniqueFd to = connect_to(to_);
      if (!from.valid() || !to.valid()) continue;
      pass(from.get(), to.get(), number < cuts_.size() ? cuts_[number] : 0);
    }
  }
  void pass(int from, int to, std::size_t cut) {
    std::vector<char> buffer(64 * 1024);
    std::size_t passed = 0;
    while (wait(from, to)) {
      for (const auto& [source, target, is_ready] :
           {std::tuple{from, to, ready_[0]}, std::tuple{to, from, ready_[1]}}) {
        if (!is_ready) continue;
        const ssize_t got = read(source, buffer.data(), buffer.size());
        if (got <= 0) return;
        passed += static_cast<std::size_t>(got);
        if (cut != 0 && passed >= cut) {
          ++cuts_done_;
          return;
        }
        if (send(target, buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) != got) return;
      }
    }
    eventfd_write(stop_.get(), 1);  // also wakes run()
  }

  const std::uint16_t to_;
  const std::vector<std::size_t> cuts_;
  base::UniqueFd listening_;
  base::UniqueFd stop_;
  std::array<bool, 2> ready_{};
  std::atomic<int> cuts_done_{0};
  std::thread thread_;
};

// Owns the hub and the authority of one job, and makes senders.
class Rig {
 public:
  explicit Rig(launcherd::OutputSink* sink, launcherd::OutputHubConfig config = {}) {
    // A launcher ignores the signal. Here a rank may outlive its reader as well.
    signal(SIGPIPE, SIG_IGN);
    base::UniqueFd listening = must(base::listen_any(0, 64));
    port_ = must(base::local_port(listening.get()));
    config.on_stranger = [this](const base::Status& status) { log.stranger(status); };
    hub_ = must(launcherd::OutputHub::start(std::move(config), std::move(listening)));
    hub_->add_job(kJob, sink, log.hub_events());
  }

  void expect(int agent, std::vector<int> ranks) {
    const auto expected =
        hub_->expect_agent(kJob, {.agent = agent, .secret = key(agent).secret, .ranks = std::move(ranks)});
    EXPECT_TRUE(expected.ok()) << expected;
  }

  static constexpr const char* kJob = "abcdefgh";
  static constexpr int kMaxAgents = 64;
  static base::TlsKey key(int agent) {
    return {proto::output_identity(kJob, agent), "secret-of-the-agent-" + std::to_string(agent)};
  }
  agent::OutputSenderConfig sender_config(int agent, std::uint16_t port = 0) {
    const auto dial = [to = port == 0 ? port_ : port](base::MonotonicTime, int) -> base::Result<base::UniqueFd> {
      base::UniqueFd fd = connect_to(to);
      if (!fd.valid()) return base::error(base::Code::kUnavailable, "connect to port {}", to);
      return fd;
    };
    return {.connect = dial, .key = key(agent), .agent_index = agent};
  }

  EventLog log;
  launcherd::OutputHub& hub() { return *hub_; }
  std::uint16_t port() const { return port_; }

 private:
  std::uint16_t port_ = 0;
  std::unique_ptr<launcherd::OutputHub> hub_;
};

// One sender with one rank. The test holds the ends of the rank's pipes.
struct OneRank {
  explicit OneRank(Rig* rig, agent::OutputSenderConfig config) : sender(std::move(config), rig->log.sender_events()) {
    out = must(base::make_pipe());
    err = must(base::make_pipe());
    rig->expect(0, {0});
    sender.add_rank(0, std::move(out.first), std::move(err.first));
  }
  void say(std::string_view text) {
    EXPECT_TRUE(base::write_all_blocking(out.second.get(), text.data(), text.size()).ok());
  }
  void complain(std::string_view text) {
    EXPECT_TRUE(base::write_all_blocking(err.second.get(), text.data(), text.size()).ok());
  }
  void close() {
    out.second.reset();
    err.second.reset();
  }
  base::FdPair out;
  base::FdPair err;
  agent::OutputSender sender;
};

}  // namespace muster::testing_output
