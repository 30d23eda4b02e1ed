// For tests: a session host with its service thread, and sessions of ranks, each with a service thread of its own.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/join/session.h"
#include "collectives/join/session_host.h"

namespace muster::collectives {

inline constexpr std::chrono::milliseconds kTestDeadline{20'000};

// Polls a host on a thread; connections are handed in.
class ServedHost {
 public:
  explicit ServedHost(int size, SessionHostLimits limits = {})
      : host_(size, limits), wake_(base::make_pipe().value()), thread_([this] { serve(); }) {}
  ~ServedHost() {
    wake_.second.reset();
    thread_.join();
  }
  ServedHost(const ServedHost&) = delete;
  ServedHost& operator=(const ServedHost&) = delete;

  // The rank's end of a new connection.
  base::UniqueFd connect(int rank) {
    auto pair = base::make_socketpair(SOCK_STREAM).value();
    const std::lock_guard lock(mutex_);
    coming_.emplace_back(rank, std::move(pair.first));
    if (::write(wake_.second.get(), "x", 1) != 1) std::abort();
    return std::move(pair.second);
  }
  // Fewer than `count` only when they do not come within the deadline.
  std::vector<base::Status> problems(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kTestDeadline, [&] { return problems_.size() >= count; });
    return problems_;
  }

 private:
  void serve() {
    for (;;) {
      std::vector<pollfd> slots{{wake_.first.get(), POLLIN, 0}};
      host_.add_polls(slots);
      ::poll(slots.data(), slots.size(), -1);
      if (slots[0].revents != 0) {
        char bytes[64];
        if (::read(wake_.first.get(), bytes, sizeof bytes) <= 0) return;
      }
      for (std::size_t i = 1; i < slots.size(); ++i) {
        if (slots[i].revents != 0) host_.on_ready(slots[i].fd);
      }
      const std::lock_guard lock(mutex_);
      for (auto& [rank, fd] : std::exchange(coming_, {})) host_.add(rank, std::move(fd));
      for (base::Status& problem : host_.take_problems()) problems_.push_back(std::move(problem));
      changed_.notify_all();
    }
  }

  SessionHost host_;
  base::FdPair wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<int, base::UniqueFd>> coming_;
  std::vector<base::Status> problems_;
  std::thread thread_;
};

// A rank's session, with what it was told.
class TestRank {
 public:
  TestRank(int rank, base::UniqueFd socket) : wake_(base::make_pipe().value()) {
    SessionEvents events;
    events.on_ended = [this](int ended, bool failed, const std::string& cause) {
      note("rank " + std::to_string(ended) + (failed ? " failed: " : " ended: ") + cause);
    };
    events.on_silence = [this](int silent, bool is_silent) {
      note("rank " + std::to_string(silent) + (is_silent ? " is silent" : " answers"));
    };
    events.on_lost = [this](const base::Status& why) { note("lost: " + why.message()); };
    auto session = Session::connect(std::move(socket), rank, std::move(events), kTestDeadline);
    status_ = session.status();
    if (!session.ok()) return;
    session_ = std::move(*session);
    thread_ = std::thread([this] { serve(); });
  }
  ~TestRank() {
    wake_.second.reset();
    if (thread_.joinable()) thread_.join();
  }
  TestRank(const TestRank&) = delete;
  TestRank& operator=(const TestRank&) = delete;

  Session& operator*() { return *session_; }
  Session* operator->() { return session_.get(); }
  const base::Status& status() const { return status_; }

  // False: it was told nothing that begins so within the deadline.
  bool hears(const std::string& begin) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTestDeadline, [&] {
      return std::ranges::any_of(news_, [&](const std::string& what) { return what.starts_with(begin); });
    });
  }
  std::vector<std::string> news() {
    const std::lock_guard lock(mutex_);
    return news_;
  }

 private:
  void note(std::string what) {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(what));
    changed_.notify_all();
  }
  void serve() {
    bool is_lost = false;
    for (;;) {
      pollfd slots[2] = {{wake_.first.get(), POLLIN, 0},
                         {session_->fd(), static_cast<short>(session_->wants_write() ? POLLIN | POLLOUT : POLLIN), 0}};
      ::poll(slots, is_lost ? 1 : 2, -1);
      if (slots[0].revents != 0) return;
      if (!is_lost && slots[1].revents != 0) is_lost = !session_->on_ready().ok();
    }
  }

  base::FdPair wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> news_;
  base::Status status_;
  std::unique_ptr<Session> session_;
  std::thread thread_;
};

}  // namespace muster::collectives
