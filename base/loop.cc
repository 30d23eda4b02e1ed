// The loop: timers, watches of descriptors, and the asio context.
// Read TimerState and ReadyState first, then Loop::run(), after() and on_readable(), which use them.
#include "base/loop.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/status.h"

namespace muster::base {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Task = Loop::Task;

constexpr auto kPollPeriod = 20ms;  // used only while the process has no free descriptor

// The handle (a Timer) has the only strong reference. Pending handlers have weak ones, and do nothing after it is
// destroyed.
struct TimerState : std::enable_shared_from_this<TimerState> {
  TimerState(asio::io_context& context, Duration period_, bool repeat_, Task task_)
      : timer(context), period(period_), repeat(repeat_), task(std::move(task_)) {}

  void arm() {
    timer.async_wait([weak = weak_from_this()](const boost::system::error_code& failed) {
      const auto self = weak.lock();
      if (failed || self == nullptr) return;
      if (self->repeat) {
        self->timer.expires_at(self->timer.expiry() + self->period);
        // After the whole process was stopped (SIGSTOP), run one tick instead of all missed ones.
        if (self->timer.expiry() < std::chrono::steady_clock::now()) self->timer.expires_after(self->period);
        self->arm();
      }
      const Task due = self->task;  // copy it, because the task may destroy its own handle
      due();
    });
  }

  asio::steady_timer timer;
  Duration period;
  bool repeat;
  Task task;
};

// Watches a duplicate of the caller's descriptor, because asio closes what it watches. While the process has no free
// descriptor for the duplicate, it polls the caller's descriptor. Such a watch is late, but it never fails or misses an
// event.
struct ReadyState : std::enable_shared_from_this<ReadyState> {
  using Wait = asio::posix::stream_descriptor::wait_type;

  ReadyState(asio::io_context& context, int fd_, Wait wait_, Task task_)
      : descriptor(context), next_poll(context), fd(fd_), wait(wait_), task(std::move(task_)) {}

  void begin() {
    if (has_duplicate()) {
      arm();
    } else {
      poll_later();
    }
  }

  bool has_duplicate() {
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
      MUSTER_CHECK(errno != EBADF);
      return false;
    }
    boost::system::error_code failed;
    descriptor.assign(copy, failed);  // fails if epoll has no room left
    if (failed) ::close(copy);
    return !failed;
  }

  void arm() {
    descriptor.async_wait(wait, [weak = weak_from_this()](const boost::system::error_code& failed) {
      const auto self = weak.lock();
      if (failed || self == nullptr) return;
      const Task due = self->task;
      due();
      if (weak.use_count() > 1) self->arm();
    });
  }

  void poll_later() {
    next_poll.expires_after(kPollPeriod);
    next_poll.async_wait([weak = weak_from_this()](const boost::system::error_code& failed) {
      const auto self = weak.lock();
      if (failed || self == nullptr) return;
      if (self->has_duplicate()) return self->arm();
      pollfd own{self->fd, static_cast<short>(self->wait == Wait::wait_read ? POLLIN : POLLOUT), 0};
      if (::poll(&own, 1, 0) > 0) {
        const Task due = self->task;
        due();
      }
      if (weak.use_count() > 1) self->poll_later();
    });
  }

  asio::posix::stream_descriptor descriptor;
  asio::steady_timer next_poll;
  const int fd;
  const Wait wait;
  Task task;
};

Timer watch(asio::io_context& context, int fd, ReadyState::Wait wait, Task task) {
  auto state = std::make_shared<ReadyState>(context, fd, wait, std::move(task));
  state->begin();
  return Timer(std::move(state));
}

}  // namespace

Loop::Loop() : context_(std::make_unique<asio::io_context>(1)) {
  // Make a first timer now, because asio opens its epoll and timer descriptors with it. By the time of the caller's
  // first timer, the process may have no free descriptor.
  const asio::steady_timer first(*context_);
}

Loop::~Loop() = default;

void Loop::run() {
  thread_ = std::this_thread::get_id();
  context_->restart();  // after an earlier stop()
  const auto guard = asio::make_work_guard(*context_);
  context_->run();
}

void Loop::stop() {
  context_->stop();
}

void Loop::post(Task task) {
  asio::post(*context_, std::move(task));
}

bool Loop::inside() const {
  return thread_ == std::thread::id() || thread_ == std::this_thread::get_id();
}

void Loop::assert_inside() const {
  MUSTER_CHECK(inside());
}

Timer Loop::after(Duration delay, Task task) {
  auto state = std::make_shared<TimerState>(*context_, delay, false, std::move(task));
  state->timer.expires_after(delay);
  state->arm();
  return Timer(std::move(state));
}

Timer Loop::every(Duration period, Task task) {
  auto state = std::make_shared<TimerState>(*context_, period, true, std::move(task));
  state->timer.expires_after(period);
  state->arm();
  return Timer(std::move(state));
}

Timer Loop::on_readable(int fd, Task task) {
  return watch(*context_, fd, asio::posix::stream_descriptor::wait_read, std::move(task));
}

Timer Loop::on_writable(int fd, Task task) {
  return watch(*context_, fd, asio::posix::stream_descriptor::wait_write, std::move(task));
}

}  // namespace muster::base
