// The service thread: handshakes of incoming connections, shared memory, and watched objects.
// Read Thread::run() first, then accept_new(), step() and deliver(), then take_link(), which claims a connection.
#include "collectives/join/service.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/net.h"
#include "base/thread.h"
#include "collectives/join/memory_share.h"

namespace muster::collectives::inline join {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kHandshakeTime{5000};  // covers two lost packets in a row; callers try again
// Limit on handshakes at once. At the limit, further connections stay in the kernel's backlog until a handshake ends or
// must make room. The oldest handshake makes room once it has run for kFairTime. If one host has more than half of all
// handshakes, its oldest one makes room at once.
constexpr std::size_t kMaxHandshakes = 256;
constexpr milliseconds kFairTime{1000};
// Pause after file descriptors have run out, because the listener stays readable.
constexpr milliseconds kAcceptPause{100};
constexpr milliseconds kBlindStep{10};       // time between two attempts if poll() cannot be used
constexpr std::size_t kMaxUnclaimed = 4096;  // links that arrived before their communicator asked for them
constexpr milliseconds kPollStep{10};
// Time to wait for a connection after its rank's end was reported, because the report may arrive first.
constexpr milliseconds kLastCallTime{500};
constexpr std::size_t kMaxForgotten = 4096;

struct Incoming {
  Handshake handshake;
  std::string source;  // the address of the peer
  base::MonotonicTime began;
  short events = POLLIN;
};
using Handshakes = std::list<Incoming>;  // in the order in which they came

// Returns whether descriptors or memory ran out, in this process or on this host. Otherwise accept() fails because no
// connection waits.
bool is_out_of_descriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// Waits at most `time` for an event. poll() fails if memory runs out, or if the program lowers its limit of open files
// below the number of `fds`. Then this sleeps kBlindStep. The caller then tries all descriptors, which are
// non-blocking.
void wait_for_any(std::vector<pollfd>& fds, milliseconds time) {
  if (poll(fds.data(), fds.size(), static_cast<int>(time.count())) >= 0 || errno == EINTR) return;
  (void)poll(nullptr, 0, static_cast<int>(kBlindStep.count()));
  for (pollfd& slot : fds) slot.revents = slot.events;
}

std::string source_of(const base::UniqueFd& socket) {
  const auto address = base::peer_address(socket.get());
  return address.ok() ? address->str() : std::string();
}

using LinkKey = std::pair<std::string, int>;

}  // namespace

class Service::Thread {
 public:
  Thread(ServiceConfig config, MemoryShare share, base::UniqueFd wake)
      : config_(std::move(config)), share_(std::move(share)), wake_(std::move(wake)) {}

  void run();
  void wake() const {
    const std::uint64_t one = 1;
    // If the counter is full, the thread wakes anyway.
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
  std::mutex mutex;  // guards all below, up to the thread's own members
  std::condition_variable link_arrived;
  std::map<LinkKey, Connection> links;
  std::set<std::string> forgotten;             // the communicators that ended most recently
  std::deque<std::string> forgotten_in_order;  // the names in `forgotten`, oldest first
  std::string secret;
  std::vector<std::shared_ptr<Polled>> new_watches;
  std::vector<std::function<void()>> tasks;

  MemoryShare& share() { return share_; }

 private:
  bool apply_changes();
  milliseconds time_left() const;
  bool can_accept() const;
  void accept_new();
  Handshakes::const_iterator first_to_evict() const;
  void step_handshakes();
  // Returns false when the handshake is over, whether it succeeded or failed.
  bool step(Incoming& incoming);
  void deliver(Handshake& handshake);
  void run_tasks();
  static bool run_watch(Polled& watch, const std::vector<pollfd>& fds, std::size_t first, std::size_t last);

  const ServiceConfig config_;
  MemoryShare share_;
  const base::UniqueFd wake_;
  bool stopping_ = false;
  // The following members belong to the thread.
  std::string known_secret_;
  Handshakes incoming_;
  base::MonotonicTime accepts_from_{};  // accept nothing before this time
  std::vector<std::shared_ptr<Polled>> watches_;
};

void Service::Thread::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals belong to the program's own threads
  while (apply_changes()) {
    std::vector<pollfd> fds{{wake_.get(), POLLIN, 0}};
    fds.push_back({config_.listener.get(), static_cast<short>(can_accept() ? POLLIN : 0), 0});
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
    wait_for_any(fds, time_left());
    std::uint64_t woken = 0;
    while (read(wake_.get(), &woken, sizeof woken) > 0) {
    }
    {
      const std::lock_guard lock(mutex);
      share_.turn();
    }
    accept_new();
    step_handshakes();
    std::size_t place = 0;
    std::erase_if(watches_, [&](const std::shared_ptr<Polled>& watch) {
      const std::size_t first = borders[place++];
      return !run_watch(*watch, fds, first, borders[place]);
    });
    run_tasks();
  }
}

bool Service::Thread::apply_changes() {
  const std::lock_guard lock(mutex);
  for (std::shared_ptr<Polled>& watch : new_watches) watches_.push_back(std::move(watch));
  new_watches.clear();
  known_secret_ = secret;
  return !stopping_;
}

// Returns the time until the thread must act even if no event arrives; -1 ms means no limit.
milliseconds Service::Thread::time_left() const {
  const base::MonotonicTime now = steady_clock::now();
  std::vector<base::MonotonicTime> moments;
  if (!incoming_.empty()) moments.push_back(incoming_.front().began + kHandshakeTime);
  std::vector<base::MonotonicTime> later{accepts_from_, share_.pauses_until()};
  if (incoming_.size() >= kMaxHandshakes) later.push_back(incoming_.front().began + kFairTime);
  std::ranges::copy_if(later, std::back_inserter(moments), [now](base::MonotonicTime when) { return when > now; });
  if (moments.empty()) return milliseconds(-1);
  return std::max(std::chrono::ceil<milliseconds>(std::ranges::min(moments) - now), milliseconds(0));
}

bool Service::Thread::can_accept() const {
  if (known_secret_.empty() || steady_clock::now() < accepts_from_) return false;
  return incoming_.size() < kMaxHandshakes || first_to_evict() != incoming_.end();
}

// Returns the handshake that must make room for a new one, or the end if none must. Any of them may be chosen, because
// none of their peers has proved yet that it knows the secret.
Handshakes::const_iterator Service::Thread::first_to_evict() const {
  if (incoming_.empty() || steady_clock::now() - incoming_.front().began > kFairTime) return incoming_.begin();
  std::map<std::string_view, std::size_t> of_source;
  for (const Incoming& one : incoming_) {
    if (++of_source[one.source] <= kMaxHandshakes / 2) continue;
    return std::ranges::find(incoming_, one.source, &Incoming::source);
  }
  return incoming_.end();
}

// Accepts at most kMaxHandshakes / 4 connections per call. Otherwise a new handshake could be evicted before its first
// step.
void Service::Thread::accept_new() {
  for (std::size_t i = 0; i < kMaxHandshakes / 4 && can_accept(); ++i) {
    base::UniqueFd socket(accept4(config_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (is_out_of_descriptors(errno)) accepts_from_ = steady_clock::now() + kAcceptPause;
      return;
    }
    if (incoming_.size() >= kMaxHandshakes) incoming_.erase(first_to_evict());
    std::string source = source_of(socket);
    incoming_.push_back({Handshake::answer(std::move(socket), known_secret_, config_.rank, config_.encrypts),
                         std::move(source), steady_clock::now()});
  }
}

void Service::Thread::step_handshakes() {
  std::erase_if(incoming_, [this](Incoming& one) { return !step(one); });
}

bool Service::Thread::step(Incoming& incoming) {
  const auto turn = incoming.handshake.step();
  if (!turn.ok()) return false;  // the peer is a stranger or has ended; no caller needs its error
  if (*turn == Handshake::Turn::kDone) {
    deliver(incoming.handshake);
    return false;
  }
  incoming.events = *turn == Handshake::Turn::kWantsRead ? POLLIN : POLLOUT;
  return steady_clock::now() - incoming.began < kHandshakeTime;
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
  link_arrived.notify_all();
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

void Service::name_thread(int size) {
  pthread_setname_np(thread_->thread.native_handle(), fmt::format("muster of {}", size).c_str());
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
      return base::unavailable("rank {} ended before it connected (communicator {})", source, communicator);
    }
    if (steady_clock::now() >= end) {
      return base::deadline_exceeded("rank {} did not connect within {} ms (communicator {})", source, deadline.count(),
                                     communicator);
    }
    thread_->link_arrived.wait_for(lock, kPollStep);
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

}  // namespace muster::collectives::join
