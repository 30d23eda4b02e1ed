// A rank's session: requests that wait for answers, watches, and reports of ended ranks. Read Session::connect() and
// State::call() first, then on_ready(), handle() and on_answer(), which run on the service thread.
#include "collectives/join/session.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collectives/join/poll_until.h"
#include "rendezvous/session_stream.h"

namespace muster::collectives::inline join {
namespace {

using rendezvous::SessionMessage;
using std::chrono::milliseconds;

// Limit on queued bytes if the session's host does not read. It holds a few of the largest values.
constexpr std::size_t kMaxQueued = 64 << 20;
constexpr milliseconds kSendTurn{50};     // time between two checks of the deadline while the socket accepts nothing
constexpr milliseconds kAnswerTurn{100};  // time between two calls of is_over

// Reads the welcome and no byte more. The service thread polls for what follows, and would miss bytes that are read
// here.
base::Result<SessionMessage> read_first(int fd, base::MonotonicTime end) {
  rendezvous::SessionReader reader;
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(std::optional<SessionMessage> message, reader.next());
    if (message) return std::move(*message);
    if (!poll_until(fd, POLLIN, end)) {
      return base::deadline_exceeded("the host of the session does not answer");
    }
    std::string bytes(std::min<std::size_t>(reader.missing(), 4096), '\0');
    const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return base::errno_error(errno, "session connection");
    if (count == 0) {
      return base::unavailable("the host of the session closed the connection instead of answering");
    }
    bytes.resize(static_cast<std::size_t>(count));
    reader.append(bytes);
  }
}

}  // namespace

class Session::State {
 public:
  State(base::UniqueFd socket, int rank, SessionEvents events)
      : rank_(rank), events_(std::move(events)), stream_(std::move(socket), kMaxQueued) {}

  base::Status begin(base::MonotonicTime end);

  base::Status put(std::string_view key, std::string_view value, base::MonotonicTime end,
                   const std::function<bool()>& is_over);
  base::Result<std::string> wait(std::string_view key, base::MonotonicTime end);
  WatchId watch(std::string_view key, std::function<void(std::string)> found);
  void unwatch(WatchId id);
  void send_only(const SessionMessage& message);
  std::uint64_t next_id();

  bool wants_write() const;
  base::Status on_ready();

  const rendezvous::SessionStream& stream() const { return stream_; }
  const rendezvous::SessionWelcome& welcome() const { return welcome_; }

 private:
  // An unanswered request, either of a thread that waits or of a watch.
  struct Request {
    std::function<void(std::string)> found;  // for a watch
    bool is_answered = false;
    base::Code code = base::Code::kOk;
    std::string bytes;
  };
  using Lock = std::unique_lock<std::mutex>;

  base::Result<std::string> call(SessionMessage message, std::uint64_t id, base::MonotonicTime end,
                                 const std::string& what, const std::function<bool()>& is_over = {});
  void wait_for_answer(Lock& lock, const Request& request, base::MonotonicTime end,
                       const std::function<bool()>& is_over);
  base::Status send(Lock& lock, const SessionMessage& message, base::MonotonicTime end);
  base::Status handle(SessionMessage message);
  void on_answer(std::uint64_t id, base::Code code, std::string bytes);
  void lose(const base::Status& why);

  const int rank_;
  const SessionEvents events_;
  rendezvous::SessionWelcome welcome_;

  mutable std::mutex mutex_;  // guards all members below but the stream's reading half, which the service thread owns
  std::condition_variable changed_;
  rendezvous::SessionStream stream_;
  std::map<std::uint64_t, Request> requests_;
  std::uint64_t next_id_ = 1;
  base::Status lost_;
};

base::Status Session::State::begin(base::MonotonicTime end) {
  MUSTER_RETURN_IF_ERROR(stream_.send(rendezvous::SessionHello{rendezvous::kSessionVersion, rank_}));
  MUSTER_ASSIGN_OR_RETURN(SessionMessage first, read_first(stream_.fd(), end));
  auto* const welcome = std::get_if<rendezvous::SessionWelcome>(&first);
  if (welcome == nullptr) {
    return base::invalid_argument("the host of the session does not begin with a welcome");
  }
  // A host of an earlier version sends fewer kinds of messages.
  if (welcome->version == 0 || welcome->version > rendezvous::kSessionVersion) {
    return base::failed_precondition(
        "the host of the session speaks version {} of its protocol, this program version {}: use a "
        "launcher and a libmuster of the same release",
        welcome->version, rendezvous::kSessionVersion);
  }
  welcome_ = std::move(*welcome);
  return base::ok_status();
}

std::uint64_t Session::State::next_id() {
  const Lock lock(mutex_);
  return next_id_++;
}

// Queues the message. If the socket does not accept all bytes at once, sends the rest here, without the lock.
base::Status Session::State::send(Lock& lock, const SessionMessage& message, base::MonotonicTime end) {
  if (!lost_.ok()) return lost_;
  MUSTER_RETURN_IF_ERROR(stream_.send(message));
  while (lost_.ok() && stream_.wants_write() && base::monotonic_now() < end) {
    lock.unlock();
    (void)poll_until(stream_.fd(), POLLOUT, std::min(end, base::monotonic_now() + kSendTurn));
    lock.lock();
    MUSTER_RETURN_IF_ERROR(stream_.flush());
  }
  return lost_;
}

void Session::State::wait_for_answer(Lock& lock, const Request& request, base::MonotonicTime end,
                                     const std::function<bool()>& is_over) {
  const auto is_done = [&] { return request.is_answered || !lost_.ok(); };
  if (!is_over) {
    changed_.wait_until(lock, end, is_done);
    return;
  }
  while (!changed_.wait_until(lock, std::min(end, base::monotonic_now() + kAnswerTurn), is_done)) {
    if (base::monotonic_now() >= end) return;
    lock.unlock();
    const bool is_useless = is_over();
    lock.lock();
    if (is_useless) return;
  }
}

base::Result<std::string> Session::State::call(SessionMessage message, std::uint64_t id, base::MonotonicTime end,
                                               const std::string& what, const std::function<bool()>& is_over) {
  Lock lock(mutex_);
  const Request& request = requests_[id];  // requests_ keeps it in place until this function erases it
  base::Status status = send(lock, message, end);
  if (status.ok()) {
    wait_for_answer(lock, request, end, is_over);
    if (request.is_answered) {
      status = {request.code, request.bytes};
    } else {
      status = lost_;
    }
  }
  const bool is_answered = request.is_answered;
  const Request answer = std::move(requests_.extract(id).mapped());
  if (!status.ok()) return status.with_context(what);
  if (is_answered) return answer.bytes;
  // An answer that arrives later is ignored.
  if (std::holds_alternative<rendezvous::SessionWait>(message)) (void)stream_.send(rendezvous::SessionCancel{id});
  return base::deadline_exceeded("{}: no answer within the deadline", what);
}

base::Status Session::State::put(std::string_view key, std::string_view value, base::MonotonicTime end,
                                 const std::function<bool()>& is_over) {
  MUSTER_RETURN_IF_ERROR(rendezvous::check_session_key(key));
  MUSTER_RETURN_IF_ERROR(rendezvous::check_session_value(value));
  const std::uint64_t id = next_id();
  const rendezvous::SessionPut message{id, std::string(key), std::string(value)};
  return call(message, id, end, fmt::format("put {}", key), is_over).status();
}

base::Result<std::string> Session::State::wait(std::string_view key, base::MonotonicTime end) {
  MUSTER_RETURN_IF_ERROR(rendezvous::check_session_key(key));
  const std::uint64_t id = next_id();
  return call(rendezvous::SessionWait{id, std::string(key)}, id, end, fmt::format("wait for {}", key));
}

Session::WatchId Session::State::watch(std::string_view key, std::function<void(std::string)> found) {
  MUSTER_CHECK(rendezvous::check_session_key(key).ok());
  const Lock lock(mutex_);
  const std::uint64_t id = next_id_++;
  if (!lost_.ok()) return id;
  requests_[id].found = std::move(found);
  (void)stream_.send(rendezvous::SessionWait{id, std::string(key)});  // the reader notices a broken connection
  return id;
}

void Session::State::unwatch(WatchId id) {
  const Lock lock(mutex_);
  if (requests_.erase(id) > 0 && lost_.ok()) (void)stream_.send(rendezvous::SessionCancel{id});
}

void Session::State::send_only(const SessionMessage& message) {
  const Lock lock(mutex_);
  if (lost_.ok()) (void)stream_.send(message);
}

bool Session::State::wants_write() const {
  const Lock lock(mutex_);
  return lost_.ok() && stream_.wants_write();
}

base::Status Session::State::on_ready() {
  base::Status status;
  {
    const Lock lock(mutex_);
    if (!lost_.ok()) return lost_;
    status = stream_.flush();
  }
  if (status.ok()) {
    const auto read = stream_.read([this](SessionMessage message) { return handle(std::move(message)); });
    status = read.status();
    if (read.ok() && !*read) {
      status = base::unavailable("the host of the session has closed the connection");
    }
  }
  if (!status.ok()) lose(status);
  return status;
}

base::Status Session::State::handle(SessionMessage message) {
  if (auto* const value = std::get_if<rendezvous::SessionValue>(&message)) {
    on_answer(value->id, value->code, std::move(value->bytes));
  } else if (auto* const done = std::get_if<rendezvous::SessionPutDone>(&message)) {
    on_answer(done->id, done->code, std::move(done->text));
  } else if (const auto* const ended = std::get_if<rendezvous::SessionEnded>(&message)) {
    if (events_.on_ended) events_.on_ended(ended->rank, ended->failed, ended->cause);
  } else if (const auto* const silence = std::get_if<rendezvous::SessionSilence>(&message)) {
    if (events_.on_silence) events_.on_silence(silence->rank, silence->is_silent);
  } else {
    return base::invalid_argument("the host of the session sent what only a rank may send");
  }
  return base::ok_status();
}

void Session::State::on_answer(std::uint64_t id, base::Code code, std::string bytes) {
  std::function<void(std::string)> found;
  {
    const Lock lock(mutex_);
    const auto at = requests_.find(id);
    if (at == requests_.end()) return;  // the caller no longer waits for this answer
    if (at->second.found) {
      found = std::move(at->second.found);
      requests_.erase(at);
    } else {
      at->second.is_answered = true;
      at->second.code = code;
      at->second.bytes = std::move(bytes);
      changed_.notify_all();
      return;
    }
  }
  if (code == base::Code::kOk) found(std::move(bytes));
}

void Session::State::lose(const base::Status& why) {
  std::vector<std::function<void(std::string)>> dropped;  // destroyed without the lock
  {
    const Lock lock(mutex_);
    lost_ = {base::Code::kUnavailable, why.message()};
    for (auto& [id, request] : requests_) {
      if (request.found) dropped.push_back(std::exchange(request.found, nullptr));
    }
    changed_.notify_all();
  }
  if (events_.on_lost) events_.on_lost(why);
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;

base::Result<std::unique_ptr<Session>> Session::connect(base::UniqueFd socket, int rank, SessionEvents events,
                                                        milliseconds deadline) {
  auto state = std::make_unique<State>(std::move(socket), rank, std::move(events));
  MUSTER_RETURN_IF_ERROR(state->begin(end_of(deadline)).with_context(fmt::format("session of rank {}", rank)));
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

const std::string& Session::secret() const {
  return state_->welcome().secret;
}

std::uint32_t Session::generation() const {
  return state_->welcome().generation;
}

base::Status Session::put(std::string_view key, std::string_view value, milliseconds deadline,
                          const std::function<bool()>& is_over) {
  return state_->put(key, value, end_of(deadline), is_over);
}

base::Result<std::string> Session::wait(std::string_view key, milliseconds deadline) {
  return state_->wait(key, end_of(deadline));
}

Session::WatchId Session::watch(std::string_view key, std::function<void(std::string)> found) {
  return state_->watch(key, std::move(found));
}

void Session::unwatch(WatchId id) {
  state_->unwatch(id);
}

void Session::put_and_forget(std::string_view key, std::string_view value) {
  if (!rendezvous::check_session_key(key).ok() || !rendezvous::check_session_value(value).ok()) return;
  state_->send_only(rendezvous::SessionPut{state_->next_id(), std::string(key), std::string(value)});
}

void Session::send_goodbye() {
  state_->send_only(rendezvous::SessionGoodbye{});
}

int Session::fd() const {
  return state_->stream().fd();
}

bool Session::wants_write() const {
  return state_->wants_write();
}

base::Status Session::on_ready() {
  return state_->on_ready();
}

}  // namespace muster::collectives::join
