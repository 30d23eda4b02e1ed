#include "base/loop.h"

#include <unistd.h>

#include <fcntl.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/status.h"

namespace muster::base {
namespace {

namespace asio = boost::asio;
using Task = Loop::Task;

// The handle (a Timer) holds the only strong reference; pending handlers hold weak ones and do nothing once it is gone.
struct TimerState : std::enable_shared_from_this<TimerState> {
  TimerState(asio::io_context& context, Duration period_, bool repeat_, Task task_)
      : timer(context), period(period_), repeat(repeat_), task(std::move(task_)) {}

  void arm() {
    timer.async_wait([weak = weak_from_this()](const boost::system::error_code& failed) {
      const auto self = weak.lock();
      if (failed || self == nullptr) return;
      if (self->repeat) {
        self->timer.expires_at(self->timer.expiry() + self->period);
        // After a pause of the whole process (SIGSTOP) one tick is due, not a burst of all the missed ones.
        if (self->timer.expiry() < std::chrono::steady_clock::now()) self->timer.expires_after(self->period);
        self->arm();
      }
      const Task due = self->task;  // the task may drop its own handle
      due();
    });
  }

  asio::steady_timer timer;
  Duration period;
  bool repeat;
  Task task;
};

struct ReadyState : std::enable_shared_from_this<ReadyState> {
  using Wait = asio::posix::stream_descriptor::wait_type;

  ReadyState(asio::io_context& context, int fd, Wait wait_, Task task_)
      : descriptor(context, fd), wait(wait_), task(std::move(task_)) {}

  void arm() {
    descriptor.async_wait(wait, [weak = weak_from_this()](const boost::system::error_code& failed) {
      const auto self = weak.lock();
      if (failed || self == nullptr) return;
      const Task due = self->task;
      due();
      if (weak.use_count() > 1) self->arm();
    });
  }

  asio::posix::stream_descriptor descriptor;
  const Wait wait;
  Task task;
};

Timer watch(asio::io_context& context, int fd, ReadyState::Wait wait, Task task) {
  // A duplicate, so that the descriptor's destructor closes its own and the caller keeps the original.
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  MUSTER_CHECK(copy >= 0);
  auto state = std::make_shared<ReadyState>(context, copy, wait, std::move(task));
  state->arm();
  return Timer(std::move(state));
}

}  // namespace

Loop::Loop() : context_(std::make_unique<asio::io_context>(1)) {}

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
