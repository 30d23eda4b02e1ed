// Point-to-point messages: lines of transfers, the background thread, and their failures.
// Read Transfer and Line first, then drive() and turn(), which move messages, then inspect() and broken(), which fail
// them.
#include "collectives/group/messages.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/thread.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives::inline group {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kSleepMs = 10;
// Used if a message waits for shared memory, which poll() does not see.
constexpr int kShortSleepMs = 1;
// Bytes that a rank of another host sent before it left may arrive after the report of its end.
constexpr milliseconds kLastBytesTime{500};

WaitPolicy without_deadline(WaitPolicy policy) {
  policy.deadline = std::chrono::hours(24 * 365);
  return policy;
}

}  // namespace

// One message that moves or waits until the messages before it are done.
struct Messages::Transfer final : Request {
  Transfer(const Call& the_call, std::span<const std::byte> bytes) : call(the_call), source(bytes), is_send(true) {}
  Transfer(const Call& the_call, std::span<std::byte> bytes) : call(the_call), place(bytes) {}

  std::size_t size() const { return is_send ? source.size() : place.size(); }

  const Call call;
  const std::span<const std::byte> source;
  const std::span<std::byte> place;
  const bool is_send = false;
  bool is_started = false;  // counted in started_
  bool is_over = false;
  std::variant<std::monostate, Outgoing, Incoming> message;  // set once the message is first in its line and has a link
  // When it last moved or became the first of its line, as inspect() observed it.
  base::MonotonicTime moved_at{};
  bool has_moved = false;
  std::optional<base::MonotonicTime> peer_left_at;
  std::shared_ptr<Transfer> next;
};

struct Messages::Line {
  int peer = 0;
  std::uint64_t sequence = 0;
  std::shared_ptr<Transfer> first;
  Transfer* last = nullptr;
};

Messages::Messages(std::unique_ptr<PeerLinks> links, MessageOwner owner, base::UniqueFd wake)
    : links_(std::move(links)),
      owner_(std::move(owner)),
      wake_(std::move(wake)),
      patient_(without_deadline(links_->policy())),
      lines_(2 * static_cast<std::size_t>(links_->size())) {
  for (std::size_t i = 0; i < lines_.size(); ++i) lines_[i].peer = static_cast<int>(i / 2);
}

base::Result<std::unique_ptr<Messages>> Messages::create(std::unique_ptr<PeerLinks> links, MessageOwner owner) {
  base::UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return base::errno_error(errno, "eventfd for a communicator's messages");
  return std::unique_ptr<Messages>(new Messages(std::move(links), std::move(owner), std::move(wake)));
}

Messages::~Messages() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

base::Status Messages::send(int peer, const Call& call, std::span<const std::byte> bytes) {
  return wait_for(peer, std::make_shared<Transfer>(call, bytes));
}

base::Status Messages::receive(int peer, const Call& call, std::span<std::byte> place) {
  return wait_for(peer, std::make_shared<Transfer>(call, place));
}

std::shared_ptr<Request> Messages::start_send(int peer, const Call& call, std::span<const std::byte> bytes) {
  return start(peer, std::make_shared<Transfer>(call, bytes));
}

std::shared_ptr<Request> Messages::start_receive(int peer, const Call& call, std::span<std::byte> place) {
  return start(peer, std::make_shared<Transfer>(call, place));
}

base::Status Messages::wait_for(int peer, const std::shared_ptr<Transfer>& transfer) {
  Lock lock(mutex_);
  add(peer, transfer);
  drive(lock, [&] { return transfer->is_over; });
  return *transfer->test();
}

std::shared_ptr<Request> Messages::start(int peer, std::shared_ptr<Transfer> transfer) {
  Lock lock(mutex_);
  if (!thread_.joinable()) {
    auto started = base::start_thread([this] { run(); });
    if (!started.ok()) {
      transfer->finish(started.status());
      return transfer;
    }
    thread_ = std::move(*started);
  }
  add(peer, transfer);
  // Try to move the message now: a small one finishes here. If the turn fails, the background thread reports the
  // failure.
  turn();
  if (transfer->is_over) return transfer;
  transfer->is_started = true;
  ++started_;
  work_changed_.notify_one();
  wake();
  return transfer;
}

void Messages::add(int peer, const std::shared_ptr<Transfer>& transfer) {
  MUSTER_CHECK(peer >= 0 && peer < links_->size() && peer != links_->rank());
  if (!final_status_.ok()) {
    transfer->is_over = true;
    transfer->finish(final_status_);
    return;
  }
  Line& line = lines_[2 * static_cast<std::size_t>(peer) + (transfer->is_send ? 1 : 0)];
  if (line.first != nullptr) {
    line.last->next = transfer;
  } else {
    line.first = transfer;
    transfer->moved_at = steady_clock::now();
    active_.push_back(&line);
  }
  line.last = transfer.get();
}

void Messages::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals belong to the program's own threads
  Lock lock(mutex_);
  while (true) {
    work_changed_.wait(lock, [this] { return started_ > 0 || stopping_; });
    if (started_ == 0) return;
    drive(lock, [this] { return started_ == 0; });
  }
}

template <typename IsOver>
void Messages::drive(Lock& lock, const IsOver& is_over) {
  Waiter waiter(patient_, links_->abort());
  const auto late = [] { return Failure{base::Code::kDeadlineExceeded, -1, "", "a year has passed"}; };
  while (true) {
    const bool moved = turn();
    settle(lock);
    if (is_over()) return;
    lock.unlock();
    bool is_time = false;
    if (moved) {
      waiter.progress();
    } else {
      const auto sleepy = waiter.is_time_to_sleep(late);
      is_time = !sleepy.ok() || *sleepy;
      if (sleepy.ok() && *sleepy) sleep(is_over);
    }
    lock.lock();
    if (is_time) inspect();
    settle(lock);
    if (is_over()) return;
  }
}

bool Messages::turn() {
  bool has_moved = false;
  for (Line* const line : active_) {
    if (!has_failed_ && turn(*line)) has_moved = true;
  }
  drop_idle();
  return has_moved;
}

void Messages::drop_idle() {
  std::erase_if(active_, [](const Line* line) { return line->first == nullptr; });
}

// Moves as many small messages as can move, or a part of a large one.
bool Messages::turn(Line& line) {
  bool has_moved = false;
  while (line.first != nullptr) {
    Transfer& transfer = *line.first;
    if (!begin(line, transfer)) return has_moved;
    auto* const incoming = std::get_if<Incoming>(&transfer.message);
    auto* const outgoing = std::get_if<Outgoing>(&transfer.message);
    const Moved moved = incoming != nullptr ? incoming->turn() : outgoing->turn();
    if (moved == Moved::kNothing) return has_moved;
    if (moved == Moved::kBroken) {
      const bool differs = incoming != nullptr && incoming->is_mismatch();
      broken(line, differs ? incoming->mismatch(links_->name(line.peer), links_->name(links_->rank()))
                           : (incoming != nullptr ? incoming->link() : outgoing->link()).why());
      return has_moved;
    }
    has_moved = true;
    transfer.has_moved = true;
    if (!(incoming != nullptr ? incoming->is_done() : outgoing->is_done())) return true;
    finish_first(line, base::ok_status());
  }
  return has_moved;
}

// Returns false if the link does not exist yet or has failed.
bool Messages::begin(Line& line, Transfer& transfer) {
  if (!std::holds_alternative<std::monostate>(transfer.message)) return true;
  if (transfer.is_send) {
    // Do not send to a rank that has left, because a ring would accept a message that no rank ever reads.
    const std::string left = owner_.left(line.peer);
    if (!left.empty()) {
      broken(line, base::unavailable("{}: {} {}", describe(transfer.call), links_->name(line.peer), left));
      return false;
    }
  }
  const auto link = links_->try_link(line.peer);
  if (!link.ok()) {
    broken(line, link.status());
    return false;
  }
  if (*link == nullptr) return false;
  const MessageHeader header{.algorithm = static_cast<std::uint32_t>(Algorithm::kDirect),
                             .sequence = ++line.sequence,
                             .call = transfer.call,
                             .bytes = transfer.size()};
  if (transfer.is_send) {
    transfer.message.emplace<Outgoing>(**link, line.peer, header).provide(transfer.source);
  } else {
    transfer.message.emplace<Incoming>(**link, line.peer, header).provide(transfer.place);
  }
  return true;
}

void Messages::broken(const Line& line, const base::Status& why) {
  if (has_failed_) return;
  has_failed_ = true;
  failure_ = Failure{why.code(), links_->world_rank(line.peer), links_->host(line.peer), why.message()};
}

void Messages::settle(Lock& lock) {
  if (!failure_) return;
  const Failure failure = *std::exchange(failure_, std::nullopt);
  lock.unlock();
  const base::Status reported = owner_.fail(failure);
  lock.lock();
  finish_all(reported);
}

// Called while nothing moves. Checks the abort record, the deadline, and whether peers have left.
void Messages::inspect() {
  if (links_->abort().is_raised() && !failure_) {
    const Failure why = links_->abort().read();
    has_failed_ = true;
    finish_all({why.code, why.message});
    return;
  }
  for (Line* const line : active_) {
    if (!has_failed_) inspect_line(*line);
  }
  drop_idle();
}

void Messages::inspect_line(Line& line) {
  Transfer& transfer = *line.first;
  const base::MonotonicTime now = steady_clock::now();
  if (transfer.has_moved) {
    transfer.has_moved = false;
    transfer.moved_at = now;
    transfer.peer_left_at.reset();
    return;
  }
  const std::string left = owner_.left(line.peer);
  if (!left.empty()) {
    if (!transfer.peer_left_at) transfer.peer_left_at = now;
    const bool is_all_here = links_->is_local(line.peer) || now - *transfer.peer_left_at > kLastBytesTime;
    // Messages that the peer sent before it left still count.
    if (!is_all_here || turn(line) || has_failed_) return;
    broken(line,
           base::unavailable("{}: {} {}", transfer.is_send ? describe(transfer.call) : describe_receive(transfer.call),
                             links_->name(line.peer), left));
    return;
  }
  if (now - transfer.moved_at <= links_->policy().deadline) return;
  const double seconds = std::chrono::duration<double>(links_->policy().deadline).count();
  broken(line, transfer.is_send
                   ? base::deadline_exceeded("{}: {} has accepted no data for {} s", describe(transfer.call),
                                             links_->name(line.peer), seconds)
                   : base::deadline_exceeded("{}: no data from {} for {} s", describe_receive(transfer.call),
                                             links_->name(line.peer), seconds));
}

void Messages::finish_first(Line& line, const base::Status& status) {
  const std::shared_ptr<Transfer> transfer = std::move(line.first);
  line.first = std::move(transfer->next);
  if (line.first != nullptr) line.first->moved_at = steady_clock::now();
  transfer->is_over = true;
  if (transfer->is_started) --started_;
  transfer->finish(status);
  wake();  // another thread may wait for this message
}

void Messages::finish_all(const base::Status& status) {
  final_status_ = status;
  for (Line* const line : active_) {
    while (line->first != nullptr) finish_first(*line, status);
  }
  active_.clear();
}

template <typename IsOver>
void Messages::sleep(const IsOver& is_over) {
  std::vector<pollfd> fds{{wake_.get(), POLLIN, 0}};
  bool has_rings = false;
  {
    const Lock lock(mutex_);
    if (is_over()) return;
    has_rings = add_polls(fds);
    if (fds.size() > 1) pollers_.fetch_add(1);
  }
  if (fds.size() == 1) {
    links_->bell().sleep_unless([&] {
      const Lock lock(mutex_);
      return turn() || has_failed_ || is_over();
    });
    return;
  }
  // Ignore the result: after an error or a signal, the caller tries the links again.
  poll(fds.data(), fds.size(), has_rings ? kShortSleepMs : kSleepMs);
  pollers_.fetch_sub(1);
  std::uint64_t woken = 0;
  // If the read fails, another thread has read the counter first.
  if (fds.front().revents != 0 && read(wake_.get(), &woken, sizeof woken) < 0) return;
}

// Adds the descriptors of active lines to `fds`. Returns whether some lines cannot be polled.
bool Messages::add_polls(std::vector<pollfd>& fds) const {
  bool has_others = false;
  for (const Line* const line : active_) {
    const auto* const incoming = std::get_if<Incoming>(&line->first->message);
    const auto* const outgoing = std::get_if<Outgoing>(&line->first->message);
    if (incoming == nullptr && outgoing == nullptr) {
      const pollfd entry = links_->poll_entry(line->peer);
      if (entry.fd >= 0) fds.push_back(entry);
      continue;
    }
    const int fd = (incoming != nullptr ? incoming->link() : outgoing->link()).fd();
    if (fd >= 0) {
      fds.push_back({fd, static_cast<short>(incoming != nullptr ? POLLIN : POLLOUT), 0});
    } else {
      has_others = true;
    }
  }
  return has_others;
}

void Messages::wake() {
  links_->bell().ring();
  if (pollers_.load() == 0) return;
  const std::uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof one) < 0) return;  // if the counter is full, poll() wakes anyway
}

}  // namespace muster::collectives::group
