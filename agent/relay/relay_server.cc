// RelayServer: Worker runs the relay's thread on epoll. Read run() first, then the functions for children, then those
// for uplinks.
#include "agent/relay/relay_server.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/relay/relay_child.h"
#include "agent/relay/relay_uplink.h"
#include "base/thread.h"
#include "base/tls.h"

namespace muster::agent::inline relay {
namespace {

using base::MonotonicTime;
using proto::RelayKind;
using proto::ViaService;

constexpr std::uint64_t kRelayWake = 0;
constexpr std::uint64_t kRelayListen = 1;
constexpr std::uint64_t kControlUplink = 2;
constexpr std::uint64_t kOutputUplink = 3;
constexpr std::uint64_t kFirstChild = 4;
constexpr int kBacklog = 1024;
constexpr int kAcceptsAtOnce = 64;
constexpr std::chrono::milliseconds kStarvedPause{100};
constexpr std::chrono::seconds kClosePatience{10};  // for a child that does not read the rest of its stream
constexpr std::chrono::milliseconds kMostWait{60'000};
constexpr MonotonicTime kNever = MonotonicTime::max();

}  // namespace

class RelayServer::Worker {
 public:
  explicit Worker(const RelayServerOptions& options)
      : control_(options.launcher, options.control_port), output_(options.launcher, options.output_port) {}
  ~Worker();

  base::Status start();
  int port() const { return port_; }
  std::size_t children() const;
  void drain_blocking(MonotonicTime deadline);

 private:
  void run();
  int timeout(MonotonicTime now) const;
  void accept_some();
  void serve_child(std::uint64_t id, RelayChild& child, std::uint32_t events);
  base::Status child_step(std::uint64_t id, RelayChild& child);
  base::Status begin_service(std::uint64_t id, RelayChild& child);
  void open_stream(std::uint64_t id, RelayChild& child);
  void close_child(std::uint64_t id);
  void settle(std::uint64_t id, RelayChild& child);
  void serve_uplink(std::uint64_t id, std::uint32_t events);
  base::Status handle(RelayUplink& uplink, const proto::RelayFrame& frame);
  void lose_uplink(std::uint64_t id);
  void connect_uplinks(MonotonicTime now);
  void flush_uplinks();
  void drop_late(MonotonicTime now);
  void poll(int fd, std::uint64_t id, std::uint32_t events, std::uint32_t& polled);
  RelayUplink& uplink(ViaService service) { return service == ViaService::kOutput ? output_ : control_; }
  RelayUplink& uplink_of(std::uint64_t id) { return id == kOutputUplink ? output_ : control_; }
  std::map<std::uint32_t, std::uint64_t>& streams_of(const RelayUplink& of) {
    return &of == &output_ ? output_streams_ : control_streams_;
  }
  void close_idle_children();
  void count_children();

  base::UniqueFd listening_;
  base::UniqueFd epoll_;
  base::UniqueFd wake_;
  int port_ = 0;
  RelayUplink control_;
  RelayUplink output_;
  std::map<std::uint32_t, std::uint64_t> control_streams_;  // ids of children by stream
  std::map<std::uint32_t, std::uint64_t> output_streams_;
  std::unordered_map<std::uint64_t, RelayChild> children_;
  std::deque<std::uint64_t> unproven_;  // oldest first; may hold ids that are proven or gone
  std::uint64_t next_id_ = kFirstChild;
  std::optional<MonotonicTime> accept_again_;

  mutable std::mutex mutex_;  // guards the next three
  std::condition_variable changed_;
  std::size_t count_ = 0;  // children
  bool is_draining_ = false;
  bool is_stopping_ = false;
  std::thread thread_;
};

RelayServer::Worker::~Worker() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    ::eventfd_write(wake_.get(), 1);
  }
  thread_.join();
}

base::Status RelayServer::Worker::start() {
  MUSTER_ASSIGN_OR_RETURN(listening_, base::listen_any(0, kBacklog));
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(listening_.get(), true));
  MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, base::local_port(listening_.get()));
  port_ = port;
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid()) return base::errno_error(errno, "relay: epoll");
  for (const auto& [fd, id] : {std::pair(wake_.get(), kRelayWake), std::pair(listening_.get(), kRelayListen)}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return base::errno_error(errno, "relay: epoll");
  }
  MUSTER_ASSIGN_OR_RETURN(thread_, base::start_thread([this] { run(); }));
  return base::ok_status();
}

std::size_t RelayServer::Worker::children() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

void RelayServer::Worker::drain_blocking(MonotonicTime deadline) {
  std::unique_lock lock(mutex_);
  is_draining_ = true;
  ::eventfd_write(wake_.get(), 1);
  changed_.wait_until(lock, deadline, [this] { return count_ == 0; });
}

void RelayServer::Worker::run() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::array<epoll_event, 128> ready;
  while (true) {
    const int count =
        ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), timeout(base::monotonic_now()));
    {
      const std::lock_guard lock(mutex_);
      if (is_stopping_) return;
      eventfd_t ignored = 0;
      ::eventfd_read(wake_.get(), &ignored);
      if (is_draining_) listening_.reset();
    }
    if (!listening_.valid()) close_idle_children();
    for (int i = 0; i < count; ++i) {
      // Copies: the members of an epoll_event are not aligned.
      const std::uint32_t events = ready[static_cast<std::size_t>(i)].events;
      const std::uint64_t id = ready[static_cast<std::size_t>(i)].data.u64;
      if (id == kRelayListen && listening_.valid()) accept_some();
      if (id == kControlUplink || id == kOutputUplink) serve_uplink(id, events);
      const auto child = children_.find(id);
      if (child != children_.end()) serve_child(id, child->second, events);
    }
    const MonotonicTime now = base::monotonic_now();
    drop_late(now);
    connect_uplinks(now);
    flush_uplinks();
    count_children();
  }
}

// Leaves only the children whose streams the launcher still has.
void RelayServer::Worker::close_idle_children() {
  std::vector<std::uint64_t> idle;
  for (const auto& [id, child] : children_) {
    if (child.phase != RelayChild::Phase::kOpen || child.service() == ViaService::kEcho) idle.push_back(id);
  }
  for (const std::uint64_t id : idle) close_child(id);
}

void RelayServer::Worker::count_children() {
  const std::lock_guard lock(mutex_);
  count_ = children_.size();
  if (count_ == 0) changed_.notify_all();
}

int RelayServer::Worker::timeout(MonotonicTime now) const {
  MonotonicTime next = now + kMostWait;
  if (accept_again_) next = std::min(next, *accept_again_);
  bool waits[2] = {};
  for (const auto& [id, child] : children_) {
    next = std::min(next, child.deadline);
    if (child.phase == RelayChild::Phase::kWaits) waits[child.service() == ViaService::kOutput ? 1 : 0] = true;
  }
  for (const RelayUplink* const link : {&control_, &output_}) {
    if (link->phase() == RelayUplink::Phase::kConnecting) next = std::min(next, link->deadline());
    if (link->phase() == RelayUplink::Phase::kDown && waits[link == &output_ ? 1 : 0]) {
      next = std::min(next, link->again());
    }
  }
  return static_cast<int>(std::max<long>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count(), 0));
}

void RelayServer::Worker::accept_some() {
  const MonotonicTime now = base::monotonic_now();
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    base::UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      const bool is_starved = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (!is_starved) return;
      accept_again_ = now + kStarvedPause;  // the socket stays readable, so do not watch it until then
      epoll_event none{};
      none.data.u64 = kRelayListen;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listening_.get(), &none);
      return;
    }
    base::tune_output_socket(fd.get());
    const std::uint64_t id = next_id_++;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) continue;
    RelayChild& child = children_.emplace(id, RelayChild(std::move(fd), now + kProveTime)).first->second;
    child.polled = EPOLLIN;
    unproven_.push_back(id);
  }
}

void RelayServer::Worker::serve_child(std::uint64_t id, RelayChild& child, std::uint32_t events) {
  base::Status status;
  if ((events & EPOLLOUT) != 0) status = child.write_some(uplink(child.service()).outgoing);
  const bool has_ended = (events & (EPOLLHUP | EPOLLERR)) != 0;
  if (status.ok() && (events & EPOLLIN) != 0) status = child_step(id, child);
  if (status.ok() && has_ended && (events & EPOLLIN) == 0) status = base::unavailable("the child has gone");
  const bool has_all = child.phase == RelayChild::Phase::kClosing && !child.has_unsent();
  if (status.ok() && has_all) status = base::unavailable("the launcher has closed the stream");
  if (!status.ok()) return close_child(id);
  settle(id, child);
}

base::Status RelayServer::Worker::child_step(std::uint64_t id, RelayChild& child) {
  switch (child.phase) {
    case RelayChild::Phase::kHello: {
      MUSTER_ASSIGN_OR_RETURN(const bool is_complete, child.read_hello());
      return is_complete ? begin_service(id, child) : base::ok_status();
    }
    case RelayChild::Phase::kOpen: {
      if (child.service() == ViaService::kEcho) {
        child.deadline = base::monotonic_now() + kProveTime;
        return child.echo();
      }
      RelayUplink& link = uplink(child.service());
      while (!link.is_full()) {
        MUSTER_ASSIGN_OR_RETURN(const bool any, child.forward(link.outgoing));
        if (!any) break;
      }
      return base::ok_status();
    }
    case RelayChild::Phase::kWaits:
    case RelayChild::Phase::kClosing:
      break;
  }
  return base::ok_status();
}

base::Status RelayServer::Worker::begin_service(std::uint64_t id, RelayChild& child) {
  if (child.service() == ViaService::kEcho) {
    child.phase = RelayChild::Phase::kOpen;
    return base::ok_status();
  }
  if (uplink(child.service()).phase() == RelayUplink::Phase::kUp) {
    open_stream(id, child);
  } else {
    child.phase = RelayChild::Phase::kWaits;
    child.deadline = base::monotonic_now() + kHold;
  }
  return base::ok_status();
}

void RelayServer::Worker::open_stream(std::uint64_t id, RelayChild& child) {
  RelayUplink& link = uplink(child.service());
  child.phase = RelayChild::Phase::kOpen;
  child.deadline = base::monotonic_now() + kProveTime;
  child.stream = link.next_stream();
  streams_of(link)[child.stream] = id;
  proto::append_relay_frame({.kind = RelayKind::kOpen, .stream = child.stream}, link.outgoing);
}

void RelayServer::Worker::close_child(std::uint64_t id) {
  const auto found = children_.find(id);
  if (found == children_.end()) return;
  RelayChild& child = found->second;
  RelayUplink& link = uplink(child.service());
  auto& streams = streams_of(link);
  const auto stream = streams.find(child.stream);
  if (stream != streams.end() && stream->second == id) {
    streams.erase(stream);
    if (link.phase() == RelayUplink::Phase::kUp) {
      proto::append_relay_frame({.kind = RelayKind::kClose, .stream = child.stream}, link.outgoing);
    }
  }
  children_.erase(found);
}

// Sets what epoll watches. A child whose uplink is full is not read until that has changed.
void RelayServer::Worker::settle(std::uint64_t id, RelayChild& child) {
  RelayUplink& link = uplink(child.service());
  const bool is_carried = child.phase == RelayChild::Phase::kOpen && child.service() != ViaService::kEcho;
  const bool is_held = is_carried && link.is_full();
  link.was_full = link.was_full || is_held;
  const std::uint32_t reads = child.may_read() && !is_held ? static_cast<std::uint32_t>(EPOLLIN) : 0U;
  const std::uint32_t writes = child.wants_write ? static_cast<std::uint32_t>(EPOLLOUT) : 0U;
  poll(child.fd(), id, reads | writes, child.polled);
}

void RelayServer::Worker::serve_uplink(std::uint64_t id, std::uint32_t events) {
  RelayUplink& link = uplink_of(id);
  base::Status status;
  if (link.phase() == RelayUplink::Phase::kDown) return;
  if (link.phase() == RelayUplink::Phase::kConnecting) {
    status = link.connected();
    if (!status.ok()) return lose_uplink(id);
    for (auto& [child_id, child] : children_) {
      if (child.phase != RelayChild::Phase::kWaits || &uplink(child.service()) != &link) continue;
      open_stream(child_id, child);
      settle(child_id, child);
    }
    return;
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;  // flush_uplinks() writes
  status = link.read_some([this, &link](const proto::RelayFrame& frame) { return handle(link, frame); });
  if (!status.ok()) lose_uplink(id);
}

base::Status RelayServer::Worker::handle(RelayUplink& link, const proto::RelayFrame& frame) {
  auto& streams = streams_of(link);
  const auto stream = streams.find(frame.stream);
  if (stream == streams.end()) return base::ok_status();  // closed by the child; the launcher does not know yet
  const std::uint64_t id = stream->second;
  RelayChild& child = children_.at(id);
  base::Status of_child;
  switch (frame.kind) {
    case RelayKind::kOpen:
      return base::invalid_argument("the launcher opens a stream");
    case RelayKind::kData:
      MUSTER_RETURN_IF_ERROR(child.take(frame.payload));
      of_child = child.write_some(link.outgoing);
      break;
    case RelayKind::kCredit:
      if (frame.credit > proto::kRelayWindow - child.credit) {
        return base::invalid_argument("the launcher grants more bytes than were sent");
      }
      child.credit += frame.credit;
      break;
    case RelayKind::kProven:
      child.is_proven = true;
      child.deadline = kNever;
      return base::ok_status();
    case RelayKind::kClose:
      streams.erase(stream);
      proto::append_relay_frame({.kind = RelayKind::kClose, .stream = frame.stream}, link.outgoing);
      child.phase = RelayChild::Phase::kClosing;
      child.deadline = base::monotonic_now() + kClosePatience;
      if (!child.has_unsent()) of_child = base::unavailable("the launcher has closed the stream");
      break;
  }
  if (!of_child.ok()) {
    close_child(id);
  } else {
    settle(id, child);
  }
  return base::ok_status();
}

void RelayServer::Worker::lose_uplink(std::uint64_t id) {
  RelayUplink& link = uplink_of(id);
  link.lost(base::monotonic_now());
  std::vector<std::uint64_t> gone;
  for (const auto& [stream, child] : std::exchange(streams_of(link), {})) gone.push_back(child);
  for (const std::uint64_t child : gone) close_child(child);
}

void RelayServer::Worker::connect_uplinks(MonotonicTime now) {
  for (const std::uint64_t id : {kControlUplink, kOutputUplink}) {
    RelayUplink& link = uplink_of(id);
    if (link.phase() == RelayUplink::Phase::kConnecting && link.deadline() <= now) lose_uplink(id);
    if (link.phase() != RelayUplink::Phase::kDown || link.again() > now) continue;
    const bool is_wanted = std::any_of(children_.begin(), children_.end(), [&](const auto& entry) {
      return entry.second.phase == RelayChild::Phase::kWaits && &uplink(entry.second.service()) == &link;
    });
    if (!is_wanted) continue;
    epoll_event event{};
    event.events = EPOLLOUT;
    event.data.u64 = id;
    const base::Status begun = link.connect(now);
    if (!begun.ok() || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, link.fd(), &event) != 0) {
      lose_uplink(id);
      continue;
    }
    link.polled = EPOLLOUT;
  }
}

void RelayServer::Worker::flush_uplinks() {
  for (const std::uint64_t id : {kControlUplink, kOutputUplink}) {
    RelayUplink& link = uplink_of(id);
    if (link.phase() != RelayUplink::Phase::kUp) continue;
    if (const base::Status written = link.write_some(); !written.ok()) {
      lose_uplink(id);
      continue;
    }
    const std::uint32_t writes = link.wants_write() ? static_cast<std::uint32_t>(EPOLLOUT) : 0U;
    poll(link.fd(), id, EPOLLIN | writes, link.polled);
    if (!link.was_full || link.is_full()) continue;
    link.was_full = false;
    for (auto& [child_id, child] : children_) {
      if (child.phase == RelayChild::Phase::kOpen) settle(child_id, child);
    }
  }
}

void RelayServer::Worker::drop_late(MonotonicTime now) {
  std::erase_if(unproven_, [this](std::uint64_t id) {
    const auto child = children_.find(id);
    return child == children_.end() || child->second.is_proven;
  });
  while (unproven_.size() > kMostUnproven) {
    close_child(unproven_.front());
    unproven_.pop_front();
  }
  std::vector<std::uint64_t> late;
  for (const auto& [id, child] : children_) {
    if (child.deadline <= now) late.push_back(id);
  }
  for (const std::uint64_t id : late) close_child(id);
  if (!accept_again_ || *accept_again_ > now) return;
  accept_again_.reset();
  if (!listening_.valid()) return;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kRelayListen;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listening_.get(), &event);
}

void RelayServer::Worker::poll(int fd, std::uint64_t id, std::uint32_t events, std::uint32_t& polled) {
  if (events == polled) return;
  polled = events;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

base::Result<std::unique_ptr<RelayServer>> RelayServer::start(RelayServerOptions options) {
  auto worker = std::make_unique<Worker>(options);
  MUSTER_RETURN_IF_ERROR(worker->start());
  return std::unique_ptr<RelayServer>(new RelayServer(std::move(worker)));
}

RelayServer::RelayServer(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
RelayServer::~RelayServer() = default;

int RelayServer::port() const {
  return worker_->port();
}

std::size_t RelayServer::children() const {
  return worker_->children();
}

void RelayServer::drain_blocking(base::MonotonicTime deadline) {
  worker_->drain_blocking(deadline);
}

}  // namespace muster::agent::relay
