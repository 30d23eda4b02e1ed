#include "collectives/bootstrap/service.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/thread.h"
#include "collectives/bootstrap/memory_share.h"

namespace muster::collectives {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kHandshakeTime{5000};  // two lost packets in a row; callers try again
constexpr std::size_t kMaxHandshakes = 256;   // under way at once; the kernel's backlog holds the others
constexpr std::size_t kMaxUnclaimed = 4096;   // links that came before their communicator asked for them
constexpr milliseconds kLookStep{10};
constexpr milliseconds kLastCallTime{500};  // news of a rank's end may be faster than the connection that it had made
constexpr std::size_t kMaxForgotten = 4096;

struct Incoming {
  Handshake handshake;
  base::MonotonicTime end;
  short events = POLLIN;
};

using LinkKey = std::pair<std::string, int>;

}  // namespace

class Service::Thread {
 public:
  Thread(ServiceConfig config, MemoryShare share, base::UniqueFd wake)
      : config_(std::move(config)), share_(std::move(share)), wake_(std::move(wake)) {}

  void run();
  void wake() const {
    const std::uint64_t one = 1;
    // A full counter wakes, too.
    if (write(wake_.get(), &one, sizeof one) < 0) return;
  }
  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping_ = true;
    }
    wake();
    thread.join();
  }

  std::thread thread;
  std::mutex mutex;  // of all below up to the thread's own
  std::condition_variable link_came;
  std::map<LinkKey, Connection> links;
  std::set<std::string> forgotten;             // communicators that are over, the last ones
  std::deque<std::string> forgotten_in_order;  // the same
  std::string secret;
  std::vector<std::shared_ptr<Polled>> new_watches;
  std::vector<std::function<void()>> tasks;

  MemoryShare& share() { return share_; }

 private:
  bool take_news();
  milliseconds time_left() const;
  void accept_new();
  void step_handshakes();
  // False: it is over, one way or the other.
  bool step(Incoming& incoming);
  void deliver(Handshake& handshake);
  void run_tasks();
  static bool run_watch(Polled& watch, const std::vector<pollfd>& fds, std::size_t first, std::size_t last);

  const ServiceConfig config_;
  MemoryShare share_;
  const base::UniqueFd wake_;
  bool stopping_ = false;
  // The thread's own.
  std::string known_secret_;
  std::list<Incoming> incoming_;
  std::vector<std::shared_ptr<Polled>> watches_;
};

void Service::Thread::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are the program's own threads' business
  while (take_news()) {
    std::vector<pollfd> fds{{wake_.get(), POLLIN, 0}};
    const bool is_open = !known_secret_.empty() && incoming_.size() < kMaxHandshakes;
    fds.push_back({config_.listener.get(), static_cast<short>(is_open ? POLLIN : 0), 0});
    for (const Incoming& one : incoming_) fds.push_back({one.handshake.fd(), one.events, 0});
    std::vector<std::size_t> borders{fds.size()};
    for (const std::shared_ptr<Polled>& watch : watches_) {
      watch->add_polls(fds);
      borders.push_back(fds.size());
    }
    {
      const std::lock_guard lock(mutex);
      share_.add_to(fds);
    }
    if (poll(fds.data(), fds.size(), static_cast<int>(time_left().count())) < 0 && errno != EINTR) return;
    std::uint64_t woken = 0;
    while (read(wake_.get(), &woken, sizeof woken) > 0) {
    }
    {
      const std::lock_guard lock(mutex);
      share_.turn();
    }
    if (is_open) accept_new();
    step_handshakes();
    std::size_t place = 0;
    std::erase_if(watches_, [&](const std::shared_ptr<Polled>& watch) {
      const std::size_t first = borders[place++];
      return !run_watch(*watch, fds, first, borders[place]);
    });
    run_tasks();
  }
}

bool Service::Thread::take_news() {
  const std::lock_guard lock(mutex);
  for (std::shared_ptr<Polled>& watch : new_watches) watches_.push_back(std::move(watch));
  new_watches.clear();
  known_secret_ = secret;
  return !stopping_;
}

// Until the oldest handshake must be over; -1 ms: for ever.
milliseconds Service::Thread::time_left() const {
  if (incoming_.empty()) return milliseconds(-1);
  const auto left = std::chrono::ceil<milliseconds>(incoming_.front().end - steady_clock::now());
  return std::max(left, milliseconds(0));
}

void Service::Thread::accept_new() {
  while (incoming_.size() < kMaxHandshakes) {
    base::UniqueFd socket(accept4(config_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    incoming_.push_back({Handshake::answer(std::move(socket), known_secret_, config_.rank, config_.encrypts),
                         steady_clock::now() + kHandshakeTime});
  }
}

void Service::Thread::step_handshakes() {
  std::erase_if(incoming_, [this](Incoming& one) { return !step(one); });
}

bool Service::Thread::step(Incoming& incoming) {
  const auto turn = incoming.handshake.step();
  if (!turn.ok()) return false;  // a stranger, or gone: nothing that anybody here waits for by name
  if (*turn == Handshake::Turn::kDone) {
    deliver(incoming.handshake);
    return false;
  }
  incoming.events = *turn == Handshake::Turn::kWantsRead ? POLLIN : POLLOUT;
  return steady_clock::now() < incoming.end;
}

void Service::Thread::deliver(Handshake& handshake) {
  const LinkRequest& request = handshake.request();
  if (request.purpose == LinkRequest::Purpose::kSession) {
    if (config_.on_session) config_.on_session(request.source, handshake.take_socket());
    return;
  }
  const std::lock_guard lock(mutex);
  if (links.size() >= kMaxUnclaimed || forgotten.contains(request.communicator)) return;
  links[{request.communicator, request.source}] = handshake.take_connection();
  link_came.notify_all();
}

bool Service::Thread::run_watch(Polled& watch, const std::vector<pollfd>& fds, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    if (fds[i].revents != 0 && !watch.on_ready(fds[i].fd)) return false;
  }
  return true;
}

void Service::Thread::run_tasks() {
  std::vector<std::function<void()>> now;
  {
    const std::lock_guard lock(mutex);
    now.swap(tasks);
  }
  for (const std::function<void()>& task : now) task();
}

Service::Service(std::shared_ptr<Thread> thread) : thread_(std::move(thread)) {}

base::Result<std::unique_ptr<Service>> Service::start(ServiceConfig config) {
  MUSTER_ASSIGN_OR_RETURN(MemoryShare share, MemoryShare::open());
  base::UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return base::errno_error(errno, "eventfd, for libmuster's thread");
  auto thread = std::make_shared<Thread>(std::move(config), std::move(share), std::move(wake));
  MUSTER_ASSIGN_OR_RETURN(thread->thread, base::start_thread([thread = thread.get()] { thread->run(); }));
  return std::unique_ptr<Service>(new Service(std::move(thread)));
}

Service::~Service() {
  thread_->stop();
}

const std::string& Service::unix_name() const {
  return thread_->share().unix_name();
}

void Service::set_secret(std::string secret) {
  {
    const std::lock_guard lock(thread_->mutex);
    thread_->secret = std::move(secret);
  }
  thread_->wake();
}

base::Status Service::share(const std::string& name, int fd) {
  {
    const std::lock_guard lock(thread_->mutex);
    MUSTER_RETURN_IF_ERROR(thread_->share().add(name, fd));
  }
  thread_->wake();
  return base::ok_status();
}

void Service::unshare(const std::string& name) {
  const std::lock_guard lock(thread_->mutex);
  thread_->share().remove(name);
}

base::Result<Connection> Service::take_link(const std::string& communicator, int source, milliseconds deadline,
                                            const AbortRecord& abort, const std::function<bool()>& is_gone) {
  const auto end = steady_clock::now() + deadline;
  std::optional<base::MonotonicTime> gone_since;
  std::unique_lock lock(thread_->mutex);
  while (true) {
    const auto found = thread_->links.find({communicator, source});
    if (found != thread_->links.end()) {
      Connection made = std::move(found->second);
      thread_->links.erase(found);
      return made;
    }
    if (abort.is_raised()) {
      const Failure failure = abort.read();
      return base::Status(failure.code, failure.message);
    }
    if (!gone_since && is_gone && is_gone()) gone_since = steady_clock::now();
    if (gone_since && steady_clock::now() - *gone_since > kLastCallTime) {
      return base::error(base::Code::kUnavailable, "rank {} has ended and had not connected (communicator {})", source,
                         communicator);
    }
    if (steady_clock::now() >= end) {
      return base::error(base::Code::kDeadlineExceeded, "rank {} did not connect within {} ms (communicator {})",
                         source, deadline.count(), communicator);
    }
    thread_->link_came.wait_for(lock, kLookStep);
  }
}

void Service::forget(const std::string& communicator) {
  const std::lock_guard lock(thread_->mutex);
  thread_->share().remove(communicator);
  std::erase_if(thread_->links, [&](const auto& link) { return link.first.first == communicator; });
  if (!thread_->forgotten.insert(communicator).second) return;
  thread_->forgotten_in_order.push_back(communicator);
  if (thread_->forgotten.size() <= kMaxForgotten) return;
  thread_->forgotten.erase(thread_->forgotten_in_order.front());
  thread_->forgotten_in_order.pop_front();
}

void Service::watch(std::shared_ptr<Polled> polled) {
  {
    const std::lock_guard lock(thread_->mutex);
    thread_->new_watches.push_back(std::move(polled));
  }
  thread_->wake();
}

void Service::wake() {
  thread_->wake();
}

void Service::post(std::function<void()> task) {
  {
    const std::lock_guard lock(thread_->mutex);
    thread_->tasks.push_back(std::move(task));
  }
  thread_->wake();
}

}  // namespace muster::collectives
